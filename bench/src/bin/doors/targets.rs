//! Ratios, each held against its target.

/// What a ratio should be.
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// Prints the head of the table.
pub fn head() {
    println!("| processor time of the server | ratio | target |");
    println!("|---|---|---|");
}

/// Prints a ratio, and whether it meets its target.
pub fn ratio(name: &str, ratio: f64, target: Target) {
    figure(name, ratio, "x", target);
}

/// Prints a figure of that unit, and whether it meets its target.
pub fn figure(name: &str, figure: f64, unit: &str, target: Target) {
    let (sign, bound, met) = match target {
        Target::AtLeast(bound) => ("at least", bound, figure >= bound),
        Target::AtMost(bound) => ("at most", bound, figure <= bound),
    };
    let met = if met { "met" } else { "**missed**" };
    println!("| {name} | {figure:.2}{unit} | {sign} {bound}{unit}, {met} |");
}

/// Prints that a peer was not there.
pub fn absent(name: &str) {
    println!("| {name} | not measured: `THROTTLECRAB_SERVER` names no program | |");
}
