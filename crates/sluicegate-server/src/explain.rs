//! Why a request is decided as it is: one explanation, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sluicegate::{
    LimitVerdict, Verdict,
    core::policy::explain::{Explained, Explanation, Why},
};

use crate::http;

/// What the HTTP door answers to `/v1/explain`: the decision that the request would get, and why.
pub(crate) fn to_json(verdict: &Verdict<'_>, explanation: &Explanation<'_>) -> Value {
    let limits: Vec<Value> = explanation.limits.iter().map(limit).collect();
    json!({ "decision": http::decision_value(verdict), "tier": explanation.tier, "limits": limits })
}

fn limit(explained: &Explained<'_>) -> Value {
    let Explained { limit, why } = explained;
    let (amount_of, key) = match why {
        Why::Applies(applied) => {
            let subject = applied.ask.as_ref().map(|ask| ask.subject.to_string());
            (Some(applied.amount_of.to_string()), subject)
        }
        _ => (None, None),
    };
    json!({
        "name": limit.name,
        "applies": matches!(why, Why::Applies(_)),
        "because": why.to_string(),
        "amount_of": amount_of,
        "key": key,
    })
}

/// The same for a person.
pub(crate) fn to_text(verdict: &Verdict<'_>, explanation: &Explanation<'_>) -> String {
    let mut text = String::new();
    if let Some(tier) = explanation.tier {
        let _ = writeln!(text, "tier `{tier}`");
    }
    if let Some(exempt) = verdict.exempt {
        let _ = writeln!(text, "exempt by `{exempt}`");
    }
    for Explained { limit, why } in &explanation.limits {
        let name = &limit.name;
        let Why::Applies(applied) = why else {
            let _ = writeln!(text, "{name} does not apply: {why}");
            continue;
        };
        let _ = writeln!(text, "{name} applies: {why}");
        if let Some(ask) = &applied.ask {
            let _ = writeln!(text, "  key {}", ask.subject);
        }
        let answer = verdict.limits.iter().find(|answer| answer.name == name);
        if let Some(answer) = answer {
            let (LimitVerdict { algorithm, unit, cost, decision, .. }, per) = (answer, answer.per());
            let left = match (decision.limit, decision.remaining) {
                (Some(amount), Some(left)) => {
                    format!("{left} {unit} left, {algorithm} of {amount} per {per}")
                }
                (Some(amount), None) => {
                    format!("{algorithm} of {amount} {unit} per {per}, and the store does not answer")
                }
                _ => format!("unlimited {unit}"),
            };
            let word = if decision.allowed { "allows" } else { "denies" };
            let _ = writeln!(text, "  {left}: {word} a cost of {cost}");
            if !decision.reset_after.is_zero() {
                let _ = writeln!(text, "  as if never used in {:?}", decision.reset_after);
            }
        }
    }
    text
}
