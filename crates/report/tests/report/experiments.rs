//! What the renderings of an experiment say.

use std::collections::BTreeMap;

use walwright_figures::compare::{Better, FigureUnit, figure_kinds};
use walwright_figures::experiment::{
    Arm, ArmOutcome, ClaimHeld, ClaimMet, Ending, Held, Judged, Looks, MeanOfBlocks, MetricKind,
    Outcome, Prediction, PredictionMet, Reason, Study, StudyCell, StudyGroup, StudyLimit, TimeBook,
    judge, outlook, study_kinds,
};
use walwright_record::RunId;
use walwright_report::experiment;
use walwright_report::terminal::Style;
use walwright_stats::{Confidence, Interval};

use crate::renderings::{markup, text_of};

const BLOCKS: usize = 7;

fn metric() -> MetricKind {
    MetricKind {
        key: "throughput".to_owned(),
        name: "throughput".to_owned(),
        unit: FigureUnit::PerSecond,
        better: Better::Higher,
        expression: None,
    }
}

/// Values of a place that wobble around a factor of 1,000 a second.
fn values(factor: f64, phase: usize) -> Vec<Option<f64>> {
    let wobble = [0.4, -0.7, 1.0, -0.2, 0.6, -1.0, 0.1];
    let value = |block: usize| 1_000.0 * factor * (1.0 + 0.01 * wobble[(block + phase) % 7]);
    (0..BLOCKS).map(|block| Some(value(block))).collect()
}

fn judged(names: &[&str], factors: &[f64]) -> Judged {
    let arms: Vec<Arm> = names
        .iter()
        .zip(factors)
        .enumerate()
        .map(|(place, (name, factor))| Arm {
            name: (*name).to_owned(),
            values: values(*factor, place + 3),
        })
        .collect();
    judge(metric(), &values(1.0, 0), &values(1.0, 1), &arms, Confidence::P95, 1)
}

pub fn outcome() -> Outcome {
    let judged = judged(&["wide <WAL>", "no change", "slow"], &[1.25, 1.001, 0.8]);
    let runs = |arm: usize| {
        (0..BLOCKS).map(|block| Some(RunId(format!("run-{arm}-{block}")))).collect::<Vec<_>>()
    };
    let wal = figure_kinds().into_iter().find(|kind| kind.key == "wal_bytes").unwrap();
    let claims = vec![
        ClaimMet {
            arm: "wide <WAL>".to_owned(),
            text: "a larger WAL gives 20 to 30 %".to_owned(),
            than: None,
            metric: Some(metric()),
            claimed: Some(Interval { low: 0.2, high: 0.3 }),
            measured: judged.arms[0].effect.as_ref().map(|effect| effect.change.clone()),
            judged: None,
            held: Some(ClaimHeld::Yes),
            durability: "S: safe".to_owned(),
        },
        ClaimMet {
            arm: "slow".to_owned(),
            text: "it is easier to run".to_owned(),
            than: Some("no change".to_owned()),
            metric: None,
            claimed: None,
            measured: None,
            judged: None,
            held: None,
            durability: "X: can corrupt the cluster".to_owned(),
        },
    ];
    let outlooks = judged.arms.iter().map(|arm| outlook(arm, &judged, 12)).collect();
    let arm = |place: usize| ArmOutcome {
        name: judged.arms[place].name.clone(),
        changes: vec!["max_wal_size = 8GB".to_owned()],
        runs: runs(place),
        failed: None,
        time: vec![
            TimeBook { name: "WAL flush".to_owned(), baseline: 2e-3, arm: 1e-3 },
            TimeBook { name: "CPU".to_owned(), baseline: 1e-3, arm: 1e-3 },
        ],
        reasons: vec![Reason {
            figure: wal.clone(),
            baseline: 6_144.0,
            arm: 2_048.0,
            change: None,
        }],
        statements: Vec::new(),
    };
    let prediction = Prediction {
        run: RunId("20261121-070102-qic".to_owned()),
        finding: "D34".to_owned(),
        action: "ALTER SYSTEM SET max_wal_size = '8GB';".to_owned(),
        metric: "throughput".to_owned(),
        change: Interval { low: 0.1, high: 0.4 },
    };
    let measured = judged.arms[0].effect.as_ref().map(|effect| effect.change.clone());
    Outcome {
        id: "20261121-070136-4qz".to_owned(),
        name: "WAL & size".to_owned(),
        question: Some("Does a larger WAL help?".to_owned()),
        design: "one-at-a-time".to_owned(),
        baseline: vec!["workload tpcb".to_owned()],
        ending: Ending::Unfinished,
        planned: 12,
        blocks: BLOCKS,
        runs: 5 * BLOCKS,
        looks: Looks::at_end(12, Confidence::P95),
        negligible: 0.02,
        outlooks,
        contrasts: None,
        others: vec![judged.clone()],
        arms: (0..3).map(arm).collect(),
        baseline_runs: (0..BLOCKS)
            .map(|block| [Some(RunId(format!("base-{block}"))), None])
            .collect(),
        prediction: Some(PredictionMet::of(prediction, measured)),
        claims,
        entry_of_each_arm: false,
        study: None,
        warnings: vec!["no checkpoint completed".to_owned()],
        judged,
    }
}

