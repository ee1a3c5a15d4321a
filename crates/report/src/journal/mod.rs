//! The journal as a person reads it: a list and single entries on a terminal, the whole
//! as Markdown or as one HTML page, and the trend of a workload's runs.

mod forest;
mod html;
mod markdown;
mod terminal;
mod trend;

use walwright_record::journal::{Change, Effect, Entry, Machine};

use crate::format;

pub use html::{page, tune};
pub use markdown::{PlotFile, markdown};
pub use terminal::{entry, list};
pub use trend::trend;

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
fn interval_of(ends: Option<[f64; 2]>) -> String {
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

/// An effect as one line.
pub(crate) fn effect(of: &Effect) -> String {
    let level = level(of).map(|level| format!(" at {level}")).unwrap_or_default();
    let grounds = grounds(of);
    let grounds = if grounds.is_empty() { grounds } else { format!("; {grounds}") };
    let verdict = if of.verdict.is_empty() { String::new() } else { format!(": {}", of.verdict) };
    format!(
        "{}, {}: {} ({}{level}{grounds}){verdict}",
        of.arm,
        of.metric,
        signed(of.change),
        interval(of)
    )
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
    use walwright_record::journal::EntryId;
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
    fn an_effect_never_stands_without_its_interval() {
        let mut of = sample().effects.remove(0);
        assert_eq!(
            effect(&of),
            "wide <WAL>, throughput: +12.3 % (+10.1 % to +14.5 % at 95 %; 6 blocks, p = 0.031, \
             noise floor 1.2 %): proven"
        );
        of.interval = None;
        of.change = -0.02;
        assert!(effect(&of).contains("−2.0 % (no interval; 6 blocks"), "{}", effect(&of));
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
