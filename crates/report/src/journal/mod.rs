//! The journal: the history of experiments and decisions as a page, a list, and single entries.

use walwright_record::journal::{Change, Effect, Entry, Machine};

use crate::document::{
    Block, Cell, Chart, Column, Document, Field, Folded, Picture, Reach, Section, Table, Tone,
};
use crate::format;
use crate::svg::forest::{Forest, Row};
pub use crate::terminal::trend::trend;

/// The entries in order, each under its question.
pub fn page(entries: &[Entry]) -> Document {
    let section = |entry: &Entry| {
        let corrections: Vec<&Entry> = corrections(entry, entries).collect();
        let id = format!("e-{}", entry.name());
        let mut blocks = vec![Block::Muted(format!("{} · {}", entry.name(), about(entry)))];
        blocks.extend(parts(entry, &corrections));
        Section::new(id, entry.question.trim(), Reach::Paper, blocks)
    };
    Document {
        kind: "journal",
        title: "Journal".to_owned(),
        deck: vec![format!(
            "{}, oldest first. Nothing in it is changed afterwards; a correction is an entry of its own.",
            match entries.len() {
                1 => "1 entry".to_owned(),
                n => format!("{n} entries"),
            }
        )],
        sections: entries.iter().map(section).collect(),
        ..Document::default()
    }
}

/// All entries, newest last, each with its question and what came out.
pub fn list(entries: &[Entry]) -> Document {
    let folded = |entry: &Entry| {
        let outcome = outcome(entry);
        let outcome = (!outcome.is_empty()).then(|| Block::Text(format!("→ {outcome}")));
        let corrects = entry.corrects.iter().map(|of| format!("corrects {of}"));
        let corrected = corrections(entry, entries).map(|of| format!("corrected by {}", of.name()));
        let corrections = corrects.chain(corrected).map(Block::Text);
        Block::Folded(Folded {
            title: entry.question.trim().to_owned(),
            label: Some(entry.name().to_owned()),
            note: None,
            tone: Tone::Plain,
            blocks: [Block::Muted(about(entry))]
                .into_iter()
                .chain(outcome)
                .chain(corrections)
                .collect(),
            open: false,
        })
    };
    let blocks = entries.iter().map(folded).collect();
    Document {
        kind: "journal",
        title: "Journal".to_owned(),
        sections: vec![Section::new("entries", "Entries", Reach::Everywhere, blocks)],
        ..Document::default()
    }
}

/// One entry, whole; `corrections` are the entries that correct it.
pub fn entry(of: &Entry, corrections: &[&Entry]) -> Document {
    Document {
        kind: "journal entry",
        id: of.name().to_owned(),
        title: of.question.trim().to_owned(),
        deck: vec![about(of)],
        sections: vec![Section::new("entry", "Entry", Reach::Everywhere, parts(of, corrections))],
        ..Document::default()
    }
}

/// The entries that correct one.
fn corrections<'a>(of: &'a Entry, all: &'a [Entry]) -> impl Iterator<Item = &'a Entry> {
    all.iter().filter(|other| of.id.is_some() && other.corrects == of.id)
}

/// When it was written, of what, where.
fn about(of: &Entry) -> String {
    let mut about = vec![format::moment(of.at), of.origin.words().to_owned()];
    about.extend(of.workload.as_ref().map(|workload| format!("workload {workload}")));
    about.extend(of.machine.as_ref().map(machine));
    about.join(" · ")
}

/// What an entry says, part by part.
fn parts(of: &Entry, corrections: &[&Entry]) -> Vec<Block> {
    let text = |name: &str, text: &Option<String>| {
        let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
        Some(Field::new(name, text))
    };
    let each = |name: &str, items: Vec<String>| {
        (!items.is_empty()).then(|| Field::new(name, items.join("\n")))
    };
    let corrected = corrections.iter().map(|of| format!("{}: {}", of.name(), of.question));
    let before = [
        each("Corrected by", corrected.collect()),
        of.corrects.as_ref().map(|corrects| Field::code("Corrects", corrects.to_string())),
        text("Against", &of.baseline),
        each("Change", of.changes.iter().map(change).collect()),
        text("Result", &of.result),
    ];
    let class = of.durability.map(|class| format!("Class {class:?}: {}.", class.words()));
    let after = [
        text("Decision", &of.decision),
        text("Durability", &class),
        text("Next question", &of.next_question),
        text("Notes", &of.notes),
        text("Rests on", &grounds_of_entry(of)),
    ];
    let fields = |fields: Vec<Field>| (!fields.is_empty()).then_some(Block::Fields(fields));
    let mut blocks: Vec<Block> =
        fields(before.into_iter().flatten().collect()).into_iter().collect();
    if !of.effects.is_empty() {
        blocks.push(Block::Table(effects(&of.effects)));
        blocks.push(Block::Aside(vec![Block::Chart(Chart::Forest(forest(&of.effects)))]));
    }
    blocks.extend(of.plots.iter().enumerate().map(|(place, plot)| {
        Block::Chart(Chart::Picture(Picture {
            name: format!("{}-{}", of.name(), place + 1),
            title: plot.title.clone(),
            svg: plot.svg.clone(),
        }))
    }));
    blocks.extend(fields(after.into_iter().flatten().collect()));
    blocks
}

