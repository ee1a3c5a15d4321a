//! What is diagnosed: the findings as a section, the page of `walwright diagnose`, and the
//! words of both.

use walwright_diagnose::{
    Bottleneck, Change, Diagnosis, DiagnosisId, Evidence, Finding, Gain, Impact, Kind, Needs, Per,
    Step, Value,
};
use walwright_figures::LatencyBreakdown;
use walwright_record::{Record, Timestamp, Window};
use walwright_stats::{Estimate, Interval};

use super::timeline;
use crate::document::{
    Action, Block, Cell, Column, Document, Field, Folded, Reach, Section, Table, Tone, Warning,
};
use crate::{format, words};

/// Findings unfolded to begin with.
const OPEN: usize = 3;

/// The page of `walwright diagnose`: verdict, findings, latency breakdown, and what could not
/// be seen.
pub fn diagnosis(of: &Diagnosis) -> Document {
    let breakdown = of.latency_breakdown.as_ref().map(latency_breakdown);
    Document {
        kind: "diagnosis",
        id: of.run.id.0.clone(),
        title: format!("Diagnosis of {} on {}", of.run.workload, of.run.target),
        verdict: Some(of.verdict.clone()),
        sections: findings(of, Reach::Everywhere, None).into_iter().chain(breakdown).collect(),
        origin: "walwright diagnose --explain ID says what a diagnosis is, how it is derived, and \
                 what would disprove it."
            .to_owned(),
        ..Document::default()
    }
}

/// What one diagnosis is, how it is derived, and what would disprove it.
pub fn explanation(of: DiagnosisId) -> Document {
    let explanation = of.explanation();
    let parts = [
        ("What it is", &explanation.what),
        ("How it is derived", &explanation.derived),
        ("What would disprove it", &explanation.disproof),
    ];
    let sections = parts.map(|(title, text)| {
        Section::new("explained", title, Reach::Everywhere, vec![Block::Text(text.clone())])
    });
    Document {
        kind: "diagnosis",
        title: words::capital(of.title()),
        id: of.to_string(),
        sections: sections.into(),
        ..Document::default()
    }
}

/// The findings; `None` for a record without a measured window. `record` where its timeline stands
/// on the same page.
pub(super) fn findings(of: &Diagnosis, reach: Reach, record: Option<&Record>) -> Option<Section> {
    if of.latency_breakdown.is_none() && of.findings.is_empty() && of.not_observable.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    let clock = record.and_then(|record| Some((timeline::begins(record)?, record.window()?)));
    let flushes = of.storage.as_ref().map(|used| words::storage_use(used, of.window));
    let data = of.data_disk.as_ref().map(words::data_disk);
    blocks.extend(flushes.into_iter().chain(data).map(Block::Lede));
    blocks.extend(of.findings.iter().enumerate().map(|(place, finding)| {
        let open = place < OPEN && finding.kind == Kind::Problem;
        Block::Folded(Folded { open, ..told(finding, clock) })
    }));
    if let Some(table) = outlook(&of.outlook) {
        blocks.push(Block::Heading("The first problems fixed one after another".to_owned()));
        blocks.push(table);
    }
    if !of.not_observable.is_empty() {
        blocks.push(Block::Folded(Folded {
            title: "Not observable in this record".to_owned(),
            label: None,
            note: None,
            tone: Tone::Plain,
            blocks: vec![Block::List(of.not_observable.clone())],
            open: false,
        }));
    }
    Some(Section::new("findings", "Findings", reach, blocks))
}

/// Where on the timeline of the page a finding was seen that was not seen all the time, by when
/// the clock of the timeline begins and the measured window.
fn moment(finding: &Finding, (begins, window): (Timestamp, Window)) -> Option<Field> {
    if finding.window == window {
        return None;
    }
    let at = |of: Timestamp| of.seconds_from(begins).max(0.0);
    let (from, to) = (at(finding.window.start), at(finding.window.end));
    let link = Some(format!("#mark={from:.1},{to:.1}"));
    let value = format!("{} to {}", format::clock(from), format::clock(to));
    Some(Field { link, ..Field::new("on the timeline", value) })
}

