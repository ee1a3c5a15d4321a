//! From the runs of an experiment to its result.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use walwright_catalog::{DurabilityClass, parameter};
use walwright_figures::compare::{ComparedStatement, RunGroup, compared_statements, figure_kinds};
use walwright_figures::experiment::{
    Arm, ArmOutcome, ClaimHeld, ClaimMet, Judged, Looks, Outcome, Outlook, Prediction,
    PredictionMet, contrasts, judge, latency_breakdowns, outlook, reasons,
};
use walwright_record::{Record, RunId, WarningCode};
use walwright_stats::{Confidence, Interval};
use walwright_store::{FindError, Lab, Store, StoreError};

use super::durability::class;
use super::folder::{self, Cell, Header};
use super::order::{AGAIN, BASELINE, FIRST_ARM};
use super::plan_tables::{ArmTable, ClaimTable, JournalEntries};
use super::profile::Profiles;
use super::{
    Arms, AttachedServer, Bench, Consent, ExperimentError, Kernel, Metric, PlanError, PlanFile,
    arms, words,
};

/// Blocks whose records are read for their statements.
const STATEMENT_BLOCKS: usize = 6;
/// Statements that are kept.
const STATEMENTS: usize = 5;

/// Everything that makes an experiment, read and checked.
pub(super) struct Whole {
    pub(super) header: Header,
    pub(super) plan: PlanFile,
    pub(super) arms: Arms,
    pub(super) metrics: Vec<Metric>,
    pub(super) looks: Looks,
    pub(super) bench: Bench,
    /// What profiles hold that is not part of any run, a sentence each.
    pub(super) left_out: Vec<String>,
}

impl Whole {
    /// One that is there, of which `text` is the plan: with the profiles that it began with.
    pub fn kept(lab: &Lab, header: Header, text: &str) -> Result<Whole, ExperimentError> {
        let profiles = match folder::profiles(lab, &header.id)? {
            Some(kept) => kept,
            // Versions that kept none took no values of the kernel from them, whatever the consent.
            None => Profiles::read(
                PlanFile::parse(text)?.profiles(),
                &header.origin,
                &Consent::default(),
            )?,
        };
        let (id, began) = (header.id.clone(), header.arms.clone());
        let whole = Whole::new(lab, header, text, &profiles)?;
        // They may be others where profiles were not kept.
        if !whole.arms.names().eq(&began) {
            return Err(ExperimentError::ArmsChanged(id));
        }
        Ok(whole)
    }

    /// Checks a plan under a header.
    pub(super) fn new(
        lab: &Lab,
        header: Header,
        text: &str,
        profiles: &Profiles,
    ) -> Result<Whole, ExperimentError> {
        let plan = PlanFile::parse(text)?;
        let origin: &Path = &header.origin;
        let arms = arms(&plan, origin, profiles).map_err(|error| error.with_line(text))?;
        let consent: Consent = plan.consent.iter().chain(&header.consent).collect();
        let consent = match header.server {
            None => consent.on_clusters_of_our_own(),
            Some(_) => consent,
        };
        let common = plan.bench(origin, profiles, &header.command);
        let mut common = common.map_err(|error| error.with_line(text))?;
        common.server = header.server.as_ref().map(|on| on.identity.address.clone());
        let bench = Bench::new(lab, common, &header.id)?;
        let base = &bench.plan().base;
        // In an ablation the baseline is what lowers durability.
        let none = super::Configuration::default();
        let checked = || {
            consent.check("baseline", &arms.baseline, &base.with(&none))?;
            let before = base.with(&arms.baseline);
            arms.arms.iter().try_for_each(|a| consent.check(&a.name, &a.configuration, &before))
        };
        checked().map_err(|error: PlanError| error.with_line(text))?;
        let looks = if header.stop_when_clear {
            Looks::spending(header.blocks, arms.arms.len(), Confidence::P95)
        } else {
            Looks::at_end(header.blocks, Confidence::P95)
        };
        let metrics = plan.metrics()?;
        let left_out = plan.left_out(profiles)?;
        Ok(Whole { header, plan, arms, metrics, looks, bench, left_out })
    }

    /// Has its runs made on an attached server.
    pub fn on(self, attached: Option<Arc<AttachedServer>>) -> Whole {
        Whole { bench: self.bench.on(attached), ..self }
    }

