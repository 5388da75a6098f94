//! Demand against limits over time, as an SVG that needs nothing else.

use std::fmt::Write as _;

use super::{LimitReport, Moment, PolicyReport, Report, Timeline, engine::Rate};
use crate::numbers::grouped;

mod axis;

use axis::{Ticks, hours};

/// Limits that get a panel of their own: those with the most denials.
const MAX_PANELS: usize = 8;

const WIDTH: u64 = 1_000;
const LEFT: u64 = 76;
const RIGHT: u64 = 64;
const PLOT_WIDTH: u64 = WIDTH - LEFT - RIGHT;
const PLOT_HEIGHT: u64 = 130;
/// A panel with its title and the labels below it.
const PANEL_HEIGHT: u64 = PLOT_HEIGHT + 74;
const HEAD_HEIGHT: u64 = 84;
const POLICY_HEIGHT: u64 = 40;

const STYLE: &str = "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#3d4653}\
.head{font-size:20px;font-weight:600;fill:#14181f}.policy{font-size:15px;font-weight:600;fill:#14181f}\
.title{font-size:13px;font-weight:600;fill:#14181f}.end{text-anchor:end}.middle{text-anchor:middle}\
.grid{stroke:#e3e7ed}.base{stroke:#9aa4b2}.passed{fill:#4c9f70}.denied{fill:#d64545}\
.limit{stroke:#14181f;stroke-width:1.5;stroke-dasharray:6 4;fill:none}.fullest{stroke:#6a4fc4;stroke-opacity:.65;fill:none}";

