//! Whole numbers as the doubles that Lua computes with.

/// Every whole number up to this is an exact double.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

const TWO_TO_32: f64 = 4_294_967_296.0;
const MANTISSA_BITS: u64 = 52;
const EXPONENT_BIAS: u64 = 1_023;

/// The number as a double; above [`MAX_EXACT`] saturates, which stays above every amount and level.
pub(crate) fn to_double(number: u64) -> f64 {
    let number = number.min(MAX_EXACT);
    let halves = (u32::try_from(number >> 32), u32::try_from(number & 0xffff_ffff));
    match halves {
        (Ok(high), Ok(low)) => f64::from(high) * TWO_TO_32 + f64::from(low),
        _ => TWO_TO_32 * TWO_TO_32,
    }
}

/// The whole number below [`MAX_EXACT`] that a double holds; `None` if it is negative, fractional or larger.
pub(crate) fn from_double(double: f64) -> Option<u64> {
    let bits = double.to_bits();
    if bits << 1 == 0 {
        return Some(0);
    }
    let exponent = (bits >> MANTISSA_BITS).checked_sub(EXPONENT_BIAS)?;
    let fraction_bits = MANTISSA_BITS.checked_sub(exponent)?;
    let mantissa = (bits & ((1 << MANTISSA_BITS) - 1)) | (1 << MANTISSA_BITS);
    let number = mantissa >> fraction_bits;
    (number << fraction_bits == mantissa).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_survive_the_way_through_a_double() {
        let near_powers = (0..53).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << (bit + 1)) - 1]);
        for number in near_powers {
            assert_eq!(from_double(to_double(number)), Some(number));
        }
        assert_eq!(to_double(u64::MAX).to_bits(), to_double(MAX_EXACT).to_bits());
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        for double in [0.5, 1.5, -1.0, f64::NAN, f64::INFINITY, 1e300, 4_503_599_627_370_495.5] {
            assert_eq!(from_double(double), None, "{double}");
        }
    }
}
