//! Findings on a terminal: the page of `walwright diagnose`, its three first lines
//! under a summary, and what one diagnosis is.

use walwright_diagnose::{Diagnosis, DiagnosisId, Finding, Kind};
use walwright_figures::LatencyBreakdown;

use super::style::{Ansi, Style};
use crate::{diagnosis as say, format, words};

/// Columns of the names at the left of a finding.
const NAMES: usize = 10;
/// Findings under a summary.
const BRIEF: usize = 3;

/// All of a diagnosis: verdict, findings, latency breakdown, and what could not be seen.
pub fn diagnosis(of: &Diagnosis, style: &Style) -> String {
    let mut page = Page { style, lines: Vec::new() };
    let title = format!("Diagnosis of {} on {}", of.run.workload, of.run.target);
    page.lines.push(format!(
        "{}  {}",
        style.paint(Ansi::Bold, &title),
        style.paint(Ansi::Faint, &of.run.id.0)
    ));
    page.gap();
    page.text(&of.verdict, 0, Some(Ansi::Bold));
    if let Some(used) = &of.storage {
        page.gap();
        page.text(&words::storage_use(used, of.window), 0, None);
    }
    if let Some(used) = &of.data_disk {
        page.text(&words::data_disk(used), 0, None);
    }
    for finding in of.findings.iter().filter(|f| f.kind != Kind::Information) {
        page.finding(finding);
    }
    let information: Vec<&Finding> =
        of.findings.iter().filter(|f| f.kind == Kind::Information).collect();
    if !information.is_empty() {
        page.gap();
        page.heading("Worth knowing");
        for finding in information {
            page.item(&finding.id.to_string(), &finding.cause);
            for action in &finding.actions {
                page.action(action);
            }
        }
    }
    if let Some(latency_breakdown) = &of.latency_breakdown {
        page.latency_breakdown(latency_breakdown);
    }
    if !of.not_observable.is_empty() {
        page.gap();
        page.heading("Not observable in this record");
        for sentence in &of.not_observable {
            page.item("–", sentence);
        }
    }
    page.gap();
    page.text(
        "walwright diagnose --explain ID says what a diagnosis is, how it is derived, and what \
         would disprove it.",
        0,
        Some(Ansi::Faint),
    );
    style.finish(&page.lines)
}

/// The first findings, a line or two each; the verdict where there are none.
pub(super) fn brief(of: &Diagnosis, style: &Style) -> Vec<String> {
    let told: Vec<&Finding> =
        of.findings.iter().filter(|f| f.kind == Kind::Problem).take(BRIEF).collect();
    let mut lines = Vec::new();
    if told.is_empty() {
        return style.wrap(&of.verdict, 0);
    }
    for finding in told {
        let mut wrapped = style.wrap(&say::line(finding), 2);
        // Two lines each: `walwright diagnose` has the rest.
        if wrapped.len() > 2 {
            wrapped.truncate(2);
            if let Some(last) = wrapped.last_mut() {
                last.push_str(" …");
            }
        }
        lines.extend(wrapped.iter().enumerate().map(|(i, text)| match i {
            0 => format!("{} {text}", style.paint_bold(Ansi::Red, "●")),
            _ => format!("  {text}"),
        }));
    }
    lines
}

/// What one diagnosis is, how it is derived, and what would disprove it.
pub fn explanation(of: DiagnosisId, style: &Style) -> String {
    let mut page = Page { style, lines: Vec::new() };
    let explanation = of.explanation();
    page.heading(&format!("{of}  {}", of.title()));
    for (name, text) in [
        ("What it is", &explanation.what),
        ("How it is derived", &explanation.derived),
        ("What would disprove it", &explanation.disproof),
    ] {
        page.gap();
        page.lines.push(style.paint(Ansi::Cyan, name));
        page.text(text, 2, None);
    }
    style.finish(&page.lines)
}