    /// The value of a metric at one place in every block up to the last one begun.
    fn values(&self, cells: &[Cell], metric: &Metric, place: usize) -> Vec<Option<f64>> {
        self.values_of(cells, place, |figures| metric.value(figures))
    }

    /// What is made of the figures at one place in every block up to the last one begun.
    pub(super) fn values_of(
        &self,
        cells: &[Cell],
        place: usize,
        value: impl Fn(&BTreeMap<String, f64>) -> Option<f64>,
    ) -> Vec<Option<f64>> {
        let blocks = cells.iter().map(|cell| cell.block + 1).max().unwrap_or(0);
        let mut values = vec![None; blocks];
        for cell in cells.iter().filter(|cell| cell.place == place && cell.failed.is_none()) {
            values[cell.block] = value(&cell.figures);
        }
        values
    }

    /// A metric of all arms, judged by the runs so far.
    pub(super) fn judged(&self, cells: &[Cell], metric: &Metric) -> Judged {
        let values = |place| self.values(cells, metric, place);
        let arms: Vec<Arm> = self
            .arms
            .arms
            .iter()
            .enumerate()
            .map(|(place, arm)| Arm { name: arm.name.clone(), values: values(FIRST_ARM + place) })
            .collect();
        let confidence = self.looks.confidence;
        let (base, again) = (values(BASELINE), values(AGAIN));
        judge(metric.kind(), &base, &again, &arms, confidence, self.plan.seed)
    }

    /// Main effects and interactions, judged as one family.
    fn contrasts(&self, cells: &[Cell], metric: &Metric) -> Option<Judged> {
        if self.arms.factors.is_empty() {
            return None;
        }
        let places = [BASELINE].into_iter().chain((0..self.arms.arms.len()).map(|a| FIRST_ARM + a));
        let values: Vec<Vec<Option<f64>>> =
            places.map(|place| self.values(cells, metric, place)).collect();
        let found = contrasts(&self.arms.factors, &values);
        // Each contrast has a baseline of its own; laid over the first's values, the
        // ratios stay what they are.
        let over: Vec<Arm> = found
            .into_iter()
            .map(|(arm, base)| {
                let on_one =
                    |((value, base), first): ((&Option<f64>, &Option<f64>), &Option<f64>)| {
                        Some((*value)? / (*base)? * (*first)?)
                    };
                let all = arm.values.iter().zip(&base).zip(&values[0]);
                Arm { name: arm.name, values: all.map(on_one).collect() }
            })
            .collect();
        let again = self.values(cells, metric, AGAIN);
        let confidence = self.looks.confidence;
        let mut judged =
            judge(metric.kind(), &values[0], &again, &over, confidence, self.plan.seed);
        // A ratio of means has no value of its own.
        judged.arms.iter_mut().for_each(|arm| arm.value = None);
        Some(judged)
    }

    /// How every arm stands and will stand; of one that is given up no block is to come.
    pub(super) fn outlooks(&self, judged: &Judged, cells: &[Cell]) -> Vec<Option<Outlook>> {
        let arms = judged.arms.iter().enumerate();
        arms.map(|(place, arm)| {
            let goes_on = !is_given_up(cells, FIRST_ARM + place);
            goes_on.then(|| outlook(arm, judged, self.header.blocks)).flatten()
        })
        .collect()
    }

    /// Whether there is an arm that is not given up.
    pub(super) fn is_an_arm_left(&self, cells: &[Cell]) -> bool {
        (0..self.arms.arms.len()).any(|arm| !is_given_up(cells, FIRST_ARM + arm))
    }

    /// Blocks in which every run that is not given up is done.
    pub(super) fn complete_blocks(&self, cells: &[Cell]) -> usize {
        let wanted: Vec<usize> = (0..FIRST_ARM + self.arms.arms.len())
            .filter(|place| !is_given_up(cells, *place))
            .collect();
        let done = |block: usize, place: usize| {
            cells.iter().any(|cell| (cell.block, cell.place) == (block, place))
        };
        (0..self.header.blocks)
            .take_while(|block| wanted.iter().all(|place| done(*block, *place)))
            .count()
    }

