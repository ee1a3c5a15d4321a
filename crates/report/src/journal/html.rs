//! The journal as one HTML page.

use serde::Serialize;
use walwright_record::journal::Entry;

use super::{change, effect, forest, grounds_of_entry, machine};
use crate::format;
use crate::html::{ReportError, rendered};

const TEMPLATE: &str = include_str!("../../templates/journal.html");

#[derive(Debug, Serialize)]
struct Page<'a> {
    /// What it shows.
    kind: &'a str,
    title: &'a str,
    entries: Vec<View>,
}

#[derive(Debug, Serialize)]
struct View {
    id: String,
    question: String,
    about: Vec<String>,
    corrects: Option<String>,
    corrected_by: Vec<String>,
    baseline: Option<String>,
    changes: Vec<String>,
    result: Vec<String>,
    effects: Vec<String>,
    /// Markup made here.
    forest: Option<String>,
    plots: Vec<Picture>,
    decision: Vec<String>,
    durability: Option<String>,
    next: Vec<String>,
    notes: Vec<String>,
    rests_on: Option<String>,
}

#[derive(Debug, Serialize)]
struct Picture {
    title: String,
    /// Markup that the lab keeps.
    svg: String,
}

/// The entries in order as a whole HTML page without outside resources.
///
/// # Errors
/// Only when the template itself is wrong, which the tests would show.
pub fn page(entries: &[Entry]) -> Result<String, ReportError> {
    let views = entries.iter().map(|entry| view(entry, entries)).collect();
    rendered(TEMPLATE, &Page { kind: "journal", title: "Journal", entries: views })
}

/// The account of a tune, which may not have ended, as such a page of its own.
///
/// # Errors
/// As [`page`].
pub fn tune(title: &str, account: &Entry) -> Result<String, ReportError> {
    let views = vec![view(account, &[])];
    rendered(TEMPLATE, &Page { kind: "tune", title, entries: views })
}

fn view(of: &Entry, all: &[Entry]) -> View {
    let mut about = vec![format::moment(of.at), of.origin.words().to_owned()];
    about.extend(of.workload.as_ref().map(|workload| format!("workload {workload}")));
    about.extend(of.machine.as_ref().map(machine));
    let lines = |text: &Option<String>| -> Vec<String> {
        let lines = text.as_deref().unwrap_or_default().trim().lines();
        lines.filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    let corrected_by = all
        .iter()
        .filter(|other| of.id.is_some() && other.corrects == of.id)
        .map(|other| other.name().to_owned());
    View {
        id: of.name().to_owned(),
        question: of.question.clone(),
        about,
        corrects: of.corrects.as_ref().map(ToString::to_string),
        corrected_by: corrected_by.collect(),
        baseline: of.baseline.clone(),
        changes: of.changes.iter().map(change).collect(),
        result: lines(&of.result),
        effects: of.effects.iter().map(effect).collect(),
        forest: forest::forest(&of.effects),
        plots: of
            .plots
            .iter()
            .map(|plot| Picture { title: plot.title.clone(), svg: plot.svg.clone() })
            .collect(),
        decision: lines(&of.decision),
        durability: of.durability.map(|class| format!("Class {class:?}: {}.", class.words())),
        next: lines(&of.next_question),
        notes: lines(&of.notes),
        rests_on: grounds_of_entry(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::sample;

    #[test]
    fn the_page_of_a_tune_is_no_journal() {
        let page = tune("Tune 20261121", &sample()).unwrap();
        assert!(page.contains("<h1>Tune 20261121</h1>") && page.contains("1GB → 8GB"));
        assert!(!page.contains("oldest first"));
    }

    #[test]
    fn the_page_holds_every_part_and_escapes_all_but_pictures() {
        let mut entry = sample();
        entry.notes = Some("<script>alert(1)</script>".to_owned());
        let page = page(&[entry.clone(), Entry::asking("empty?")]).unwrap();
        for part in ["1GB → 8GB", "proven", "Keep it.", "wal_compression", "20261121-065000-aaa"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"));
        assert!(page.contains("<circle") && page.contains("empty?"));
    }
}
