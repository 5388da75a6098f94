//! Policies made of other products' files: they are policies, they decide as the originals do, and what they do not say
//! is named.

use std::{fs, path::Path};

use sluicegate::core::{
    Attributes, Costs, Policy,
    policy::{Applied, Enforcement},
};
use sluicegate_server::import::{Import, Source, envoy, limitador};

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/import").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn from_envoy() -> Import {
    let text = sample("envoy-shop.yaml");
    envoy::import(&[Source { name: "envoy-shop.yaml", text: &text }]).unwrap()
}

pub(crate) fn from_limitador() -> Import {
    let text = sample("limitador-toys.yaml");
    limitador::import(Source { name: "limitador-toys.yaml", text: &text }).unwrap()
}

fn read(import: &Import) -> Vec<Policy> {
    let parse = |text: &str| Policy::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    import.policies.iter().map(|policy| parse(&policy.text)).collect()
}

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// What applies to a request: `name amount/seconds subject`.
fn applied(policy: &Policy, attributes: Pairs<'_>) -> Vec<String> {
    let attributes: Attributes = attributes.iter().copied().collect();
    let applied = policy.apply(&attributes, &Costs::default()).unwrap().limits;
    let line = |applied: &Applied<'_>| {
        let (_, window) = applied.limit.grant.shape();
        match &applied.ask {
            Some(ask) => {
                format!(
                    "{} {}/{}s {}",
                    applied.limit.name,
                    ask.rule.amount(),
                    window.unwrap().as_secs(),
                    ask.subject
                )
            }
            None => format!("{} unlimited", applied.limit.name),
        }
    };
    applied.iter().map(line).collect()
}

#[test]
fn an_envoy_configuration_counts_the_same_requests_by_the_same_keys() {
    let policies = read(&from_envoy());
    let [policy] = policies.as_slice() else { panic!("{} policies", policies.len()) };
    assert_eq!(policy.domain(), "shop");
    let cases: [(Pairs<'_>, &[&str]); 10] = [
        (&[("area", "catalogue")], &["catalogue 50/1s {shop}"]),
        (&[("area", "images")], &["area-images unlimited"]),
        (&[("caller", "bob")], &["caller 1000/3600s {shop:caller=bob}"]),
        // The partner has a number of its own, and not the general one beside it.
        (&[("caller", "acme")], &["caller-acme 25000/3600s {shop}"]),
        (&[("area", "checkout"), ("method", "invoice")], &["area-checkout-method-invoice 40/604800s {shop}"]),
        (&[("area", "checkout"), ("method", "credit")], &["area-checkout-method-credit 100/2592000s {shop}"]),
        (&[("path", "/invoices/1")], &["path-invoices 10/60s {shop:path=/invoices/1}"]),
        (&[("path", "/exports/1")], &["path-exports 3/60s {shop}"]),
        (&[("x-api_key", "[scraper]")], &["x-api-key-scraper 0/86400s {shop}"]),
        (&[("x-api_key", "s")], &[]),
    ];
    for (attributes, expected) in cases {
        assert_eq!(applied(policy, attributes), expected, "{attributes:?}");
    }
    let nested = applied(policy, &[("area", "checkout"), ("caller", "bob"), ("basket", "7")]);
    assert!(nested.contains(&"area-checkout-caller 5/60s {shop:caller=bob}".to_owned()), "{nested:?}");
    let voucher = applied(policy, &[("area", "checkout"), ("method", "voucher")]);
    assert_eq!(voucher, ["area-checkout-method-voucher 12/31536000s {shop}"]);
    assert_eq!(policy.limits().iter().filter(|limit| limit.enforcement == Enforcement::Shadow).count(), 1);
    let basket = "area-checkout-caller-basket 20/86400s {shop:caller=bob:basket=7}".to_owned();
    assert!(nested.contains(&basket), "{nested:?}");
}

/// There, a limit that `replaces` another is counted instead of it; here, the other is unlimited where the first applies.
#[test]
fn a_limit_that_replaces_another_takes_its_place_where_it_applies() {
    let text = "domain: d
descriptors:
  - { key: host, rate_limit: { name: general, unit: minute, requests_per_unit: 5 } }
  - key: plan
    value: gold
    descriptors:
      - { key: user, rate_limit: { unit: minute, requests_per_unit: 50, replaces: [{ name: general }] } }
";
    let import = envoy::import(&[Source { name: "x", text }]).unwrap();
    assert!(import.notes.is_empty(), "{:?}", import.notes);
    let policies = read(&import);
    let general = "general 5/60s {d:host=a}";
    assert_eq!(applied(&policies[0], &[("host", "a")]), [general]);
    assert_eq!(applied(&policies[0], &[("host", "a"), ("plan", "gold")]), [general]);
    assert_eq!(applied(&policies[0], &[("host", "a"), ("plan", "iron"), ("user", "u")]), [general]);
    let replaced = applied(&policies[0], &[("host", "a"), ("plan", "gold"), ("user", "u")]);
    assert_eq!(replaced, ["general unlimited", "plan-gold-user 50/60s {d:user=u}"]);
}

#[test]
fn a_limitador_file_becomes_a_policy_per_namespace() {
    let policies = read(&from_limitador());
    let [toys, warehouse] = policies.as_slice() else { panic!("{} policies", policies.len()) };
    assert_eq!((toys.domain(), warehouse.domain()), ("toys", "store_warehouse"));
    let all = "all 1000/1s {toys}";
    assert_eq!(
        applied(toys, &[("req.method", "GET"), ("user", "bob")]),
        ["reads 600/60s {toys:user=bob}", all]
    );
    // A variable that is missing keeps the limit from applying.
    assert_eq!(applied(toys, &[("req.method", "GET")]), [all]);
    let post = [("req.method", "POST"), ("path", "/toys/3"), ("user", "bob"), ("shop", "7")];
    let name = "per-user-per-shop-req-method-post-path-toys";
    let others = "path-not-health 5/86400s {toys}";
    assert_eq!(applied(toys, &post), [&format!("{name} 20/3600s {{toys:user=bob:shop=7}}"), others, all]);
    assert_eq!(applied(toys, &[("path", "/health")]), [all]);
    assert_eq!(applied(warehouse, &[("shelf", "a")]), ["per-shelf 10/90s {store_warehouse:shelf=a}"]);
}

/// What is not expressed is named with its line, next to the policy and inside it.
/// `SLUICEGATE_BLESS=1` writes the policies and notes anew, for a person to review.
#[test]
fn what_cannot_be_expressed_is_said_line_by_line() {
    for (name, import) in [("envoy-shop", from_envoy()), ("limitador-toys", from_limitador())] {
        assert!(!import.notes.is_empty());
        for note in &import.notes {
            assert!(import.policies[0].text.contains(&note.to_string()), "{note}");
        }
        let policies: Vec<_> = import.policies.iter().map(|policy| policy.text.as_str()).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../policies/import/{name}.txt"));
        let written = policies.join("---\n");
        if std::env::var_os("SLUICEGATE_BLESS").is_some() {
            fs::write(&path, &written).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), written, "run with SLUICEGATE_BLESS=1");
    }
}