    /// The result. `store` is read for statements; without one they are left out.
    pub(super) fn outcome(
        &self,
        cells: &[Cell],
        store: Option<&Store>,
    ) -> Result<Outcome, ExperimentError> {
        let mut judged = self.metrics.iter().map(|metric| self.judged(cells, metric));
        // A plan has at least one metric, which reading it checks.
        let first = judged.next().expect("a plan has at least one metric");
        let others: Vec<Judged> = judged.collect();
        let run_of = |block: usize, place: usize| -> Option<RunId> {
            cells.iter().find(|c| (c.block, c.place) == (block, place))?.run.clone()
        };
        let blocks = cells.iter().map(|cell| cell.block + 1).max().unwrap_or(0);
        let statements = self.statements(cells, store)?;
        let (kinds, base) = (figure_kinds(), figures(cells, blocks, BASELINE));
        let arms = self
            .arms
            .arms
            .iter()
            .zip(statements)
            .enumerate()
            .map(|(place, (arm, statements))| {
                let place = FIRST_ARM + place;
                let failed = cells.iter().find(|c| c.place == place && c.failed.is_some());
                ArmOutcome {
                    name: arm.name.clone(),
                    changes: arm.changes.clone(),
                    runs: (0..blocks).map(|block| run_of(block, place)).collect(),
                    failed: failed.and_then(|cell| cell.failed.clone()),
                    time: latency_breakdowns(&kinds, &base, &figures(cells, blocks, place)),
                    reasons: reasons(&kinds, &base, &figures(cells, blocks, place)),
                    statements,
                }
            })
            .collect();
        let prediction = self.plan.prediction.as_ref().map(|of| {
            let prediction = Prediction {
                run: RunId(of.run.clone()),
                finding: of.finding.clone(),
                action: of.action.clone(),
                metric: first.metric.key.clone(),
                change: Interval::between(of.low, of.high),
            };
            let effect = first.arms.first().and_then(|arm| arm.effect.as_ref());
            PredictionMet::of(prediction, effect.map(|effect| effect.change.clone()))
        });
        Ok(Outcome {
            id: self.header.id.clone(),
            name: self.header.name.clone(),
            question: self.plan.question.clone(),
            design: self.plan.design.name().to_owned(),
            baseline: words::baseline(&self.bench, &self.arms.baseline),
            ending: self.header.ending,
            planned: self.header.blocks,
            blocks: self.complete_blocks(cells),
            runs: cells.iter().filter(|cell| cell.run.is_some()).count(),
            looks: self.looks.clone(),
            negligible: self.plan.negligible(),
            contrasts: self.contrasts(cells, &self.metrics[0]),
            outlooks: self.outlooks(&first, cells),
            judged: first,
            others,
            arms,
            baseline_runs: (0..blocks)
                .map(|block| [run_of(block, BASELINE), run_of(block, AGAIN)])
                .collect(),
            prediction,
            claims: self.claims(cells),
            entry_of_each_arm: self.plan.journal == JournalEntries::Arms,
            study: self.study(cells),
            warnings: self.warnings(cells),
        })
    }

    /// What others claim of arms, beside what was measured of them.
    fn claims(&self, cells: &[Cell]) -> Vec<ClaimMet> {
        let place = |name: &str| {
            let place = self.arms.arms.iter().position(|arm| arm.name == name)?;
            Some(FIRST_ARM + place)
        };
        let of_arm = |arm: &ArmTable, claim: &ClaimTable| {
            let at = place(&arm.name)?;
            let metric = claim.metric.as_ref();
            // Reading the plan has checked it.
            let metric =
                metric.and_then(|name| Metric::named(name, self.plan.cost.as_deref()).ok());
            let judged = metric.as_ref().and_then(|metric| {
                let base = match &claim.than {
                    None => BASELINE,
                    Some(other) => place(other)?,
                };
                let values = |place| self.values(cells, metric, place);
                let arm = Arm { name: arm.name.clone(), values: values(at) };
                let (confidence, seed) = (self.looks.confidence, self.plan.seed);
                let (base, again) = (values(base), values(AGAIN));
                Some(judge(metric.kind(), &base, &again, &[arm], confidence, seed))
            });
            let effect = judged.as_ref().and_then(|of| of.arms.first()?.effect.as_ref());
            let measured = effect.map(|effect| effect.change.clone());
            let claimed = claim.change.map(|change| {
                let (low, high) = change.ends();
                Interval { low, high }
            });
            let held = claimed
                .zip(judged.as_ref())
                .map(|(claimed, of)| ClaimHeld::of(claimed, of, self.plan.negligible()));
            let class = class(&self.arms.arms[at - FIRST_ARM].configuration);
            Some(ClaimMet {
                arm: arm.name.clone(),
                text: claim.text.clone(),
                than: claim.than.clone(),
                metric: metric.as_ref().map(Metric::kind),
                claimed,
                measured,
                judged,
                held,
                durability: format!("{class}: {}", class.words()),
            })
        };
        let mut claims = Vec::new();
        for arm in &self.plan.arms {
            claims.extend(arm.claims.iter().filter_map(|claim| of_arm(arm, claim)));
        }
        claims
    }

