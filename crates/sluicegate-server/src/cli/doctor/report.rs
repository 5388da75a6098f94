//! The list, and what it says.

use std::{
    fmt::{Display, Write as _},
    io::{Write as _, stdout},
};

use serde::Serialize;

use super::Output;

/// How an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be, and seen to be.
    Pass,
    /// It may do harm, or was not looked at.
    Warn,
    /// It does harm.
    Fail,
}

/// One line of the checklist.
#[derive(Debug, Serialize)]
pub(super) struct Item {
    /// A short name that stays the same.
    id: &'static str,
    /// What should be true.
    what: &'static str,
    state: State,
    /// What was seen.
    evidence: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Item {
    fn new(id: &'static str, what: &'static str, state: State, evidence: impl Display) -> Self {
        Self { id, what, state, evidence: evidence.to_string(), fix: None }
    }

    /// What is as it should be.
    pub(super) fn pass(id: &'static str, what: &'static str, evidence: impl Display) -> Self {
        Self::new(id, what, State::Pass, evidence)
    }

    /// What may do harm, and what to do about it.
    pub(super) fn to_do(
        id: &'static str,
        what: &'static str,
        evidence: impl Display,
        fix: impl Display,
    ) -> Self {
        Self { fix: Some(fix.to_string()), ..Self::new(id, what, State::Warn, evidence) }
    }

    /// What does harm, and what to do about it.
    pub(super) fn fail(
        id: &'static str,
        what: &'static str,
        evidence: impl Display,
        fix: impl Display,
    ) -> Self {
        Self { fix: Some(fix.to_string()), ..Self::new(id, what, State::Fail, evidence) }
    }
}

/// The whole list.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Report(pub(super) Vec<Item>);

impl Report {
    /// Whether the verb ends with 1.
    pub(super) fn fails(&self, strict: bool) -> bool {
        self.0.iter().any(|item| item.state == State::Fail || strict && item.state == State::Warn)
    }

    pub(super) fn tell(&self, output: Output) {
        let told = match output {
            Output::Text => self.text(),
            Output::Json => format!("{:#}\n", serde_json::json!({ "items": self })),
            Output::Markdown => self.markdown(),
        };
        // Nobody may be reading; the exit code says it all the same.
        let _ = stdout().write_all(told.as_bytes());
    }

    fn text(&self) -> String {
        let mut told = String::new();
        for item in &self.0 {
            let _ =
                writeln!(told, "{:<4}  {:<12}  {}: {}", item.state.word(), item.id, item.what, item.evidence);
            if let Some(fix) = &item.fix {
                let _ = writeln!(told, "      {:<12}  hint: {fix}", "");
            }
        }
        let count = |state: State| self.0.iter().filter(|item| item.state == state).count();
        let [pass, warn, fail] = [State::Pass, State::Warn, State::Fail].map(count);
        let _ = writeln!(told, "{pass} pass, {warn} warn, {fail} fail");
        told
    }

    fn markdown(&self) -> String {
        let mut told =
            String::from("| | item | what should be true | evidence | fix |\n|---|---|---|---|---|\n");
        for item in &self.0 {
            let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
            let (evidence, fix) = (cell(&item.evidence), cell(item.fix.as_deref().unwrap_or_default()));
            let _ = writeln!(
                told,
                "| {} | {} | {} | {evidence} | {fix} |",
                item.state.word(),
                item.id,
                item.what
            );
        }
        told
    }
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}
