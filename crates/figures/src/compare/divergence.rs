//! In what compared runs differ.

use std::collections::BTreeSet;

use serde::Serialize;
use walwright_record::Record;

use super::group::RunGroup;

/// What a difference is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DivergenceKind {
    /// The work itself.
    Workload,
    /// How it was driven.
    Load,
    /// Version and kind of the server.
    Server,
    /// A server setting.
    Setting,
    /// Tables and indexes.
    Schema,
    /// How much data there is.
    Data,
    /// The machine and its kernel.
    Host,
    /// What the machine did besides, and how fast it was.
    Noise,
}

impl DivergenceKind {
    /// For display.
    pub fn label(self) -> &'static str {
        match self {
            DivergenceKind::Workload => "workload",
            DivergenceKind::Load => "load",
            DivergenceKind::Server => "server",
            DivergenceKind::Setting => "setting",
            DivergenceKind::Schema => "schema",
            DivergenceKind::Data => "data",
            DivergenceKind::Host => "host",
            DivergenceKind::Noise => "noise",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// What it is of.
    pub kind: DivergenceKind,
    /// What differs: a setting's name, a table, …
    pub name: String,
    /// How it is in each group, the baseline first; several values where the runs of a
    /// group differ among themselves; `None` where it is not known.
    pub values: Vec<Option<String>>,
}

/// Differences found so far.
pub(super) struct Found<'a> {
    pub(super) groups: &'a [RunGroup],
    pub(super) all: Vec<Divergence>,
}

impl<'a> Found<'a> {
    /// The groups that are compared.
    pub(super) fn groups(&self) -> &'a [RunGroup] {
        self.groups
    }

    /// Notes a fact that should be the same in all runs, if it is not.
    pub(super) fn text(
        &mut self,
        kind: DivergenceKind,
        name: &str,
        of: impl Fn(&Record) -> Option<String>,
    ) {
        let values: Vec<BTreeSet<String>> =
            self.groups.iter().map(|group| group.runs.iter().filter_map(&of).collect()).collect();
        let mut known = values.iter().filter(|values| !values.is_empty());
        let Some(first) = known.next() else { return };
        // Runs of one group that differ among themselves are told as well: they are no
        // repeats of one thing.
        if first.len() == 1 && known.all(|values| values == first) {
            return;
        }
        let shown = |values: &BTreeSet<String>| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            (!values.is_empty()).then(|| values.join(" / "))
        };
        self.all.push(Divergence {
            kind,
            name: name.to_owned(),
            values: values.iter().map(shown).collect(),
        });
    }

    /// Notes a quantity whose means differ by more than `tolerance`, as a part of the
    /// smaller; `shown` writes it.
    pub(super) fn quantity(
        &mut self,
        kind: DivergenceKind,
        name: &str,
        tolerance: f64,
        of: impl Fn(usize, usize, &Record) -> Option<f64>,
        shown: impl Fn(f64) -> String,
    ) {
        let means: Vec<Option<f64>> = self
            .groups
            .iter()
            .enumerate()
            .map(|(group, runs)| {
                let known: Vec<f64> = runs
                    .runs
                    .iter()
                    .enumerate()
                    .filter_map(|(run, record)| of(group, run, record))
                    .collect();
                (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
            })
            .collect();
        let known = || means.iter().copied().flatten();
        let (low, high) =
            (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        if known().count() > 1 && high - low > tolerance * low.abs() {
            let values = means.iter().map(|mean| mean.map(&shown)).collect();
            self.all.push(Divergence { kind, name: name.to_owned(), values });
        }
    }
}
