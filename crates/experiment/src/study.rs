//! The cells of a study, in the rows of its grid.

use std::collections::{BTreeMap, BTreeSet};

use walwright_figures::experiment::{
    Arm, MeanOfBlocks, OUTSIDE_TIME, POOL_WAIT, SERVER_TIME, Study, StudyCell, StudyGroup,
    StudyLimit, judge, study_kinds,
};

use super::folder::Cell;
use super::order::{AGAIN, BASELINE, FIRST_ARM};
use super::outcome::Whole;
use super::plan_tables::texts;

/// Figures beside those of the tables: where time and processors go.
const BESIDE: [&str; 8] = [
    POOL_WAIT,
    SERVER_TIME,
    OUTSIDE_TIME,
    "cpu_generator",
    "cpu_application",
    "cpu_server",
    "busy",
    "commits_each",
];

type Parameters = BTreeMap<String, String>;
/// A cell: its place, its name and its parameters.
type Place<'a> = (usize, &'a str, Parameters);

impl Whole {
    /// The tables of a study by the runs so far; `None` for an experiment that is none.
    pub(super) fn study(&self, cells: &[Cell]) -> Option<Study> {
        if !self.plan.is_study() {
            return None;
        }
        let compared = self.plan.study.as_ref().and_then(|of| of.compare.clone());
        let base = texts(&self.plan.parameters);
        let mut grid =
            vec![(BASELINE, "baseline", base.clone()), (AGAIN, "baseline", base.clone())];
        grid.extend(self.arms.arms.iter().enumerate().map(|(place, arm)| {
            let mut own = base.clone();
            own.extend(arm.configuration.parameters.clone());
            (FIRST_ARM + place, arm.name.as_str(), own)
        }));
        let groups = match &compared {
            None => vec![self.group(cells, None, "", &grid)],
            Some(name) => {
                let rows = rows(&grid, name).into_iter();
                rows.map(|(named, row)| self.group(cells, Some(name), &named, &row)).collect()
            }
        };
        Some(Study { compared, groups })
    }

    /// Cells beside the first of them. The second with the same parameters is its repeat.
    fn group(
        &self,
        cells: &[Cell],
        compared: Option<&str>,
        name: &str,
        row: &[Place<'_>],
    ) -> StudyGroup {
        let (control, rest) = row.split_first().expect("a row has its control");
        let is_repeat = |(place, _, of): &Place<'_>| match compared {
            Some(_) => *of == control.2,
            None => *place == AGAIN,
        };
        let repeat = rest.iter().find(|cell| is_repeat(cell));
        let others: Vec<_> = rest.iter().filter(|cell| !is_repeat(cell)).collect();
        let confidence = self.looks.confidence;
        let values = |place: usize, key: &str| {
            self.values_of(cells, place, |figures| figures.get(key).copied())
        };
        let kinds = study_kinds();
        let figures = kinds.iter().map(|(_, kind)| {
            let arms: Vec<Arm> = others
                .iter()
                .map(|(place, name, _)| Arm {
                    name: (*name).to_owned(),
                    values: values(*place, &kind.key),
                })
                .collect();
            let again = repeat.map_or_else(Vec::new, |(place, ..)| values(*place, &kind.key));
            let base = values(control.0, &kind.key);
            judge(kind.clone(), &base, &again, &arms, confidence, self.plan.seed)
        });
        let figures = figures.collect();
        let keys = || kinds.iter().map(|(_, kind)| kind.key.as_str()).chain(BESIDE);
        let cell = |(place, name, of): &Place<'_>, is_repeat| {
            let told = keys().filter_map(|key| {
                let mean = MeanOfBlocks::of(&values(*place, key), confidence)?;
                Some((key.to_owned(), mean))
            });
            let runs = cells.iter().filter(|cell| cell.place == *place && cell.failed.is_none());
            let value = compared.and_then(|name| Some(format!("{name} {}", of.get(name)?)));
            StudyCell {
                name: (*name).to_owned(),
                label: value.unwrap_or_else(|| (*name).to_owned()),
                is_repeat,
                figures: told.collect(),
                limit: StudyLimit::of_most(runs.map(|cell| &cell.figures)),
            }
        };
        let shown = [control].into_iter().chain(others.iter().copied()).map(|of| cell(of, false));
        let shown = shown.chain(repeat.map(|of| cell(of, true))).collect();
        StudyGroup { name: name.to_owned(), cells: shown, figures }
    }
}