/// Lines in the making.
struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn gap(&mut self) {
        self.lines.push(String::new());
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(self.style.paint(Ansi::Bold, text));
    }

    fn text(&mut self, text: &str, indent: usize, ansi: Option<Ansi>) {
        self.lines.extend(self.style.indented(text, indent, ansi));
    }

    /// A short mark and a text that hangs behind it.
    fn item(&mut self, mark: &str, text: &str) {
        let width = mark.chars().count().max(3) + 1;
        for (i, line) in self.style.wrap(text, width).into_iter().enumerate() {
            let head = match i {
                0 => format!("{mark:<width$}"),
                _ => " ".repeat(width),
            };
            self.lines.push(format!("{}{line}", self.style.paint(Ansi::Faint, &head)));
        }
    }

    fn named(&mut self, name: &str, text: &str, ansi: Option<Ansi>) {
        for (i, line) in self.style.wrap(text, 2 + NAMES).into_iter().enumerate() {
            let head = if i == 0 { name } else { "" };
            let head = self.style.paint(Ansi::Faint, &format!("  {head:<NAMES$}"));
            let line = match ansi {
                Some(ansi) => self.style.paint(ansi, &line),
                None => line,
            };
            self.lines.push(format!("{head}{line}"));
        }
    }

    fn finding(&mut self, finding: &Finding) {
        self.gap();
        let ansi = if finding.kind == Kind::Problem { Ansi::Red } else { Ansi::Yellow };
        let about = finding.subject.as_ref().map(|s| format!(": {s}")).unwrap_or_default();
        let parent = finding.parent.map(|p| format!(", follows from {p}")).unwrap_or_default();
        self.lines.push(format!(
            "{} {} {}",
            self.style.paint_bold(ansi, &finding.id.to_string()),
            self.style.paint(
                Ansi::Bold,
                &super::printable::one_line(&format!("{}{about}", finding.title))
            ),
            self.style.paint(Ansi::Faint, &format!("({}{parent})", say::kind(finding.kind)))
        ));
        self.text(&finding.cause, 2, None);
        if let Some(impact) = &finding.impact {
            self.named("costs", &say::impact(impact), None);
        }
        if let Some(gain) = &finding.gain {
            self.named("gain", &say::gain(gain), None);
        }
        for (i, evidence) in finding.evidence.iter().enumerate() {
            let text = format!("{} {} ({})", evidence.what, say::figure(evidence), evidence.source);
            self.named(if i == 0 { "seen" } else { "" }, &text, None);
        }
        for sentence in &finding.ruled_out {
            self.named("ruled out", sentence, None);
        }
        for sentence in &finding.not_observable {
            self.named("not seen", sentence, None);
        }
        for action in &finding.actions {
            self.action(action);
        }
    }

    fn action(&mut self, action: &walwright_diagnose::Action) {
        self.named("→", &action.text, None);
        if let Some(command) = action.command() {
            self.named("", &command, Some(Ansi::Green));
        }
        if let Some(conditions) = say::conditions(action) {
            self.named("", &conditions, Some(Ansi::Faint));
        }
    }

    fn latency_breakdown(&mut self, latency_breakdown: &LatencyBreakdown) {
        self.gap();
        self.heading(&match latency_breakdown.latency {
            Some(latency) => {
                format!(
                    "Latency breakdown: {} a {}",
                    format::latency(latency),
                    latency_breakdown.unit.name()
                )
            }
            None => format!(
                "Latency breakdown: time of a {} on the server",
                latency_breakdown.unit.name()
            ),
        });
        let row = |line: &walwright_figures::BookLine| {
            format!(
                "  {:<36}{:>8}  {:>9}",
                line.name,
                format::percent(line.share),
                format::seconds(line.per_transaction.center)
            )
        };
        self.lines
            .extend(latency_breakdown.lines.iter().filter(|l| l.share.abs() >= 5e-4).map(row));
        if !latency_breakdown.memo.is_empty() {
            self.lines.push(self.style.paint(Ansi::Faint, "  inside these lines:"));
            let memo: Vec<String> = latency_breakdown
                .memo
                .iter()
                .map(|l| self.style.paint(Ansi::Faint, &row(l)))
                .collect();
            self.lines.extend(memo);
        }
        for check in latency_breakdown.checks.iter().filter(|check| check.agrees) {
            let text = format!(
                "{}: {} by samples, {} by {}: they agree.",
                check.what,
                format::seconds(check.sampled.center),
                format::seconds(check.counted),
                check.source
            );
            self.text(&text, 2, Some(Ansi::Faint));
        }
        for warning in &latency_breakdown.warnings {
            self.text(&format!("! {warning}"), 2, Some(Ansi::Yellow));
        }
    }
}