fn told(finding: &Finding, clock: Option<(Timestamp, Window)>) -> Folded {
    let about = finding.subject.as_ref().map(|s| format!(": {s}")).unwrap_or_default();
    let follows = finding.parent.map(|p| format!("follows from {p}"));
    let impact = finding.impact.as_ref().map(impact);
    let (kind, tone) = match finding.kind {
        Kind::Problem => (None, Tone::Bad),
        Kind::Symptom => (Some("symptom".to_owned()), Tone::Warn),
        Kind::Information => (Some("worth knowing".to_owned()), Tone::Plain),
    };
    let note: Vec<String> = [kind, impact, follows].into_iter().flatten().collect();
    let mut blocks = vec![Block::Text(finding.cause.clone())];
    let seen = finding
        .evidence
        .iter()
        .map(|e| ("seen", format!("{} {} ({})", e.what, figure(e), e.source)));
    let fields = finding.gain.iter().map(|of| ("gain", gain(of))).chain(seen);
    let fields = fields
        .chain(finding.ruled_out.iter().map(|text| ("ruled out", text.clone())))
        .chain(finding.not_observable.iter().map(|text| ("not seen", text.clone())));
    let mut fields: Vec<Field> = fields.map(|(name, text)| Field::new(name, text)).collect();
    // A name that repeats is said once.
    for place in (1..fields.len()).rev() {
        if fields[place].name == fields[place - 1].name {
            fields[place].name.clear();
        }
    }
    if !fields.is_empty() {
        blocks.push(Block::Fields(fields));
    }
    let moment = clock.and_then(|clock| moment(finding, clock));
    blocks.extend(moment.map(|moment| Block::Aside(vec![Block::Fields(vec![moment])])));
    blocks.extend(actions(finding).into_iter().map(Block::Action));
    Folded {
        title: format!("{}{about}", words::capital(&finding.title)),
        label: Some(finding.id.to_string()),
        note: (!note.is_empty()).then(|| note.join(", ")),
        tone,
        blocks,
        open: false,
    }
}

/// Actions alike from which on only the first is told in full.
const ALIKE: usize = 3;

/// What to do. Of actions that differ in a name only, such as those for each partition of a
/// table, the first is told and the others are counted.
fn actions(finding: &Finding) -> Vec<Action> {
    let told = finding.actions.iter().map(|action| Action {
        text: action.text.clone(),
        command: action.command(),
        conditions: conditions(action),
    });
    let mut groups: Vec<Vec<Action>> = Vec::new();
    for action in told {
        match groups.last_mut() {
            Some(group) if alike(&group[0], &action) => group.push(action),
            _ => groups.push(vec![action]),
        }
    }
    let merged = |mut group: Vec<Action>| {
        if group.len() >= ALIKE {
            let more = format!(" (and {} more alike)", group.len() - 1);
            group[0].text.push_str(&more);
            group.truncate(1);
        }
        group
    };
    groups.into_iter().flat_map(merged).collect()
}

/// Whether two actions differ in a name alone.
fn alike(a: &Action, b: &Action) -> bool {
    let words = |of: &Action| -> Vec<String> {
        let command = of.command.as_deref().unwrap_or_default();
        format!("{} {command}", of.text).split_whitespace().map(str::to_owned).collect()
    };
    let (a_words, b_words) = (words(a), words(b));
    let name = |word: &str| word.contains('_') || word.contains(|c: char| c.is_ascii_digit());
    a.command.is_some()
        && b.command.is_some()
        && a_words.len() == b_words.len()
        && a_words.iter().zip(&b_words).all(|(a, b)| a == b || (name(a) && name(b)))
}

fn latency_breakdown(of: &LatencyBreakdown) -> Section {
    let unit = of.unit.name();
    let title = match of.latency {
        Some(latency) => format!("Latency breakdown: {} a {unit}", format::latency(latency)),
        None => format!("Latency breakdown: time of a {unit} on the server"),
    };
    let table = |lines: &[&walwright_figures::BookLine]| {
        let rows = lines.iter().map(|line| {
            let seconds = format::seconds(line.per_transaction.center);
            vec![Cell::from(&line.name), format::percent(line.share).into(), seconds.into()]
        });
        Block::Table(Table {
            columns: vec![
                Column::text("Part"),
                Column::number("Share"),
                Column::number(format!("Per {unit}")),
            ],
            rows: rows.collect(),
        })
    };
    let lines: Vec<_> = of.lines.iter().filter(|line| line.share.abs() >= 5e-4).collect();
    let mut blocks = vec![table(&lines)];
    if !of.memo.is_empty() {
        blocks.push(Block::Muted("Inside these lines:".to_owned()));
        blocks.push(table(&of.memo.iter().collect::<Vec<_>>()));
    }
    blocks.extend(of.checks.iter().filter(|check| check.agrees).map(|check| {
        Block::Muted(format!(
            "{}: {} by samples, {} by {}: they agree.",
            check.what,
            format::seconds(check.sampled.center),
            format::seconds(check.counted),
            check.source
        ))
    }));
    let warning = |text: &String| Block::Warning(Warning { text: text.clone(), hint: None });
    blocks.extend(of.warnings.iter().map(warning));
    Section::new("breakdown", title, Reach::Everywhere, blocks)
}

