//! An experiment while it goes on: lines on standard error, and on a terminal a line
//! that is rewritten within a run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use walwright_experiment::{Estimate, ExperimentEvent};
use walwright_figures::experiment::{Look, Outlook, Prospect};
use walwright_report::{change, change_range, format};
use walwright_run::{Observe, Progress};

use crate::output::say;
use crate::show::data_on_disk::space_text;
use crate::show::lines::{ProgressLines, stage};

/// Time between lines within a run where nothing can be rewritten.
const EVERY_LINE: Duration = Duration::from_secs(30);

/// Columns of the bar.
const BAR: usize = 16;

/// Prints what happens.
pub struct Lines {
    inner: Mutex<Inner>,
}

struct Inner {
    lines: ProgressLines,
    /// Which run it is: `run 4 of 18, block 1 of 6, large WAL`.
    run: String,
    /// Runs done and planned.
    runs: (usize, usize),
}

impl Lines {
    /// Nothing printed yet.
    pub fn new() -> Lines {
        let inner = Inner { lines: ProgressLines::new(), run: String::new(), runs: (0, 0) };
        Lines { inner: Mutex::new(inner) }
    }
}

impl Observe<ExperimentEvent<'_>> for Lines {
    fn event(&self, event: ExperimentEvent<'_>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            ExperimentEvent::Estimate(of) => inner.lines.text(&estimate_text(of)),
            ExperimentEvent::Loading { arm } => inner.run = format!("data of {arm}"),
            ExperimentEvent::Begins { run, of, block, blocks, arm } => {
                inner.run = format!("run {run} of {of}, block {block} of {blocks}, {arm}");
                inner.runs = (run - 1, of);
                inner.lines.wait();
            }
            ExperimentEvent::Run(progress) => inner.progress(progress),
            ExperimentEvent::Done { arm: _, metric, value, left } => {
                let value = value.map_or_else(
                    || format::NOT_OBSERVABLE.to_owned(),
                    |value| walwright_report::metric_value(metric.unit, value),
                );
                let text = format!("{}: {} {value}; {} left", inner.run, metric.name, about(left));
                inner.lines.line(&text);
            }
            ExperimentEvent::Block { done, of, negligible, arms } => {
                inner.block(done, of, negligible, arms);
            }
            event => {
                if let Some(text) = message(&event) {
                    inner.lines.line(&text);
                }
            }
        }
    }
}

/// What an event is worth a line for, whichever way an experiment is shown.
pub fn message(event: &ExperimentEvent<'_>) -> Option<String> {
    Some(match event {
        ExperimentEvent::Loaded(space) => space_text(space, "each run", 1),
        ExperimentEvent::Again { arm, why } => {
            format!("{arm}: the run failed and is tried again: {why}")
        }
        ExperimentEvent::GivenUp { arm, why } => format!("{arm} is given up: {why}"),
        ExperimentEvent::NoArmLeft => "every arm failed: ending here".to_owned(),
        ExperimentEvent::Look(look) => match look {
            Look::Clear => "interim look: every arm is decided, ending here",
            Look::Hopeless => {
                "interim look: the planned blocks will not decide the rest, ending here"
            }
            Look::Open => "interim look: undecided, going on",
        }
        .to_owned(),
        _ => return None,
    })
}

impl Inner {
    /// Within a run: what it is at.
    fn progress(&mut self, progress: &Progress<'_>) {
        let Some(now) = stage(progress) else { return };
        if self.lines.may_rewrite() {
            self.lines.rewrite(&format!("{} {}: {now}", bar(self.runs), self.run));
        } else if self.lines.line_is_due(EVERY_LINE) {
            self.lines.line(&format!("{}: {now}", self.run));
        }
    }

    /// After a block: how every arm stands and what the rest will buy.
    fn block(
        &mut self,
        done: usize,
        of: usize,
        negligible: f64,
        arms: &[(String, Option<Outlook>)],
    ) {
        self.lines.line(&format!("block {done} of {of} is done"));
        for (name, outlook) in arms {
            let Some(outlook) = outlook else { continue };
            let mut text =
                format!("{name}: {} ({})", change(outlook.change), change_range(outlook.now));
            if done < of {
                let then = match outlook.prospect(negligible) {
                    Prospect::WillShow => "this will show",
                    Prospect::WillBeScreened => "visible, but too few blocks to prove it",
                    Prospect::WillBeNoise => "will not stand out from noise",
                    Prospect::WillBeNegligible => "will prove too small to matter",
                    Prospect::WillStayOpen => "this will not become clear",
                };
                text.push_str(&format!(
                    "; after {of} blocks {}: {then}",
                    change_range(outlook.then)
                ));
            }
            say(&format!("           {text}"));
        }
    }
}

