//! What lies outside the server: options of the client, measured where that is consented
//! to. They are reported, not promoted: the application has to want them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use walwright_experiment::{LoadOptions, Pooler, Protocol};
use walwright_record::{LoadFacts, Record, Schedule};
use walwright_search::{Ablation, Effect};

use super::plan::OPTION_BLOCKS;
use super::{Dropped, Objective, TuneError, TunePlan, batch};

/// Connections that a driver has at most.
const MOST_CONNECTIONS: u32 = 5_000;
/// Connections that a run needs besides those of its clients.
const OTHERS: u32 = 20;

/// What fewer or more connections mean.
const QUEUEING: &str = "it moves the queue: what does not wait in the server waits outside of it, at a pool, which is not measured";
/// What a gateway means.
const BETWEEN: &str = "commits are as durable; the application connects to the gateway's port, and what it keeps in its session pins one";
/// What a batch means.
const TOGETHER: &str = "counted per unit of work, one of the script's transactions; those of one commit are acknowledged together, and lost together";

/// One client option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientOption {
    /// What is done, in words.
    pub name: String,
    /// What the load has otherwise.
    pub load: LoadOptions,
    /// Scripts in place of the workload's, as `path@weight`.
    #[serde(default)]
    pub files: Option<Vec<String>>,
    /// Units of work, the workload's own transactions, in one transaction of this client option.
    #[serde(default = "one")]
    pub units: u32,
    /// What else changes by it, in a sentence.
    #[serde(default)]
    pub note: Option<String>,
    /// Its scores, one a block; `None` for a run that failed.
    pub scores: Vec<Option<f64>>,
}

fn one() -> u32 {
    1
}

impl ClientOption {
    fn of(name: impl Into<String>, load: LoadOptions) -> ClientOption {
        let name = name.into();
        ClientOption { name, load, files: None, units: 1, note: None, scores: Vec::new() }
    }
}

/// The client options of the load that the baseline's record shows, the first of them the load as it
/// is, and those that this load does not have. Scripts are written below `folder`.
///
/// # Errors
/// When they cannot be written.
pub(super) fn client_options(
    plan: &TunePlan,
    objective: &Objective,
    record: Option<&Record>,
    folder: &Path,
) -> Result<(Vec<ClientOption>, Vec<Dropped>), TuneError> {
    let mut client_options = vec![ClientOption::of("the load as it is", LoadOptions::default())];
    let mut dropped = Vec::new();
    let mut leave = |name: &str, why: String| dropped.push(Dropped::of(name, why));
    client_options.extend(protocols(&plan.load, record.and_then(|record| record.load.as_ref())));
    match gateway(plan) {
        Ok(client_option) => client_options.push(client_option),
        Err(why) => leave("gateway", why.to_owned()),
    }
    let Some((record, load)) = record.and_then(|record| Some((record, record.load.as_ref()?)))
    else {
        for name in ["pool size", "batch"] {
            leave(name, "the record of the baseline is gone".to_owned());
        }
        return Ok((client_options, dropped));
    };
    match closed(objective, load) {
        Err(why) => {
            leave("pool size", why.clone());
            leave("batch", why);
        }
        Ok(()) => {
            for found in connections(plan, record, load.clients) {
                match found {
                    Ok(client_option) => client_options.push(client_option),
                    Err(why) => leave("pool size", why),
                }
            }
            match batch::scripts(record, objective, folder)? {
                Err(why) => leave("batch", why),
                Ok(files) => {
                    let name = format!("{} transactions in one commit", batch::BATCH);
                    let batch = ClientOption {
                        files: Some(files),
                        units: batch::BATCH,
                        note: Some(TOGETHER.to_owned()),
                        ..ClientOption::of(name, LoadOptions::default())
                    };
                    client_options.insert(1, batch);
                }
            }
        }
    }
    Ok((client_options, dropped))
}