/// A figure with its unit and the unit of work it is of: `1.2 kB a transaction`.
fn figure(evidence: &Evidence) -> String {
    let value = match &evidence.value {
        Value::Count(n) => format::about(*n),
        Value::Seconds(s) => format::seconds(*s),
        Value::Bytes(b) => format::bytes(*b),
        Value::Fraction(f) => format::percent(*f),
        Value::Processors(n) => format!("{} processors", format::number(*n)),
        Value::Text(text) => text.clone(),
    };
    match evidence.per {
        Some(Per::Second) => format!("{value}/s"),
        Some(per) => format!("{value} a {}", per.name()),
        None => value,
    }
}

/// A share with its interval: `32 % (28 to 36 %)`.
fn share(of: &Estimate) -> String {
    let center = format::percent(of.center);
    match of.interval {
        Some(Interval { low, high }) => format!(
            "{center} ({} to {})",
            format::percent(low.max(0.0)).trim_end_matches(" %"),
            format::percent(high.min(1.0))
        ),
        None => center,
    }
}

/// What a finding costs, in words.
fn impact(of: &Impact) -> String {
    format!("{} of the latency, {}", share(&of.share), format::seconds(of.per_transaction.center))
}

/// What fixing it is predicted to gain, in words.
pub(super) fn gain(of: &Gain) -> String {
    let mut text = change(of.throughput.as_ref(), &of.latency);
    if let Some(next) = &of.next {
        text.push_str(&format!("; then {}", limits(next)));
    }
    text
}

/// A predicted change of throughput and latency.
fn change(throughput: Option<&Estimate>, latency: &Estimate) -> String {
    let change = |rise: &Estimate, sign: &str| {
        let center = format!("{sign}{}", format::percent(rise.center));
        match rise.interval {
            Some(Interval { low, high }) => format!(
                "{center} ({} to {})",
                format::percent(low.max(0.0)).trim_end_matches(" %"),
                format::percent(high)
            ),
            None => center,
        }
    };
    let latency = format!("latency {}", change(latency, "−"));
    match throughput {
        Some(rise) => format!("throughput {}, {latency}", change(rise, "+")),
        None => latency,
    }
}

/// What limits next.
fn limits(next: &Bottleneck) -> String {
    let name = &next.name;
    match (next.limit, next.share) {
        (Some(limit), _) => format!("{name} limits at {}", format::rate(limit)),
        (None, Some(share)) => format!("{name} is the largest part, {}", format::percent(share)),
        (None, None) => format!("{name} is next"),
    }
}

/// What is predicted to be gained when the first problems are fixed one after another.
fn outlook(steps: &[Step]) -> Option<Block> {
    let rows = steps.iter().enumerate().map(|(place, step)| {
        let about = step.subject.as_ref().map(|s| format!(" ({s})")).unwrap_or_default();
        let and = if place == 0 { "" } else { "and " };
        vec![
            Cell::from(format!("{and}{}{about}", step.id)),
            change(step.throughput.as_ref(), &step.latency).into(),
            step.next.as_ref().map_or_else(|| "–".to_owned(), limits).into(),
        ]
    });
    let columns =
        vec![Column::text("Fixed"), Column::text("Predicted in all"), Column::text("Then")];
    (!steps.is_empty()).then(|| Block::Table(Table { columns, rows: rows.collect() }))
}

/// The conditions of an action: class, what it needs, how it is undone.
fn conditions(action: &walwright_diagnose::Action) -> Option<String> {
    if action.change == Change::Advice {
        return None;
    }
    let mut parts = vec![format!("class {:?}, {}", action.class, action.class.words())];
    if action.needs != Needs::Nothing {
        parts.push(action.needs.words().to_owned());
    }
    if let Some(rollback) = &action.rollback {
        parts.push(format!("undo: {rollback}"));
    }
    parts.extend(action.gain.iter().map(|of| format!("predicted: {}", gain(of))));
    Some(parts.join("; "))
}