#[test]
fn every_line_that_is_not_expressed_has_its_note() {
    let lines = |import: &Import| import.notes.iter().map(|note| note.line).collect::<Vec<_>>();
    let text = sample("envoy-shop.yaml");
    let line = |part| line_of(&text, part);
    for part in ["detailed_metric", "name: nobody", "colour: green", "unit: decade", "x-api key"] {
        assert!(lines(&from_envoy()).contains(&line(part)), "{part}: {:#?}", from_envoy().notes);
    }
    let text = sample("limitador-toys.yaml");
    let line = |part| line_of(&text, part);
    for part in ["burst: 20", "store/warehouse"] {
        assert!(lines(&from_limitador()).contains(&line(part)), "{part}: {:#?}", from_limitador().notes);
    }
}

#[test]
fn what_is_no_such_file_is_refused() {
    let envoy = |text| envoy::import(&[Source { name: "x", text }]).unwrap_err().to_string();
    assert!(envoy("a: [").starts_with("x: line 1"), "{}", envoy("a: ["));
    assert_eq!(envoy("[]"), "x:1: expected a mapping with `domain` and `descriptors`");
    assert_eq!(envoy("descriptors: []"), "x:1: expected a `domain`");
    assert_eq!(envoy("domain: a"), "no limit could be imported");
    let limitador = |text| limitador::import(Source { name: "x", text }).unwrap_err().to_string();
    assert_eq!(limitador("domain: a"), "x:1: expected a list of limits");
    assert_eq!(limitador("[7]"), "no limit could be imported");
}

fn line_of(text: &str, part: &str) -> u64 {
    (1..).zip(text.lines()).find(|(_, line)| line.contains(part)).unwrap().0
}
