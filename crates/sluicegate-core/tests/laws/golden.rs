//! Numbers that stored state depends on: no release may ever change them, or every counter in use is lost or read
//! as something else. A failure here is a break of the stored format, not a stale test.

use std::time::Duration;

use sluicegate_core::{Align, LimitId, Micros, Rule, Subject, Tick};

use crate::spec::{Kind, MINUTE, Spec};

#[test]
fn the_id_of_a_limit_never_changes() {
    let (second, minute, day) =
        (Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(86_400));
    let ids = [
        ("per-user", Rule::fixed_window(10, minute, Align::Epoch), 1_204_861_745),
        ("per-user", Rule::fixed_window(10, minute, Align::Hashed), 214_735_038),
        ("per-user", Rule::fixed_window(10, minute, Align::FirstRequest), 1_345_791_488),
        ("per-user", Rule::sliding_log(10, minute), 1_694_612_717),
        ("per-user", Rule::sliding_counter(10, minute), 1_579_016_546),
        ("burst", Rule::token_bucket(10, second, 50), 3_256_735_147),
        ("burst", Rule::gcra(10, second, 50), 3_716_973_287),
        ("smooth", Rule::leaky_bucket(10, second, minute), 1_241_459_509),
        ("daily", Rule::sliding_counter(1_000_000, day), 1_759_767_280),
    ];
    for (name, rule, id) in ids {
        let rule = rule.unwrap();
        assert_eq!(LimitId::of(name, &rule).as_u32(), id, "{name} {}", rule.algorithm());
    }
}

#[test]
fn the_id_depends_on_name_algorithm_window_and_alignment_and_not_on_amounts() {
    let minute = Duration::from_secs(60);
    let id = |name, rule: Result<Rule, _>| LimitId::of(name, &rule.unwrap());
    let bucket = id("a", Rule::token_bucket(10, minute, 50));
    assert_eq!(bucket, id("a", Rule::token_bucket(11, minute, 5)));
    assert_ne!(bucket, id("b", Rule::token_bucket(10, minute, 50)));
    assert_ne!(bucket, id("a", Rule::gcra(10, minute, 50)));
    assert_ne!(bucket, id("a", Rule::token_bucket(10, minute * 2, 50)));
    let window = id("a", Rule::fixed_window(10, minute, Align::Epoch));
    assert_ne!(window, id("a", Rule::fixed_window(10, minute, Align::Hashed)));
    let queue = id("a", Rule::leaky_bucket(10, minute, minute));
    assert_eq!(queue, id("a", Rule::leaky_bucket(20, minute, minute * 2)));
}

#[test]
fn the_text_of_a_subject_never_changes() {
    let long = "x".repeat(97);
    let emoji = "🦀".repeat(9);
    let cases: [(&[_], &[_], &str); 9] = [
        (&[], &[], "{api}"),
        (&[], &[("user", Some("alice"))], "{api:user=alice}"),
        (&[], &[("user", None)], "{api:user}"),
        (&[], &[("user", Some(""))], "{api:user=}"),
        (
            &[],
            &[("user", Some("a:b{c}%d e\n\0")), ("ip", Some("2001:db8::1"))],
            "{api:user=a%3Ab%7Bc%7D%25d%20e%0A%00:ip=2001%3Adb8%3A%3A1}",
        ),
        (&[("org", Some("acme"))], &[("user", Some("alice"))], "{api:org=acme}:user=alice"),
        (&[("org", Some("acme"))], &[], "{api:org=acme}"),
        (&[], &[("user", Some(&long))], "{api:user=%h19A8F07EEB7F3D0C0B7377E37D72ECCDE144CEFEB44BEAC9}"),
        (&[], &[("user", Some(&emoji))], "{api:user=%h9D538820BF96CA2CF2C1FEAB4FD997260561A569EB606ADA}"),
    ];
    for (slot_by, key, text) in cases {
        assert_eq!(Subject::new("api", slot_by, key).as_str(), text);
    }
}

#[test]
fn the_tick_of_a_window_never_changes() {
    for (window_us, tick_us) in [
        (1_000, 1),
        (9_999_999, 1),
        (10_000_000, 1_000),
        (86_399_999_000, 1_000),
        (86_400_000_000, 1_000_000),
        (316_224_000_000_000, 1_000_000),
    ] {
        assert_eq!(Tick::for_window_us(window_us).as_micros(), tick_us, "{window_us}");
    }
}

#[test]
fn the_phase_of_a_key_never_changes() {
    let rule = Spec { kind: Kind::Fixed(Align::Hashed), amount: 1, window_us: MINUTE }.rule();
    for (key, phase) in [
        ("", 52_947),
        ("{api:user=alice}", 415),
        ("{api:user=bob}", 20_073),
        ("{api:org=acme}:user=🦀", 59_899),
    ] {
        assert_eq!(rule.at(Micros::new(0), key.as_bytes()).phase, phase, "{key}");
    }
}

#[test]
fn the_last_instant_never_changes() {
    assert_eq!(Micros::MAX.as_u64(), 7_881_299_347_898_368);
}