fn effects(of: &[Effect]) -> Table {
    let columns = vec![
        Column::text("Effect of"),
        Column::text("On"),
        Column::number("Change"),
        Column::number("Interval"),
        Column::text("Verdict"),
        Column::muted("Rests on"),
    ];
    let row = |effect: &Effect| {
        let at = level(effect).map(|level| format!(" ({level})")).unwrap_or_default();
        vec![
            Cell::from(&effect.arm),
            Cell::from(&effect.metric),
            Cell::from(signed(effect.change)),
            Cell::from(format!("{}{at}", interval(effect))),
            Cell::from(&effect.verdict),
            Cell::from(grounds(effect)),
        ]
    };
    Table { rows: of.iter().map(row).collect(), columns }
}

fn forest(of: &[Effect]) -> Forest {
    let row = |effect: &Effect| Row {
        name: format!("{}, {}", effect.arm, effect.metric),
        center: effect.change,
        interval: effect.interval.map(|[low, high]| (low, high)),
        blocks: Vec::new(),
        is_better: None,
        is_baseline: false,
        note: format!("{} {}", signed(effect.change), effect.verdict),
    };
    Forest {
        name: "Effects with intervals".to_owned(),
        rows: of.iter().map(row).collect(),
        floor: None,
    }
}

/// The machine in a few words: `db1, 2 × Xeon, 7.6 GB, Linux 6.1`.
pub(crate) fn machine(of: &Machine) -> String {
    let processors = match (of.processors, &of.cpu_model) {
        (Some(n), Some(model)) => Some(format!("{n} × {model}")),
        (Some(n), None) => Some(format::counted(n.into(), "processor")),
        (None, model) => model.clone(),
    };
    let memory = of.memory_bytes.map(|bytes| format::bytes(bytes as f64));
    let kernel = of.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
    [of.name.clone(), processors, memory, kernel]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// What differs from the baseline: `max_wal_size: 1GB → 8GB`.
pub(crate) fn change(of: &Change) -> String {
    match (&of.from, &of.to) {
        (Some(from), Some(to)) => format!("{}: {from} → {to}", of.name),
        (None, Some(to)) => format!("{}: {to}", of.name),
        (Some(from), None) => format!("{} taken away (was {from})", of.name),
        (None, None) => of.name.clone(),
    }
}

/// A relative change with its sign: `+12.3 %`.
pub(crate) fn signed(share: f64) -> String {
    let sign = if share > 0.0 { "+" } else { "" };
    format!("{sign}{}", format::percent(share))
}

/// The interval of an effect, or that there is none.
pub(crate) fn interval(of: &Effect) -> String {
    interval_of(of.interval)
}

/// The same of its two ends.
pub(crate) fn interval_of(ends: Option<[f64; 2]>) -> String {
    match ends {
        Some([low, high]) => format!("{} to {}", signed(low), signed(high)),
        None => "no interval".to_owned(),
    }
}

/// What else belongs to an effect: blocks, p, noise floor.
pub(crate) fn grounds(of: &Effect) -> String {
    let blocks = of.blocks.map(|n| format::counted(n.into(), "block"));
    let p = of.corrected_p.map(|p| match p {
        p if p < 0.001 => "p < 0.001".to_owned(),
        p => format!("p = {p:.3}"),
    });
    let floor = of.noise_floor.map(|floor| format!("noise floor {}", format::percent(floor)));
    [blocks, p, floor].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// How often the interval of an effect covers the truth: `95 %`; `None` without one.
pub(crate) fn level(of: &Effect) -> Option<String> {
    let percent = (of.confidence * 1000.0).round() / 10.0;
    (of.interval.is_some() && percent > 0.0).then(|| format!("{percent} %"))
}

/// What an entry rests on: runs and experiments.
pub(crate) fn grounds_of_entry(of: &Entry) -> Option<String> {
    let runs = of.runs.iter().map(|run| run.0.as_str());
    let mut said: Vec<String> = Vec::new();
    if !of.experiments.is_empty() {
        said.push(of.experiments.join(", "));
    }
    match of.runs.len() {
        0 => {}
        n @ 1..=6 => {
            let names = runs.collect::<Vec<_>>().join(", ");
            said.push(format!("{} {names}", if n == 1 { "run" } else { "runs" }));
        }
        n => {
            let (first, last) = (of.runs.iter().min(), of.runs.iter().max());
            if let (Some(first), Some(last)) = (first, last) {
                said.push(format!("{n} runs, {first} to {last}"));
            }
        }
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// What an entry came to, in one line: its result, else its first effects.
pub(crate) fn outcome(of: &Entry) -> String {
    if let Some(result) = &of.result {
        return result.lines().next().unwrap_or_default().to_owned();
    }
    of.effects
        .iter()
        .take(2)
        .map(|e| format!("{} {} ({})", e.metric, signed(e.change), interval(e)))
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
pub(crate) mod tests {
    use walwright_record::journal::{EntryId, Plot};
    use walwright_record::{RunId, Timestamp};

    use super::*;

    pub(crate) fn sample() -> Entry {
        Entry {
            id: Some(EntryId("20261121-070000-abc".to_owned())),
            at: Timestamp(1_795_244_400_000_000),
            machine: Some(Machine {
                name: Some("db1".to_owned()),
                processors: Some(2),
                memory_bytes: Some(8 << 30),
                ..Machine::default()
            }),
            workload: Some("tpcb".to_owned()),
            changes: vec![Change {
                name: "max_wal_size".to_owned(),
                from: Some("1GB".to_owned()),
                to: Some("8GB".to_owned()),
            }],
            runs: vec![RunId("20261121-065000-aaa".to_owned())],
            effects: vec![Effect {
                arm: "wide <WAL>".to_owned(),
                metric: "throughput".to_owned(),
                change: 0.123,
                interval: Some([0.101, 0.145]),
                confidence: 0.95,
                blocks: Some(6),
                corrected_p: Some(0.031),
                noise_floor: Some(0.012),
                verdict: "proven".to_owned(),
            }],
            decision: Some("Keep it.".to_owned()),
            next_question: Some("Does wal_compression help?".to_owned()),
            ..Entry::asking("Does a larger max_wal_size | spare page images?")
        }
    }

    #[test]
    fn an_entry_in_every_rendering() {
        let mut of = sample();
        of.notes = Some("<script>alert(1)</script>\nanother line".to_owned());
        of.effects.push(Effect { interval: None, change: -0.02, ..of.effects[0].clone() });
        of.plots.push(Plot { title: "Effects".into(), svg: "<svg viewBox='0'></svg>".into() });
        let mut correction = Entry::asking("Was that so?");
        correction.id = Some(EntryId("20261122-000000-zzz".to_owned()));
        correction.at = of.at;
        correction.corrects = of.id.clone();
        let style = crate::terminal::Style { width: 80, colour: false, unicode: true };
        insta::assert_snapshot!("journal_entry", entry(&of, &[&correction]).terminal(&style));
        let all = [of, correction];
        insta::assert_snapshot!("journal_list", list(&all).terminal(&style));
        let (text, files) = page(&all).markdown_beside(Some("j-plots"));
        insta::assert_snapshot!("journal_markdown", text);
        assert_eq!(files[0].name, "20261121-070000-abc-1.svg");
        assert!(page(&all).markdown().contains("*Plot: Effects.*"));
        let html = page(&all).html();
        assert!(!html.contains("<script>alert") && html.contains("&lt;script&gt;"), "{html}");
        assert!(html.contains("<circle") && html.contains("<svg viewBox='0'>"));
    }

    #[test]
    fn changes_say_what_was_and_what_is() {
        let of = |from: Option<&str>, to: Option<&str>| {
            change(&Change {
                name: "i".to_owned(),
                from: from.map(str::to_owned),
                to: to.map(str::to_owned),
            })
        };
        assert_eq!(of(Some("a"), Some("b")), "i: a → b");
        assert_eq!(of(None, Some("b")), "i: b");
        assert_eq!(of(Some("a"), None), "i taken away (was a)");
    }

    #[test]
    fn many_runs_are_told_by_their_ends() {
        let runs = (0..9).map(|i| RunId(format!("r{i}"))).collect();
        let entry = Entry { runs, experiments: vec!["exp".to_owned()], ..Entry::default() };
        assert_eq!(grounds_of_entry(&entry).unwrap(), "exp; 9 runs, r0 to r8");
        assert_eq!(grounds_of_entry(&Entry::default()), None);
    }
}