const STYLE: Style = Style { width: 80, colour: false, unicode: true };

#[test]
fn an_experiment_in_every_rendering() {
    let outcome = outcome();
    assert_eq!(outcome.prediction.as_ref().unwrap().held, Held::Yes);
    let document = experiment(&outcome);
    insta::assert_snapshot!("experiment_terminal", document.terminal(&STYLE));
    insta::assert_snapshot!("experiment_markdown", document.markdown());
    assert!(document.terminal(&Style { colour: true, ..STYLE }).contains("\u{1b}[32m"));

    let page = markup(&document);
    insta::assert_snapshot!("experiment_page", text_of(&page));
    assert!(!page.contains("<WAL>"));
    assert_eq!(page.matches("<svg").count(), 2, "a forest plot for each metric");
    assert_eq!(page.matches("class=\"latency-breakdown\"").count(), 6, "two bars an arm");
    assert!(!page.contains("http:") && !page.contains("https:"), "nothing from outside");
}

#[test]
fn an_experiment_without_a_block_is_shown_too() {
    let nothing = judge(metric(), &[], &[], &[], Confidence::P95, 1);
    let outcome = Outcome {
        judged: nothing,
        others: Vec::new(),
        arms: Vec::new(),
        outlooks: Vec::new(),
        baseline_runs: Vec::new(),
        prediction: None,
        claims: Vec::new(),
        blocks: 0,
        runs: 0,
        ..outcome()
    };
    let document = experiment(&outcome);
    insta::assert_snapshot!("experiment_without_blocks", document.terminal(&STYLE));
    assert!(!markup(&document).contains("NaN"));
}

/// A row of a pool study: three sizes, and the first again.
fn study() -> Study {
    let factors = [1.0, 1.3, 0.7, 1.0];
    let labels = ["pool 10", "pool 25", "pool 50", "pool 10"];
    let cell = |place: usize| {
        let key = |key: &str, factor: f64| {
            let mean = MeanOfBlocks::of(&values(factor, place), Confidence::P95)?;
            Some((key.to_owned(), mean))
        };
        let told =
            [key("throughput", factors[place]), key("server_time", 1e-5), key("pool_wait", 1e-6)];
        StudyCell {
            name: format!("25 connections, {}", labels[place]),
            label: labels[place].to_owned(),
            is_repeat: place == 3,
            figures: told.into_iter().flatten().collect::<BTreeMap<_, _>>(),
            limit: Some(if place == 0 { StudyLimit::PoolQueue } else { StudyLimit::Database }),
        }
    };
    let arm = |place: usize| Arm { name: cell(place).name, values: values(factors[place], place) };
    let known = |key: &str| key == "throughput";
    let figures = study_kinds().into_iter().map(|(_, kind)| {
        let of = |values: Vec<Option<f64>>| if known(&kind.key) { values } else { Vec::new() };
        let arms: Vec<Arm> =
            (1..3).map(|place| Arm { values: of(arm(place).values), ..arm(place) }).collect();
        let (base, again) = (of(values(1.0, 0)), of(values(1.0, 3)));
        judge(kind.clone(), &base, &again, &arms, Confidence::P95, 1)
    });
    let group = StudyGroup {
        name: "connections 25".to_owned(),
        cells: (0..4).map(cell).collect(),
        figures: figures.collect(),
    };
    Study { compared: Some("pool".to_owned()), groups: vec![group] }
}

/// The same as a study, whose claims are noise, held and not held.
pub fn studied() -> Outcome {
    let claim = |arm: &str, change: f64| ClaimMet {
        arm: arm.to_owned(),
        text: String::new(),
        than: None,
        metric: Some(metric()),
        claimed: Some(Interval { low: change, high: change }),
        measured: study().groups[0].figures[0].arms[0].effect.as_ref().map(|e| e.change.clone()),
        judged: None,
        held: Some(ClaimHeld::Open),
        durability: "S: safe".to_owned(),
    };
    Outcome {
        study: Some(study()),
        claims: vec![
            claim("25 connections, pool 25", 0.004),
            claim("25 connections, pool 25", 0.3),
            claim("25 connections, pool 50", -0.3),
        ],
        ..outcome()
    }
}

#[test]
fn a_study_has_its_grid_its_limits_and_what_is_noise() {
    let document = experiment(&studied());
    let text = document.terminal(&Style { width: 120, ..STYLE }).replace("\n", " ");
    for said in [
        "2 cells against their control: 2 differ beyond noise",
        "1 are noise, no larger than what a cell differs from itself here (25 connections, pool 25 +0.4 %)",
        "1 are larger and agree with what was measured (25 connections, pool 25 +30.0 %)",
        "1 are larger and do not agree with what was measured (25 connections, pool 50 −30.0 %)",
        "pool queue",
        "A/A",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let page = markup(&document);
    assert_eq!(page.matches("class=\"heat good\"").count(), 1);
    assert_eq!(page.matches("class=\"heat bad\"").count(), 1);
    assert!(!page.contains("NaN"));
    assert!(document.markdown().contains("pool 10 again"));
}