/// Runs done of those planned, as a bar.
fn bar((done, of): (usize, usize)) -> String {
    let full = (done * BAR).checked_div(of).unwrap_or(0).min(BAR);
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full))
}

/// What an experiment will take, as text of some lines.
pub fn estimate_text(of: &Estimate) -> String {
    let mut text = format!("{}\n", of.name);
    if !of.id.is_empty() {
        text.push_str(&format!("experiment {}\n", of.id));
    }
    let arms = format::counted(of.arms as u64, "arm");
    text.push_str(&format!(
        "{} blocks of two baseline runs and {arms}: {} runs of about {}, {} in all",
        of.blocks,
        of.runs,
        format::length(of.per_run),
        about(of.per_run * u32::try_from(of.runs).unwrap_or(u32::MAX))
    ));
    if of.done > 0 {
        text.push_str(&format!("; {} are done, {} left", of.done, about(of.left)));
    }
    text.push('\n');
    // Once runs are done, the data are there, or filling them is in what a run took.
    match (of.done, of.data_sets) {
        (0, 0) => text.push_str("not counted: with --init, filling the tables before every run\n"),
        (0, sets) => text.push_str(&format!(
            "not counted: loading {} before the first run, kept on disk until it ends;\n\
             each run starts a server of its own on a copy\n",
            format::counted(sets as u64, "data set")
        )),
        _ => {}
    }
    remarks(of).iter().for_each(|remark| text.push_str(&format!("{remark}\n")));
    text
}

/// What is to be known of an experiment before it begins, beside what it will take.
pub fn remarks(of: &Estimate) -> Vec<String> {
    let mut remarks = Vec::new();
    if of.blocks < of.blocks_to_prove {
        remarks.push(format!(
            "screening only: {} blocks can prove nothing of {}, {} can",
            of.blocks,
            format::counted(of.arms as u64, "arm"),
            of.blocks_to_prove
        ));
    }
    if let [first, .., _] = of.looks[..] {
        let looks: Vec<String> = of.looks.iter().map(usize::to_string).collect();
        remarks.push(format!("it may end after {first} blocks: looks after {}", looks.join(", ")));
    }
    if let Some(least) = of.blocks_to_look {
        remarks.push(format!(
            "--stop-when-clear has no look before the end: {} blocks can prove nothing on the way, {least} can",
            of.blocks
        ));
    }
    remarks.extend(of.left_out.iter().cloned());
    remarks
}

/// A length of time nobody needs exactly.
pub fn about(of: Duration) -> String {
    match of.as_secs() {
        0..=99 => format!("about {} s", of.as_secs()),
        100..=5_999 => format!("about {} min", (of.as_secs() + 30) / 60),
        more => format!("about {:.1} h", more as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_says_what_it_leaves_out() {
        let before = Estimate {
            id: String::new(),
            name: "WAL size".to_owned(),
            blocks: 6,
            arms: 1,
            runs: 18,
            done: 0,
            per_run: Duration::from_secs(77),
            left: Duration::from_secs(18 * 77),
            blocks_to_prove: 6,
            data_sets: 2,
            looks: vec![6],
            blocks_to_look: Some(9),
            left_out: vec!["2 of config.env are left out".to_owned()],
        };
        let text = estimate_text(&before);
        assert!(
            text.contains("18 runs of about") && text.contains("about 23 min in all"),
            "{text}"
        );
        assert!(text.contains("not counted: loading 2 data sets before"), "{text}");
        assert!(text.contains("a server of its own"), "{text}");
        assert!(
            text.contains("no look before the end: 6 blocks can prove nothing on the way, 9 can")
        );
        let visit = estimate_text(&Estimate { data_sets: 0, ..before.clone() });
        assert!(visit.contains("with --init") && !visit.contains("a server of its own"), "{visit}");
        assert!(text.contains("\n2 of config.env are left out\n"), "{text}");
        let text =
            estimate_text(&Estimate { done: 3, left: Duration::from_secs(15 * 77), ..before });
        assert!(text.contains("3 are done") && !text.contains("loading"), "{text}");
    }
}
