//! Tunes for tests: made without a server.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_catalog::parameter;
use walwright_experiment::{Length, LoadOptions};
use walwright_record::RunId;
use walwright_run::CrashAudit;
use walwright_search::{Dimension, Options, Outcome, Searcher, Space, Start, WORTH};
use walwright_server::Unflushed;

use super::confirm::Confirming;
use super::made::Made;
use super::schema::{dimension_of_index, fill_factor};
use super::schema_part::{DROPPED, SchemaKind, SchemaPart};
use super::state::Phase;
use super::{Budget, TunePlan, TuneState};

/// A plan of 60 measurements of 10 s.
pub fn plan() -> TunePlan {
    TunePlan {
        objective: "throughput".to_owned(),
        workload: Some("tpcb".to_owned()),
        files: Vec::new(),
        builtin: Vec::new(),
        no_vacuum: false,
        scale: Some(1),
        options: Vec::new(),
        define: Vec::new(),
        load: LoadOptions::default(),
        settings: BTreeMap::new(),
        postgres: None,
        flush_latency: None,
        tcp: false,
        window: Length(Duration::from_secs(10)),
        warm_up: Length(Duration::from_secs(2)),
        budget: Budget::Runs(60),
        consent: Vec::new(),
        only: Vec::new(),
        client: false,
        confirm_window: Length(Duration::from_secs(20)),
        most_pairs: None,
        worth: WORTH,
        allowed_loss: None,
        seed: 1,
        command: String::new(),
        server: None,
    }
}

/// A tune from `commit_delay` 5000 that has ended, without a server: half a second is
/// lost by the delay, nothing by anything else.
pub fn ended() -> TuneState {
    let dimensions = ["commit_delay", "wal_writer_delay", "bgwriter_delay"]
        .map(|name| Dimension::of(parameter(name).unwrap(), 18, None).unwrap());
    let set = [("commit_delay", "5000"), ("max_connections", "60")];
    ended_over(dimensions.to_vec(), &set, |point| {
        -point["commit_delay"].parse::<f64>().unwrap() / 5_000.0
    })
}

/// A tune over these dimensions that has ended, whose score is 8 and what `truth` says.
pub fn ended_over(
    dimensions: Vec<Dimension>,
    set: &[(&str, &str)],
    truth: impl Fn(&walwright_search::Configuration) -> f64,
) -> TuneState {
    ended_after(40, dimensions, set, truth)
}

/// The same after so many measurements.
pub fn ended_after(
    runs: u32,
    dimensions: Vec<Dimension>,
    set: &[(&str, &str)],
    truth: impl Fn(&walwright_search::Configuration) -> f64,
) -> TuneState {
    let mut plan = plan();
    for (name, value) in set {
        plan.settings.insert((*name).to_owned(), (*value).to_owned());
    }
    let mut state = TuneState::new(plan);
    let space = Space { dimensions };
    let baseline = space.configuration(set.iter().copied()).unwrap();
    let starts = vec![Start { name: "defaults".to_owned(), configuration: space.home() }];
    let options = Options { runs, seed: 1, worth: 0.05, allowed_loss: None, starts };
    let mut searcher = Searcher::new(space, &baseline, options).unwrap();
    while let Some(ask) = searcher.ask() {
        let wobble = 0.004 * (f64::from(ask.trial * 7 % 5) - 2.0);
        let score = 8.0 + truth(&ask.configuration) + wobble;
        searcher.tell(ask.trial, Outcome::score(score)).unwrap();
        state.made.push(Made {
            run: Some(RunId(format!("run-{}", ask.trial))),
            value: Some(score.exp()),
            throughput: Some(score.exp()),
            checkpoints: None,
            crashed: None,
            seconds: 1.0,
        });
    }
    state.searcher = Some(searcher);
    for number in 0..10 {
        let is_winner = matches!(number % 4, 1 | 2);
        let wobble = 0.003 * f64::from(number % 3);
        state.confirmation.made.push(Confirming {
            is_winner,
            pair: number / 2,
            run: None,
            score: Some(wobble + if is_winner { 8.0 } else { 7.0 }),
            value: None,
            throughput: Some(1_000.0),
            checkpoints: Some(2.0),
            crashed: None,
        });
    }
    state.phase = Phase::Done;
    state.machine = "2 processors".to_owned();
    state.crash = Some(CrashAudit {
        acknowledged: 1_000,
        lost: 0,
        checkpoints: 2,
        recovery_seconds: Some(0.3),
        unrecovered: None,
        replayed_bytes: Some(1),
        unflushed: Some(Unflushed { pages: 512, pages_lost: 512, names: 3, names_lost: 3 }),
        seconds: 6.0,
    });
    state
}

/// A tune that has ended, in which room in pages, no index and earlier writing of the
/// kernel are worth a fifth each.
pub fn ended_with_schema() -> TuneState {
    let fill = fill_factor("100").unwrap();
    let index = |part: &SchemaPart| dimension_of_index(part.name.clone());
    let parts = schema_parts();
    let kernel = parameter("vm.dirty_background_bytes").unwrap();
    let dimensions = vec![
        Dimension { name: parts[0].name.clone(), ..fill },
        index(&parts[1]),
        Dimension::at_home(kernel, "0", None).unwrap(),
    ];
    let mut state = ended_over(dimensions, &[], |point| {
        let gains = [
            point[&parts[0].name].parse::<f64>().unwrap() < 85.0,
            point[&parts[1].name] == DROPPED,
            point["vm.dirty_background_bytes"] != "0",
        ];
        0.2 * gains.into_iter().filter(|gain| *gain).count() as f64
    });
    state.schema = parts.to_vec();
    state
}

pub(crate) fn schema_part(kind: SchemaKind, object: &str) -> SchemaPart {
    let name = match kind {
        SchemaKind::Fillfactor { .. } => format!("table.fillfactor ({object})"),
        SchemaKind::Index { .. } => format!("index {object}"),
    };
    SchemaPart { name, object: object.to_owned(), sql: object.to_owned(), kind }
}

pub(crate) fn schema_parts() -> [SchemaPart; 2] {
    let definition = "CREATE INDEX t_n ON public.t USING btree (n)".to_owned();
    [
        schema_part(SchemaKind::Fillfactor { was: None }, "public.t"),
        schema_part(SchemaKind::Index { definition }, "public.t_n"),
    ]
}