    /// For every arm the statements whose time changed most.
    fn statements(
        &self,
        cells: &[Cell],
        store: Option<&Store>,
    ) -> Result<Vec<Vec<ComparedStatement>>, ExperimentError> {
        let arms = self.arms.arms.len();
        let Some(store) = store else { return Ok(vec![Vec::new(); arms]) };
        let base = records(store, cells, BASELINE)?;
        if base.is_empty() {
            return Ok(vec![Vec::new(); arms]);
        }
        let mut groups = vec![RunGroup { name: "baseline".to_owned(), runs: base }];
        let mut all = Vec::with_capacity(arms);
        for place in 0..arms {
            let runs = records(store, cells, FIRST_ARM + place)?;
            // Records count by transaction, of which one of a batch is another.
            if runs.is_empty() || self.arms.arms[place].configuration.is_batch() {
                all.push(Vec::new());
                continue;
            }
            groups.push(RunGroup { name: self.arms.arms[place].name.clone(), runs });
            let mut compared = compared_statements(&groups);
            compared.truncate(STATEMENTS);
            all.push(compared);
            groups.pop();
        }
        Ok(all)
    }

    /// Reasons to trust the figures less: what the records warn of, each kind once, and
    /// what only the whole shows.
    fn warnings(&self, cells: &[Cell]) -> Vec<String> {
        let mut kinds: BTreeMap<WarningCode, (usize, String)> = BTreeMap::new();
        for cell in cells {
            let mut seen = Vec::new();
            for warning in &cell.warnings {
                // What cannot be seen is the same in all runs, and told by each record.
                if warning.code == WarningCode::NotObservable || seen.contains(&warning.code) {
                    continue;
                }
                seen.push(warning.code);
                let kind = kinds.entry(warning.code).or_insert_with(|| (0, warning.text.clone()));
                kind.0 += 1;
            }
        }
        let mut warnings: Vec<String> = kinds
            .into_values()
            .map(|(count, text)| match count {
                all if all == cells.len() => format!("in every run: {text}"),
                1 => format!("in 1 of {} runs: {text}", cells.len()),
                some => format!("in {some} of {} runs, for example: {text}", cells.len()),
            })
            .collect();
        warnings.extend(self.moved_cost(cells));
        warnings.extend(self.left_out.iter().cloned());
        warnings
    }

    /// An arm that moves cost in time, judged over windows in which that cost need not
    /// have fallen.
    fn moved_cost(&self, cells: &[Cell]) -> Option<String> {
        let baseline = &self.arms.baseline.settings;
        let all = self.arms.arms.iter().flat_map(|arm| &arm.configuration.settings).chain(baseline);
        let mut names: Vec<&String> = all
            .filter(|(name, _)| parameter(name).is_some_and(|p| p.class == DurabilityClass::T))
            .map(|(name, _)| name)
            .collect();
        names.sort();
        names.dedup();
        let known = cells.iter().filter_map(|cell| cell.figures.get("checkpoints"));
        let without = known.clone().filter(|completed| **completed == 0.0).count();
        if names.is_empty() || without == 0 {
            return None;
        }
        let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        Some(format!(
            "{} moves cost in time (class T), and in {without} of {} windows no checkpoint completed: what it saves may be paid later; measure longer windows",
            names.join(", "),
            known.count()
        ))
    }
}

/// Whether the arm at a place could not be run and is not tried again.
pub(super) fn is_given_up(cells: &[Cell], place: usize) -> bool {
    cells.iter().any(|cell| cell.place == place && cell.failed.is_some())
}

