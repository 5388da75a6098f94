//! A replayed log: what the policy decides is counted again here, from the rules alone.

use std::{
    collections::{HashMap, VecDeque},
    io::Write as _,
};

use sluicegate::core::Policy;
use sluicegate_server::replay::{self, Config, FieldMap, Mapping, Named, Report};

use crate::traffic::{Traffic, Visit, line};

const POLICY: &str = "version: 1
limits:
  - { name: edge, algorithm: fixed_window, limit: 7000, per: 1m, key: [] }
  - { name: per-ip, algorithm: sliding_log, limit: 20, per: 10s, key: [ip] }
  - { name: per-user, algorithm: fixed_window, limit: 60, per: 1m, key: [user], if_missing: skip }
  - { name: search, algorithm: fixed_window, limit: 3, per: 1s, key: [ip], match: { endpoint: /search } }
";

fn named(name: &str, text: &str) -> Named {
    Named { name: name.to_owned(), policy: Policy::parse(text).unwrap() }
}

fn replay(log: impl std::io::BufRead, texts: &[&str]) -> Report {
    let policies = texts.iter().map(|text| named("p.yaml", text)).collect();
    replay::run(log, &Config::default(), policies, |_| {}).unwrap()
}

/// The same four limits, counted with maps and queues.
#[derive(Default)]
struct ByHand {
    edge: HashMap<u64, u64>,
    per_ip: HashMap<u64, VecDeque<u64>>,
    per_user: HashMap<(u64, u64), u64>,
    search: HashMap<(u64, u64), u64>,
    latest_s: u64,
    late: u64,
    passed: u64,
    /// Denials by limit, in the order of the policy, and by address for the second.
    denied: [u64; 4],
    matched: [u64; 4],
    by_ip: HashMap<String, u64>,
}

impl ByHand {
    fn decide(&mut self, visit: &Visit) {
        self.late += u64::from(visit.at_s < self.latest_s);
        let now_s = self.latest_s.max(visit.at_s);
        self.latest_s = now_s;
        let (minute, caller) = (now_s / 60, visit.caller);
        let log = self.per_ip.entry(caller).or_default();
        while log.front().is_some_and(|at_s| at_s + 10 <= now_s) {
            log.pop_front();
        }
        let applies = [true, true, caller.is_multiple_of(3), visit.path.starts_with("/search")];
        let edge = self.edge.entry(minute).or_default();
        let per_user = self.per_user.entry((minute, caller)).or_default();
        let search = self.search.entry((now_s, caller)).or_default();
        let room = [*edge < 7_000, log.len() < 20, *per_user < 60, *search < 3];
        let denies: Vec<bool> = (0..4).map(|limit| applies[limit] && !room[limit]).collect();
        for limit in 0..4 {
            self.matched[limit] += u64::from(applies[limit]);
            self.denied[limit] += u64::from(denies[limit]);
        }
        if denies[1] {
            *self.by_ip.entry(visit.ip()).or_default() += 1;
        }
        if denies.contains(&true) {
            return;
        }
        self.passed += 1;
        log.push_back(now_s);
        *edge += 1;
        *per_user += u64::from(applies[2]);
        *search += u64::from(applies[3]);
    }
}

/// A million lines, read from a stream: every number of the report is the one that is counted by hand.
#[test]
fn a_log_of_a_million_lines_is_decided_to_the_request() {
    const LINES: u64 = 1_000_000;
    let traffic = Traffic::new(7, LINES);
    let mut by_hand = ByHand::default();
    let mut bad = 0;
    for visit in traffic.clone() {
        visit.map_or_else(|| bad += 1, |visit| by_hand.decide(&visit));
    }
    let map = FieldMap::new(["ip=.ip", "user=.user", "endpoint=.path"].map(|text| text.parse().unwrap()));
    let config = Config { map, ..Config::default() };
    let report = replay::run(traffic.log(), &config, vec![named("p.yaml", POLICY)], |_| {}).unwrap();
    assert_eq!((report.requests, report.bad_lines.count), (LINES - bad, bad));
    assert_eq!(report.bad_lines.first.len(), 5);
    assert_eq!(report.bad_lines.first[0].why, "it has no time in brackets");
    assert_eq!(report.disorder.count, by_hand.late);
    assert!(by_hand.late > 100 && (1_000..=4_000).contains(&report.disorder.longest_ms));
    let policy = &report.policies[0];
    assert_eq!((policy.passed, policy.passed + policy.denied), (by_hand.passed, report.requests));
    assert_eq!(policy.malformed, 0);
    for (limit, told) in policy.limits.iter().enumerate() {
        let expected = (by_hand.matched[limit], by_hand.denied[limit]);
        assert_eq!((told.matched, told.denied), expected, "{}", told.name);
        assert!(told.denied > 100, "{} hardly ever denies", told.name);
    }
    for worst in &policy.limits[1].worst {
        let truth = by_hand.by_ip[worst.key.strip_prefix("ip=").unwrap()];
        assert!(worst.denied <= truth && truth <= worst.denied + worst.missed_at_most, "{worst:?} {truth}");
    }
    let most = by_hand.by_ip.values().max().unwrap();
    let told = &policy.limits[1].worst[0];
    assert!(told.denied + told.missed_at_most >= *most, "{told:?} {most}");
    let drawn: u64 = policy.timeline.moments.iter().map(|moment| moment.passed + moment.denied).sum();
    assert_eq!(drawn, report.requests);
}