/// Protocols other than the load's own, and one round trip a transaction.
fn protocols(given: &LoadOptions, seen: Option<&LoadFacts>) -> Vec<ClientOption> {
    let protocol = |protocol| LoadOptions { protocol: Some(protocol), ..LoadOptions::default() };
    let seen_protocol = seen.and_then(|load| match load.protocol.as_str() {
        "simple" => Some(Protocol::Simple),
        "extended" => Some(Protocol::Extended),
        _ => None,
    });
    let now = given.protocol.or(seen_protocol).unwrap_or(Protocol::Prepared);
    if given.lean == Some(true) {
        return Vec::new();
    }
    let mut client_options = Vec::new();
    if now != Protocol::Prepared {
        client_options.push(ClientOption::of("prepared statements", protocol(Protocol::Prepared)));
    }
    if now != Protocol::Simple {
        client_options.push(ClientOption::of("the simple protocol", protocol(Protocol::Simple)));
    }
    let lean = LoadOptions { lean: Some(true), ..protocol(Protocol::Prepared) };
    client_options.push(ClientOption::of("one round trip a transaction", lean));
    client_options
}

/// walwright's gateway between clients and server, or why not.
fn gateway(plan: &TunePlan) -> Result<ClientOption, &'static str> {
    if plan.server.is_some() {
        return Err("it is put before a cluster of our own alone");
    }
    if plan.load.pooler.as_ref().is_some_and(|pooler| *pooler != Pooler::None) {
        return Err("a pooler stands there in every run");
    }
    let load = LoadOptions { pooler: Some(Pooler::Gateway), ..LoadOptions::default() };
    let note = Some(BETWEEN.to_owned());
    Ok(ClientOption { note, ..ClientOption::of("walwright's gateway between", load) })
}

/// Half and twice as many connections, or why not.
fn connections(plan: &TunePlan, record: &Record, now: u32) -> [Result<ClientOption, String>; 2] {
    let given = plan.settings.get("max_connections").cloned();
    // A cluster of ours has as many as its clients need; an attached server has what it has.
    let there = || record.settings.iter().find(|setting| setting.name == "max_connections");
    let given = match plan.server {
        Some(_) => there().map(|setting| setting.value.clone()).or(given),
        None => given,
    };
    let given = given.and_then(|given| given.parse::<u32>().ok());
    let most = given.map_or(MOST_CONNECTIONS, |given| given.saturating_sub(OTHERS));
    [now / 2, now * 2].map(|clients| {
        if clients == 0 {
            return Err("there is only one connection, so there are no fewer".to_owned());
        }
        if clients > most.min(MOST_CONNECTIONS) {
            return Err(format!("{clients} connections are too many: there is room for {most}"));
        }
        let load = LoadOptions { clients: Some(clients), ..LoadOptions::default() };
        let name = format!("{clients} connections instead of {now}");
        Ok(ClientOption { note: Some(QUEUEING.to_owned()), ..ClientOption::of(name, load) })
    })
}

/// Whether the number of clients is a choice whose effect the objective can tell.
fn closed(objective: &Objective, load: &LoadFacts) -> Result<(), String> {
    if objective.rate.is_some() || !matches!(load.schedule, Schedule::Closed { .. }) {
        return Err("work is offered at a rate, whatever the number of connections".to_owned());
    }
    if objective.metric.speaks_of_transactions() {
        return Err(format!(
            "{} in a closed loop leaves out the wait for a connection, or for the rest of a batch",
            objective.name()
        ));
    }
    Ok(())
}

/// The next run: which client option, in which block. Blocks turn the order around, so that
/// steady drift cancels.
pub(super) fn next(client_options: &[ClientOption]) -> Option<(usize, u32)> {
    let done: usize = client_options.iter().map(|client_option| client_option.scores.len()).sum();
    let (block, place) = (done / client_options.len().max(1), done % client_options.len().max(1));
    let index = if block.is_multiple_of(2) { place } else { client_options.len() - 1 - place };
    (client_options.len() > 1 && (block as u32) < OPTION_BLOCKS).then_some((index, block as u32))
}

/// What a client option did, against the load as it is.
#[derive(Debug)]
pub struct ClientOptionEffect<'a> {
    /// The client option.
    pub client_option: &'a ClientOption,
    /// The change by it; crashed where no block had both though both were tried.
    pub effect: Effect,
    /// Blocks in which both ran.
    pub blocks: usize,
}