/// Draws a report; `log` is what the log is called.
#[must_use]
pub fn svg(report: &Report, log: &str) -> String {
    let pages: Vec<(&PolicyReport, Vec<Panel<'_>>)> =
        report.policies.iter().map(|policy| (policy, panels(policy))).collect();
    let panels: usize = pages.iter().map(|(_, panels)| panels.len()).sum();
    let (pages_count, panels) = (number(pages.len()), number(panels));
    let height = HEAD_HEIGHT + pages_count * POLICY_HEIGHT + panels * PANEL_HEIGHT + 16;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    head(&mut svg, report, log);
    let mut top = HEAD_HEIGHT;
    for (policy, panels) in pages {
        policy_line(&mut svg, policy, &panels, top);
        top += POLICY_HEIGHT;
        for panel in panels {
            panel.draw(&mut svg, top);
            top += PANEL_HEIGHT;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// A text at a place; `class` may be several.
fn text(svg: &mut String, at: (u64, u64), class: &str, words: &str) {
    let (x, y) = at;
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{words}</text>");
}

fn head(svg: &mut String, report: &Report, log: &str) {
    text(svg, (LEFT, 34), "head", &format!("{log}: demand against limits"));
    let span = match (&report.from, &report.to) {
        (Some(from), Some(to)) => format!("{} requests from {from} to {to}", grouped(report.requests)),
        _ => "no requests".to_owned(),
    };
    text(svg, (LEFT, 54), "", &span);
    let legend = [("passed", "passed"), ("denied", "denied"), ("limit", "limit"), ("fullest", "fullest key")];
    for ((class, words), x) in legend.into_iter().zip((LEFT..).step_by(110)) {
        let _ = match class {
            "limit" | "fullest" => writeln!(svg, "<path class=\"{class}\" d=\"M{x} 72h22\"/>"),
            _ => writeln!(svg, "<rect class=\"{class}\" x=\"{x}\" y=\"66\" width=\"22\" height=\"11\"/>"),
        };
        text(svg, (x + 28, 76), "", words);
    }
}

fn policy_line(svg: &mut String, policy: &PolicyReport, panels: &[Panel<'_>], top: u64) {
    let drawn = panels.len().saturating_sub(1);
    let more = policy.limits.len().saturating_sub(drawn);
    let rest = match more {
        0 => String::new(),
        _ => format!("; not drawn: {more} limits that denied less, or nothing"),
    };
    let PolicyReport { passed, denied, .. } = policy;
    let words = format!("{}: {} pass, {} denied{rest}", policy.policy, grouped(*passed), grouped(*denied));
    text(svg, (LEFT, top + 26), "policy", &words);
}

/// One timeline with its title.
struct Panel<'r> {
    title: String,
    timeline: &'r Timeline,
    /// The limit, where all requests share one counter.
    rate: Option<Rate>,
    /// Whether to draw how full the fullest key is.
    fullest: bool,
}

fn panels(policy: &PolicyReport) -> Vec<Panel<'_>> {
    let all =
        Panel { title: "all requests".to_owned(), timeline: &policy.timeline, rate: None, fullest: false };
    let mut limits: Vec<&LimitReport> = policy.limits.iter().filter(|limit| limit.matched > 0).collect();
    limits.sort_by_key(|limit| std::cmp::Reverse(limit.denied));
    let panels = limits.into_iter().take(MAX_PANELS).map(|limit| Panel {
        title: format!("{}: {} of {} denied", limit.name, grouped(limit.denied), grouped(limit.matched)),
        timeline: &limit.timeline,
        rate: limit.per_second,
        fullest: limit.per_second.is_none(),
    });
    std::iter::once(all).chain(panels).collect()
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String, top: u64) {
        let (title, bottom) = (top + 18, top + 30 + PLOT_HEIGHT);
        text(svg, (LEFT, title), "title", &self.title);
        text(svg, (LEFT - 8, title), "end", "per s");
        let most = self.timeline.moments.iter().map(|moment| moment.passed + moment.denied).max();
        let most = most.unwrap_or_default().max(1);
        let limit = self.rate.map(|rate| per_moment(rate, self.timeline.width_s));
        // A limit far above the demand would make the demand a line at the bottom.
        let drawn = limit.filter(|limit| *limit <= u128::from(most) * 3);
        let scale = u128::from(most).max(drawn.unwrap_or_default()) * 21 / 20 + 1;
        let frame = Frame { bottom, scale };
        self.grid(svg, &frame);
        self.areas(svg, &frame);
        if let Some(limit) = drawn {
            let y = frame.y(limit);
            let _ = writeln!(svg, "<path class=\"limit\" d=\"M{LEFT} {y}h{PLOT_WIDTH}\"/>");
        }
        if self.fullest {
            self.fullest(svg, bottom);
        }
        if limit.is_some() && drawn.is_none() {
            text(svg, (LEFT + PLOT_WIDTH, title), "end", "the limit lies above the picture");
        }
        for (at, words) in hours(self.timeline) {
            let x = LEFT + at * PLOT_WIDTH / self.span_s().max(1);
            let _ = writeln!(svg, "<path class=\"base\" d=\"M{x} {bottom}v5\"/>");
            text(svg, (x, bottom + 18), "middle", &words);
        }
    }

    fn span_s(&self) -> u64 {
        number(self.timeline.moments.len()) * self.timeline.width_s
    }

    fn grid(&self, svg: &mut String, frame: &Frame) {
        for tick in Ticks::of(frame.scale, self.timeline.width_s) {
            let y = frame.y(tick.count);
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {y}h{PLOT_WIDTH}\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{y}\" dy=\"4\" class=\"end\">{}</text>",
                LEFT - 8,
                tick.words
            );
        }
        let _ = writeln!(svg, "<path class=\"base\" d=\"M{LEFT} {}h{PLOT_WIDTH}\"/>", frame.bottom);
    }

    /// What was denied, and before it what passed, each as one shape of steps.
    fn areas(&self, svg: &mut String, frame: &Frame) {
        self.area(svg, frame, "denied", |moment| moment.passed + moment.denied);
        self.area(svg, frame, "passed", |moment| moment.passed);
    }

    fn area(&self, svg: &mut String, frame: &Frame, class: &str, height: impl Fn(&Moment) -> u64) {
        let mut path = format!("M{LEFT} {}", frame.bottom);
        for (index, moment) in (0..).zip(&self.timeline.moments) {
            let y = frame.y(u128::from(height(moment)));
            let _ = write!(path, "V{y}H{}", self.x(index + 1));
        }
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{path}V{}Z\"/>", frame.bottom);
    }

    /// The share of the fullest key, by an axis of its own: 100 % is the limit.
    fn fullest(&self, svg: &mut String, bottom: u64) {
        let frame = Frame { bottom, scale: 105 };
        for (share, words) in [(0, "0 %"), (50, "50 %"), (100, "100 %")] {
            let y = frame.y(share);
            let x = LEFT + PLOT_WIDTH + 8;
            let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" dy=\"4\">{words}</text>");
        }
        let mut path = String::new();
        for (index, moment) in (0..).zip(&self.timeline.moments) {
            let (command, y) = (if index == 0 { 'M' } else { 'L' }, frame.y(u128::from(moment.fullest)));
            let _ = write!(path, "{command}{} {y}H{}", self.x(index), self.x(index + 1));
        }
        let _ = writeln!(svg, "<path class=\"fullest\" d=\"{path}\"/>");
    }

    /// Where a moment begins, in pixels with one decimal.
    fn x(&self, index: u64) -> String {
        let tenths = LEFT * 10 + index * PLOT_WIDTH * 10 / number(self.timeline.moments.len()).max(1);
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

/// The vertical axis of a plot.
struct Frame {
    bottom: u64,
    scale: u128,
}

impl Frame {
    /// How far down a value lies, in pixels with one decimal.
    fn y(&self, value: u128) -> String {
        let up = value.min(self.scale) * u128::from(PLOT_HEIGHT) * 10 / self.scale.max(1);
        let tenths = u128::from(self.bottom) * 10 - up;
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

/// What a rate grants in a moment.
fn per_moment(rate: Rate, width_s: u64) -> u128 {
    u128::from(rate.amount) * u128::from(width_s) * 1_000_000 / rate.window_us.max(1)
}