#[test]
fn two_policies_are_compared_request_by_request() {
    let looser = POLICY.replace("limit: 20,", "limit: 40,");
    let report = replay(Traffic::new(3, 20_000).log(), &[POLICY, &looser]);
    let differences = report.differences.unwrap();
    let [strict, loose] = report.policies.as_slice() else { panic!("{}", report.policies.len()) };
    assert_eq!(strict.passed + differences.only_second, loose.passed + differences.only_first);
    assert!(differences.only_second > 0);
    let same = replay(Traffic::new(3, 20_000).log(), &[POLICY, POLICY]);
    let differences = same.differences.unwrap();
    assert_eq!((differences.only_first, differences.only_second), (0, 0));
}

#[test]
fn objects_with_a_field_map_are_decided_as_a_web_servers_lines_are() {
    let visits: Vec<_> = Traffic::new(11, 20_000).flatten().collect();
    let common: String = visits.iter().map(|visit| line(Some(visit))).collect();
    let mut objects = Vec::new();
    for visit in &visits {
        let path = visit.path.split('?').next().unwrap();
        let who = serde_json::json!({"ip": visit.ip(), "user": visit.user()});
        let object = serde_json::json!({"t": {"ms": visit.at_s * 1_000}, "who": who, "path": path});
        writeln!(objects, "{object}").unwrap();
    }
    let mappings = ["time=.t.ms", "ip=.who.ip", "user=.who.user", "endpoint=.path"];
    let map = FieldMap::new(mappings.map(|text| text.parse::<Mapping>().unwrap()));
    let config = Config { map, ..Config::default() };
    let by_map = replay::run(objects.as_slice(), &config, vec![named("p.yaml", POLICY)], |_| {}).unwrap();
    let by_format = replay(common.as_bytes(), &[POLICY]);
    assert_eq!(by_map.bad_lines.count, 0, "{:?}", by_map.bad_lines);
    let numbers = |report: &Report| serde_json::to_string(&report.policies).unwrap();
    assert_eq!(numbers(&by_map), numbers(&by_format));
}

#[test]
fn lines_that_are_too_long_or_no_text_are_bad_and_what_follows_is_read() {
    let good = line(Traffic::new(1, 1_000).flatten().next().as_ref());
    let mut log = vec![b'x'; 200_000];
    log.push(b'\n');
    log.extend(good.as_bytes());
    log.extend(b"\xff\xfe\n\n");
    log.extend(good.trim_end().as_bytes());
    let report = replay(log.as_slice(), &[POLICY]);
    assert_eq!((report.requests, report.bad_lines.count), (2, 2));
    let told: Vec<_> = report.bad_lines.first.iter().map(|bad| (bad.line, bad.why.as_str())).collect();
    assert_eq!(told, [(1, "it is longer than 65,536 bytes"), (3, "it is not UTF-8")]);
}

#[test]
fn requests_that_do_not_fit_the_policy_are_told_and_not_counted_as_denied() {
    let refuse = "version: 1\nlimits:\n  - { name: a, algorithm: gcra, limit: 1, per: 1s, key: [user], if_missing: refuse }";
    let report = replay(Traffic::new(1, 1_000).log(), &[refuse]);
    let policy = &report.policies[0];
    assert!(policy.malformed > 100);
    assert_eq!(policy.passed + policy.denied + policy.malformed, report.requests);
    assert_eq!(policy.malformed_because, ["limit `a` needs the attribute `user`"]);
}

/// A picture is one file that needs no other, whatever names and logs hold.
#[test]
fn a_picture_is_well_formed_and_shows_the_limits_that_denied() {
    let report = replay(Traffic::new(7, 60_000).log(), &[POLICY]);
    let svg = replay::picture::svg(&report, "a<b>&\"c.log");
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a&lt;b&gt;&amp;\"c.log"));
    for limit in ["all requests", "edge: ", "per-ip: ", "per-user: ", "search: "] {
        assert!(svg.contains(&format!("class=\"title\">{limit}")), "{limit}");
    }
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(!svg.contains("href") && !svg.contains("url("), "it refers to something else");
    assert!(svg.len() < 400_000, "{}", svg.len());
    let empty = replay(b"".as_slice(), &[POLICY]);
    assert!(replay::picture::svg(&empty, "empty").contains("no requests"));
}