/// The effect of each client option against the first of them, the load as it is.
pub fn effects(client_options: &[ClientOption]) -> Vec<ClientOptionEffect<'_>> {
    let Some((as_it_is, others)) = client_options.split_first() else { return Vec::new() };
    others.iter().map(|client_option| effect(as_it_is, client_option, others)).collect()
}

fn effect<'a>(
    as_it_is: &ClientOption,
    client_option: &'a ClientOption,
    others: &[ClientOption],
) -> ClientOptionEffect<'a> {
    let ran = |client_option: &ClientOption, block: usize| {
        client_option.scores.get(block).is_some_and(Option::is_some)
    };
    let tried = as_it_is.scores.len().min(client_option.scores.len());
    let blocks: Vec<usize> =
        (0..tried).filter(|block| ran(as_it_is, *block) && ran(client_option, *block)).collect();
    let effect = match blocks.is_empty() {
        true if tried == 0 => Effect::NotMeasured,
        true => Effect::Crashed,
        false => {
            // Others that ran in all of these tell of the noise too.
            let beside = others.iter().filter(|other| other.name != client_option.name);
            let beside = beside.filter(|other| blocks.iter().all(|block| ran(other, *block)));
            let scores = |of: &ClientOption| blocks.iter().map(|block| of.scores[*block]).collect();
            let arms = [as_it_is, client_option].into_iter().chain(beside);
            Ablation { scores: arms.map(scores).collect() }.effect(1, 0)
        }
    };
    ClientOptionEffect { client_option, effect, blocks: blocks.len() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use walwright_record::{ScriptFacts, Setting, WorkloadFacts};

    use super::*;
    use crate::fixture::plan;
    use walwright_experiment::OnServer;
    use walwright_store::ledger::ServerIdentity;
    use walwright_testing::{closed_loop, header};

    /// A run of so many clients in a closed loop that sends this.
    fn record(clients: u32, sql: &str) -> Record {
        let mut record = Record::new(header());
        record.load = Some(closed_loop(clients));
        let script = ScriptFacts {
            name: "s.sql".to_owned(),
            weight: 3,
            text: sql.to_owned(),
            statements: Vec::new(),
            batch: None,
        };
        record.workload = Some(WorkloadFacts {
            name: "s".to_owned(),
            scale: 1,
            options: BTreeMap::new(),
            scripts: vec![script],
            pass_mark: None,
        });
        record
    }

    fn max_connections(value: &str) -> Setting {
        Setting {
            name: "max_connections".to_owned(),
            value: value.to_owned(),
            unit: None,
            shown: value.to_owned(),
            boot_value: None,
            source: "default".to_owned(),
            source_file: None,
            context: "postmaster".to_owned(),
            pending_restart: false,
        }
    }

    fn someones() -> OnServer {
        let address = "db".to_owned();
        let identity = ServerIdentity { address, system_identifier: None, data_directory: None };
        OnServer { identity, filled: false }
    }

    const INSERT: &str = "INSERT INTO t VALUES (1);\n";

    fn found(plan: &TunePlan, record: Option<&Record>) -> (Vec<ClientOption>, Vec<Dropped>) {
        let folder = tempfile::tempdir().unwrap();
        client_options(plan, &plan.objective().unwrap(), record, folder.path()).unwrap()
    }

    #[test]
    fn every_client_option_runs_once_a_block_and_has_its_effect() {
        let (mut all, _) = found(&plan(), Some(&record(16, INSERT)));
        assert_eq!(all.len(), crate::plan::MOST_OPTIONS as usize);
        while let Some((index, block)) = next(&all) {
            assert_eq!(all[index].scores.len(), block as usize);
            let truth = [0.0, 0.9, -0.12, 0.5, 1.5, 0.0, 0.0][index];
            all[index].scores.push(Some(truth + 0.01 * f64::from(block)));
        }
        assert!(
            all.iter().all(|client_option| client_option.scores.len() == OPTION_BLOCKS as usize)
        );
        let found = effects(&all);
        assert_eq!(found[2].client_option.name, "one round trip a transaction");
        assert_eq!(found[3].client_option.load.pooler, Some(Pooler::Gateway));
        assert_eq!(found[5].client_option.load.clients, Some(32));
        let of = |index: usize| &found[index].effect;
        assert!(of(0).is_gain() && of(1).is_loss() && of(2).is_gain());
    }

    #[test]
    fn a_run_that_failed_takes_its_block_from_its_own_pair_alone() {
        let with = |name: &str, scores: &[Option<f64>]| ClientOption {
            scores: scores.to_vec(),
            ..ClientOption::of(name, LoadOptions::default())
        };
        let client_options = [
            with("the load as it is", &[Some(0.0), None, Some(0.01), Some(-0.01)]),
            with("a", &[Some(0.3), Some(0.3), Some(0.32), Some(0.29)]),
            with("never", &[None; 4]),
            with("later", &[]),
        ];
        let found = effects(&client_options);
        assert!(found[0].effect.is_gain(), "{:?}", found[0]);
        let effects = [&found[1].effect, &found[2].effect];
        assert_eq!(effects, [&Effect::Crashed, &Effect::NotMeasured]);
        assert_eq!(found.iter().map(|of| of.blocks).collect::<Vec<_>>(), [3, 0, 0]);
    }

    #[test]
    fn a_batch_keeps_its_unit_of_work_and_the_pool_what_it_moves() {
        let (all, dropped) = found(&plan(), Some(&record(16, INSERT)));
        let batch = all.iter().find(|client_option| client_option.files.is_some()).unwrap();
        assert_eq!((batch.units, dropped.len()), (batch::BATCH, 0));
        assert!(batch.files.as_ref().unwrap()[0].ends_with("batch/1.sql@3"));
        assert!(batch.note.as_ref().unwrap().contains("lost together"));
        let pools = all.iter().filter(|client_option| client_option.load.clients.is_some());
        assert!(pools.clone().count() == 2);
        assert!(pools.clone().all(|l| l.units == 1 && l.note.as_ref().unwrap().contains("queue")));
    }

    #[test]
    fn client_options_that_a_load_does_not_have_are_named_with_the_reason() {
        let why = |found: &(Vec<ClientOption>, Vec<Dropped>), name: &str| {
            found.1.iter().find(|dropped| dropped.name == name).unwrap().why.clone()
        };
        let updates = found(&plan(), Some(&record(1, "UPDATE t SET n = 1;\n")));
        assert!(why(&updates, "batch").contains("update is not an insert"));
        assert!(why(&updates, "pool size").contains("only one"));
        let mut small = plan();
        small.settings.insert("max_connections".to_owned(), "40".to_owned());
        let small = found(&small, Some(&record(16, INSERT)));
        assert!(why(&small, "pool size").contains("room for 20"));
        let mut there = record(16, INSERT);
        there.settings = vec![max_connections("30")];
        assert_eq!(found(&plan(), Some(&there)).1, [], "a cluster of ours makes room");
        let visited = TunePlan { server: Some(someones()), ..plan() };
        let visited = found(&visited, Some(&there));
        assert!(why(&visited, "pool size").contains("room for 10"));
        assert!(why(&visited, "gateway").contains("cluster of our own"));
        for objective in ["p99@100", "latency_p95"] {
            let plan = TunePlan { objective: objective.to_owned(), ..plan() };
            let none = found(&plan, Some(&record(16, INSERT)));
            assert_eq!((none.0.len(), none.1.len()), (4, 2), "{objective}");
        }
        let gone = found(&plan(), None);
        assert!(why(&gone, "pool size").contains("gone") && gone.0.len() == 4);
    }

    #[test]
    fn a_client_option_of_an_earlier_version_is_read() {
        let text = r#"{"name":"the simple protocol","load":{"protocol":"simple"},"scores":[1.0]}"#;
        let client_option: ClientOption = serde_json::from_str(text).unwrap();
        assert_eq!((client_option.units, client_option.files, client_option.note), (1, None, None));
    }
}