/// A metric of the arms that go on: what an arm that is given up showed before is no reason to
/// go on, nor to end.
pub(super) fn going_on(judged: &Judged, cells: &[Cell]) -> Judged {
    let arms = judged.arms.iter().enumerate();
    let going = arms.filter(|(place, _)| !is_given_up(cells, FIRST_ARM + place));
    Judged { arms: going.map(|(_, arm)| arm.clone()).collect(), ..judged.clone() }
}

/// The figures of the run at one place in every block.
fn figures(cells: &[Cell], blocks: usize, place: usize) -> Vec<Option<&BTreeMap<String, f64>>> {
    (0..blocks)
        .map(|block| {
            let cell = cells.iter().find(|c| (c.block, c.place) == (block, place))?;
            cell.failed.is_none().then_some(&cell.figures)
        })
        .collect()
}

/// The records of the last runs at one place, as far as they are still there.
fn records(store: &Store, cells: &[Cell], place: usize) -> Result<Vec<Record>, ExperimentError> {
    let runs = cells.iter().rev().filter(|cell| cell.place == place && cell.failed.is_none());
    let mut records = Vec::new();
    for run in runs.filter_map(|cell| cell.run.as_ref()).take(STATEMENT_BLOCKS) {
        match store.load(run) {
            Ok(record) => records.push(record),
            Err(StoreError::Find(FindError::NoSuch { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(records)
}

/// The result of an experiment by its name, finished or not.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn outcome(lab: &Lab, name: &str) -> Result<Outcome, ExperimentError> {
    let header = folder::find(lab, name)?;
    let id = header.id.clone();
    let whole = Whole::kept(lab, header, &folder::plan(lab, &id)?)?;
    let store = lab.existing_store()?;
    whole.outcome(&folder::cells(lab, &id)?, store.as_ref())
}

/// The experiments that have ended and proved something of a run: the name of each, and what was
/// predicted from the run beside what was measured, the oldest first. Those that cannot be read
/// are left out.
///
/// # Errors
/// When the directory cannot be read.
pub fn proofs(lab: &Lab, run: &RunId) -> Result<Vec<(String, PredictionMet)>, ExperimentError> {
    #[derive(serde::Deserialize)]
    struct Kept {
        prediction: Option<PredictionMet>,
    }
    let all = folder::list(lab)?;
    let of = |id: String| {
        let kept: Kept = folder::read_outcome(lab, &id)?;
        let met = kept.prediction.filter(|met| met.prediction.run == *run)?;
        Some((id, met))
    };
    Ok(all.into_iter().filter_map(|one| of(one.header.id)).collect())
}

/// Where the page of an experiment is written.
pub fn page_path(lab: &Lab, id: &str) -> std::path::PathBuf {
    folder::path(lab, id).join("report.html")
}

/// Deletes an experiment and its data at rest, and brings back the values of the kernel that
/// a killed run of it left. The records of its runs stay. Also one that cannot be read.
/// Gives its name.
///
/// # Errors
/// When there is none, another process runs it, or it cannot be deleted.
pub async fn delete(lab: &Lab, name: &str) -> Result<String, ExperimentError> {
    let id = folder::find_id(lab, name)?;
    let held = folder::Folder::open(lab, &id)?;
    Kernel::of(lab, &id).recover().await?;
    super::bench::discard_named(lab, &id)?;
    let path = folder::path(lab, &id);
    std::fs::remove_dir_all(&path).map_err(ExperimentError::file("remove", &path))?;
    drop(held);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(block: usize, place: usize) -> Cell {
        Cell {
            block,
            place,
            run: None,
            figures: BTreeMap::new(),
            warnings: Vec::new(),
            failed: Some("it does not start".to_owned()),
            seconds: 0.0,
        }
    }

    #[test]
    fn a_look_passes_over_what_was_given_up() {
        let arm = |name: &str| Arm { name: name.to_owned(), values: vec![Some(2.0), Some(2.0)] };
        let kind = Metric::named("throughput", None).unwrap().kind();
        let base = [Some(1.0), Some(1.0)];
        let judged = judge(kind, &base, &base, &[arm("a"), arm("b")], Confidence::P95, 1);
        let names = |cells: &[Cell]| -> Vec<String> {
            going_on(&judged, cells).arms.into_iter().map(|arm| arm.name).collect()
        };
        assert_eq!(names(&[]), ["a", "b"]);
        assert_eq!(names(&[failed(1, FIRST_ARM)]), ["b"]);
    }
}