/// The cells of a grid in rows that differ in the parameter `compared` alone, each named by what
/// differs between rows. The first cell of the grid has the control's value of it: the cells with
/// that stand first in their rows, wherever the plan has them, and a row without one has nothing
/// to be compared with.
fn rows<'a>(grid: &[Place<'a>], compared: &str) -> Vec<(String, Vec<Place<'a>>)> {
    let control = grid.first().and_then(|(_, _, of)| of.get(compared));
    let others = |of: &Parameters| {
        let mut of = of.clone();
        of.remove(compared);
        of
    };
    let varied =
        |key: &String| grid.iter().map(|(_, _, of)| of.get(key)).collect::<BTreeSet<_>>().len() > 1;
    let mut rows: Vec<(Parameters, Vec<Place<'_>>)> = Vec::new();
    for cell in grid {
        let key = others(&cell.2);
        match rows.iter_mut().find(|(other, _)| *other == key) {
            Some((_, row)) => row.push(cell.clone()),
            None => rows.push((key, vec![cell.clone()])),
        }
    }
    let row = |(key, mut row): (Parameters, Vec<Place<'a>>)| {
        row.sort_by_key(|(_, _, of)| of.get(compared) != control);
        let named = key.iter().filter(|(key, _)| varied(key));
        let named: Vec<String> = named.map(|(key, value)| format!("{key} {value}")).collect();
        let is_controlled = row.first().is_some_and(|(_, _, of)| of.get(compared) == control);
        is_controlled.then(|| (named.join(", "), row))
    };
    rows.into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grid of these parameters, `NAME=VALUE`, in each cell.
    fn grid<'a>(cells: &[(&'a str, &[&str])]) -> Vec<Place<'a>> {
        let pair = |text: &&str| {
            let (name, value) = text.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        let cell = |(place, (name, of)): (usize, &(&'a str, &[&str]))| {
            (place, *name, of.iter().map(pair).collect())
        };
        cells.iter().enumerate().map(cell).collect()
    }

    fn named<'a>(rows: &'a [(String, Vec<Place<'a>>)]) -> Vec<(&'a str, Vec<&'a str>)> {
        let names = |row: &'a Vec<Place<'a>>| row.iter().map(|(_, name, _)| *name).collect();
        rows.iter().map(|(name, row)| (name.as_str(), names(row))).collect()
    }

    #[test]
    fn cells_stand_beside_the_control_that_differs_in_what_is_compared_alone() {
        let grid = grid(&[
            ("base", &["clients=1", "pool=10", "tls=no"]),
            ("base again", &["clients=1", "pool=10", "tls=no"]),
            ("small", &["clients=1", "pool=5", "tls=no"]),
            ("many, large", &["clients=50", "pool=25", "tls=no"]),
            ("many", &["clients=50", "pool=10", "tls=no"]),
            ("many again", &["clients=50", "pool=10", "tls=no"]),
            ("alone", &["clients=25", "pool=25", "tls=no"]),
        ]);
        let expected = [
            ("clients 1", vec!["base", "base again", "small"]),
            ("clients 50", vec!["many", "many again", "many, large"]),
        ];
        assert_eq!(named(&rows(&grid, "pool")), expected);
    }

    #[test]
    fn rows_are_named_by_all_that_differs_between_them() {
        let grid = grid(&[
            ("a", &["clients=1", "pool=10", "reset=none"]),
            ("b", &["clients=1", "pool=10", "reset=all"]),
            ("c", &["clients=2", "pool=10", "reset=none"]),
            ("d", &["clients=2", "pool=10", "reset=all"]),
        ]);
        // The pool is the same everywhere.
        let expected = [("clients 1", vec!["a", "b"]), ("clients 2", vec!["c", "d"])];
        assert_eq!(named(&rows(&grid, "reset")), expected);
        let expected = [("reset none", vec!["a", "c"]), ("reset all", vec!["b", "d"])];
        assert_eq!(named(&rows(&grid, "clients")), expected);
    }
}
