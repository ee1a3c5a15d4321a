//! From a finding to the experiment that proves or disproves it.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;
use walwright_catalog::Entry;
use walwright_diagnose::{Action, Change, DurabilityClass, Finding};
use walwright_record::{Record, Schedule};
use walwright_run::{LoadChoice, RunError, RunPlan, TargetPlan};
use walwright_stats::{Estimate, Interval};

use super::durability::KERNEL;
use super::plan_tables::{
    ArmTable, Ddl, PredictionTable, ServerTable, SettingValue, Values, WorkloadTable, typed,
};
use super::{Consent, Design, Length, LoadOptions, Metrics, PlanFile, Pooler, Protocol};

/// A finding that cannot be proven by an experiment.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProveError {
    /// The run asked an application.
    #[error(
        "run {0} asked an application, which an experiment of one run cannot start: write a plan with [application] and [load]"
    )]
    Application(String),
    /// The run was on an attached server.
    #[error(
        "run {0} was made on an attached server, and how that is reached is not kept: name it with --dsn, and agree with --maintenance that its settings are changed for each run and brought back after it"
    )]
    Attached(String),
    /// The run was on a cluster of its own.
    #[error(
        "run {0} was made on a cluster of its own, and its finding is proven on such: leave --dsn out"
    )]
    Embedded(String),
    /// The scripts are not those of the run.
    #[error(
        "the workload of run {0} has changed since, or is seen from another directory: what is proven would not be what was found"
    )]
    WorkloadChanged(String),
    /// The run was driven in a way that plans of experiments do not have.
    #[error(
        "run {0} was driven in stages, which an experiment cannot repeat; prove a run at one level of load"
    )]
    Stages(String),
    /// The workload cannot be read.
    #[error(transparent)]
    Workload(#[from] RunError),
    /// Nothing to execute.
    #[error("{finding} has no action that an experiment can execute here:{actions}")]
    NoAction {
        /// The finding.
        finding: String,
        /// What it advises, a line each, with why it cannot be executed.
        actions: String,
    },
}

/// The plan of an experiment that tries the first action of a finding that can be executed
/// by an experiment, or the one numbered `wanted`, from 1. The baseline is the run as `plan`,
/// which repeats it, says. `on_server` tells that an attached server is named for a run
/// that was made on one.
///
/// # Errors
/// When the run cannot be repeated or nothing can be executed.
pub fn prove(
    record: &Record,
    plan: &RunPlan,
    finding: &Finding,
    wanted: Option<usize>,
    consent: &[String],
    on_server: bool,
) -> Result<PlanFile, ProveError> {
    let id = record.header.id.0.clone();
    if plan.load.http.is_some() {
        return Err(ProveError::Application(id));
    }
    let server = server(&plan.target, on_server, &id)?;
    if !plan.load.stages.is_empty() {
        return Err(ProveError::Stages(id));
    }
    let workload = plan.workload()?;
    let then = record.workload.iter().flat_map(|facts| &facts.scripts).map(|script| &script.text);
    if !then.eq(workload.scripts.iter().map(|script| &script.text)) {
        return Err(ProveError::WorkloadChanged(id));
    }
    let (action, arm) = action(finding, wanted, &consent.iter().collect(), on_server)?;
    let open = matches!(plan.load.schedule, Schedule::Open { .. });
    let metric = if open { "latency_mean" } else { "throughput" };
    let beside = ["throughput", "latency_mean", "latency_p99", "wal_bytes"];
    let metrics = [metric].into_iter().chain(beside.into_iter().filter(|name| *name != metric));
    Ok(PlanFile {
        application: None,
        study: None,
        journal: Default::default(),
        files: BTreeMap::new(),
        parameters: Default::default(),
        name: Some(format!("{} of {id}", finding.id)),
        question: Some(format!("{} {}", finding.cause.trim_end(), action.text.trim_end())),
        design: Design::OneAtATime,
        blocks: None,
        seed: plan.load.seed.unwrap_or(1),
        metric: Metrics::Several(metrics.map(str::to_owned).collect()),
        cost: None,
        smallest_effect: None,
        consent: consent.to_vec(),
        workload: WorkloadTable::from(plan.workload.clone()),
        load: load(&plan.load, record),
        server,
        prediction: prediction(finding, action, &id, open),
        arms: vec![arm],
    })
}

/// What an experiment of each action of a finding tries, or why it cannot; `attached` tells that
/// the server is someone's own.
pub fn provable(
    finding: &Finding,
    consent: &[String],
    attached: bool,
) -> Vec<Result<String, String>> {
    let consent = consent.iter().collect();
    let tried = |of| executed(of, &consent, attached).map(|arm| arm.name);
    finding.actions.iter().map(tried).collect()
}

/// What the run of this name was made on, as a plan writes it.
fn server(target: &TargetPlan, on_server: bool, run: &str) -> Result<ServerTable, ProveError> {
    let run = run.to_owned();
    match (target, on_server) {
        (
            TargetPlan::Embedded {
                major,
                pg_bin,
                settings,
                flush_latency,
                processors,
                memory,
                tcp,
                ..
            },
            false,
        ) => Ok(ServerTable {
            postgres: pg_bin.is_none().then(|| SettingValue::Text(major.clone())),
            pg_bin: pg_bin.clone(),
            flush_latency: flush_latency.map(Length),
            processors: *processors,
            memory: *memory,
            tcp: tcp.then_some(true),
            settings: typed(settings),
            ..ServerTable::default()
        }),
        (TargetPlan::Attached { .. } | TargetPlan::Unseen, true) => Ok(ServerTable::default()),
        (TargetPlan::Attached { .. } | TargetPlan::Unseen, false) => Err(ProveError::Attached(run)),
        (TargetPlan::Embedded { .. }, true) => Err(ProveError::Embedded(run)),
    }
}

/// The predicted gain as a relative change of the metric.
fn prediction(
    finding: &Finding,
    action: &Action,
    run: &str,
    open: bool,
) -> Option<PredictionTable> {
    let gain = action.gain.as_deref().or(finding.gain.as_ref())?;
    let ends = |of: &Estimate| of.interval.unwrap_or(Interval { low: of.center, high: of.center });
    let (low, high) = match &gain.throughput {
        Some(rise) if !open => (ends(rise).low, ends(rise).high),
        // The mean latency falls.
        _ => (-ends(&gain.latency).high, -ends(&gain.latency).low),
    };
    (low.is_finite() && high.is_finite()).then(|| PredictionTable {
        run: run.to_owned(),
        finding: finding.id.to_string(),
        action: action.command().unwrap_or_else(|| action.text.clone()),
        low,
        high,
    })
}

/// The action to try and the arm that executes it.
fn action<'a>(
    finding: &'a Finding,
    wanted: Option<usize>,
    consent: &Consent,
    attached: bool,
) -> Result<(&'a Action, ArmTable), ProveError> {
    let mut refused = String::new();
    for (place, action) in finding.actions.iter().enumerate() {
        if wanted.is_some_and(|wanted| wanted != place + 1) {
            continue;
        }
        match executed(action, consent, attached) {
            Ok(arm) => return Ok((action, arm)),
            Err(why) => {
                refused.push_str(&format!("\n  {}. {} ({why})", place + 1, action.text.trim()));
            }
        }
    }
    if refused.is_empty() {
        refused = " it advises nothing, or nothing by that number".to_owned();
    }
    Err(ProveError::NoAction { finding: finding.id.to_string(), actions: refused })
}

/// The arm that executes an action, or why there is none.
fn executed(action: &Action, consent: &Consent, attached: bool) -> Result<ArmTable, String> {
    if action.class == DurabilityClass::X {
        return Err("it can corrupt the cluster".to_owned());
    }
    let mut arm = ArmTable::default();
    match &action.change {
        Change::Setting { name, value } => {
            if action.class == DurabilityClass::D && !consent.covers(name) {
                return Err(format!("it may lose committed data: --consent {name} allows it"));
            }
            arm.name = format!("{name} = {value}");
            arm.settings = BTreeMap::from([(name.clone(), SettingValue::Text(value.clone()))]);
        }
        Change::Sql { sql } | Change::Ddl { sql } => {
            let first = sql.lines().next().unwrap_or_default();
            arm.name = first.trim().trim_end_matches(';').to_owned();
            if let more @ 1.. = sql.lines().count().saturating_sub(1) {
                arm.name.push_str(&format!(" and {more} more"));
            }
            arm.ddl = statements(sql, action.rollback.as_deref().unwrap_or_default());
        }
        Change::ClientOption { option } => {
            arm.workload.options = workload_options(option);
            arm.load = match client(option) {
                Some(load) => load,
                None if !arm.workload.options.is_empty() => LoadOptions::default(),
                None => return Err("it is an option of another client".to_owned()),
            };
            if attached && arm.load.pooler.is_some() {
                return Err("it is put before a cluster of our own alone".to_owned());
            }
            let options = arm.workload.options.iter();
            let options = options.map(|(name, value)| format!("{name} = {}", value.text()));
            arm.name = arm.load.words().into_iter().chain(options).collect::<Vec<_>>().join(", ");
        }
        Change::Kernel { name, value } => {
            // What the catalogue does not have, such as a file of one device, no run writes.
            Entry::new(name, value, None).map_err(|error| error.to_string())?;
            if !consent.covers(name) && !consent.covers(KERNEL) {
                return Err(format!(
                    "it changes this machine, and is restored after each run: --consent {name} allows it"
                ));
            }
            arm.name = format!("{name} = {value}");
            arm.kernel = BTreeMap::from([(name.clone(), SettingValue::Text(value.clone()))]);
        }
        Change::Advice => return Err("only a person can do it".to_owned()),
    }
    Ok(arm)
}

/// The statements of an action, one a line where each has its own that undoes it.
fn statements(sql: &str, undo: &str) -> Vec<Ddl> {
    let of = |sql: &str, undo: &str| Ddl::Undoable { sql: sql.to_owned(), undo: undo.to_owned() };
    if sql.lines().count() != undo.lines().count() {
        return vec![of(sql, undo)];
    }
    sql.lines().zip(undo.lines()).map(|(sql, undo)| of(sql, undo)).collect()
}

/// An option of the load driver in the words of a finding: `--threads 4`, `pool size 8`.
fn client(option: &str) -> Option<LoadOptions> {
    let words: Vec<&str> = option.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let after = |name: &str| {
        let place = words.iter().position(|word| *word == name)?;
        words.get(place + 1).copied()
    };
    let number = |name: &str| after(name).and_then(|text| text.parse::<u32>().ok());
    // A pool before the server lets through as many as it has connections.
    let pool = option.strip_prefix("pool size ").and_then(|size| size.parse().ok());
    let change = LoadOptions {
        clients: number("--clients").or(pool),
        threads: number("--threads"),
        protocol: after("--protocol")
            .and_then(|name| Protocol::ALL.into_iter().find(|protocol| protocol.name() == name)),
        lean: words.contains(&"--lean").then_some(true),
        pooler: words.contains(&"--gateway").then_some(Pooler::Gateway),
        ..LoadOptions::default()
    };
    (change != LoadOptions::default()).then_some(change)
}

/// Options of the workload among the words of a finding: `--option pattern=unnest`.
fn workload_options(option: &str) -> Values {
    let words: Vec<&str> = option.split_whitespace().collect();
    let named = words.windows(2).filter(|pair| pair[0] == "--option");
    let pairs = named.filter_map(|pair| pair[1].split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), SettingValue::Text(value.to_owned()))).collect()
}

/// A load as a plan writes it. `then` is what the run had of it: the command line of a sweep
/// names the clients of all its points, and not which of them this run was. One that ended with a
/// number of transactions is repeated for as long as it took.
fn load(of: &LoadChoice, record: &Record) -> LoadOptions {
    let took = of
        .rules
        .transactions
        .and(record.window())
        .map(|window| Length(Duration::from_secs(window.length().as_secs().max(1))));
    LoadOptions {
        clients: record.load.as_ref().map(|then| then.clients).or(of.clients),
        duration: took.or(Some(Length(of.duration))),
        ..LoadOptions::of(of)
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::OnError;
    use walwright_run::WarmUp;
    use walwright_testing::{Build, closed_loop};

    use super::*;

    #[test]
    fn options_of_the_driver_are_understood_and_others_are_not() {
        assert_eq!(client("--threads 4").unwrap().threads, Some(4));
        assert_eq!(client("pool size 8").unwrap().clients, Some(8));
        let both = client("prepareThreshold=0 (JDBC), --protocol extended (walwright)").unwrap();
        assert_eq!(both.protocol, Some(Protocol::Extended));
        assert_eq!(client("max_prepared_statements=200 (PgBouncer 1.21 or newer)"), None);
        assert_eq!(client("--waits 5 (walwright run)"), None);
        let gateway = client("--gateway (walwright run); walwright gateway --server …").unwrap();
        assert_eq!(gateway.pooler, Some(Pooler::Gateway));
    }

    #[test]
    fn a_load_is_repeated_as_the_run_had_it() {
        let typed = LoadOptions {
            // The first of those that a sweep's command line names.
            clients: Some(1),
            connect: Some(true),
            on_error: Some(OnError::Stop),
            latency_limit: Some(Length(Duration::from_millis(5))),
            duration: Some(Length(Duration::from_secs(60))),
            warmup: Some(WarmUp::Auto),
            ..LoadOptions::default()
        };
        let mut build = Build::new();
        build.measure(0.0, 7.0);
        build.record.load = None;
        assert_eq!(load(&typed.choice(), &build.record), typed);
        build.record.load = Some(closed_loop(16));
        let mut choice = typed.choice();
        choice.rules.transactions = Some(1_000);
        let took = Some(Length(Duration::from_secs(7)));
        let whole = LoadOptions { clients: Some(16), duration: took, ..typed };
        assert_eq!(load(&choice, &build.record), whole);
    }

    #[test]
    fn a_plan_says_of_a_server_what_the_run_had() {
        let embedded = |tcp| TargetPlan::Embedded {
            major: "17".to_owned(),
            pg_bin: None,
            settings: vec![("jit".to_owned(), "off".to_owned())],
            keep: false,
            tcp,
            flush_latency: None,
            processors: None,
            memory: None,
            restored: None,
        };
        let table = server(&embedded(false), false, "r").unwrap();
        assert_eq!(table.postgres, Some(SettingValue::Text("17".to_owned())));
        assert_eq!((table.settings.len(), table.tcp), (1, None));
        assert_eq!(server(&embedded(true), false, "r").unwrap().tcp, Some(true));
        assert!(matches!(server(&embedded(false), true, "r"), Err(ProveError::Embedded(_))));
    }

    #[test]
    fn what_cannot_be_executed_says_why() {
        let none = Consent::default();
        let why = |action: &Action| executed(action, &none, false).unwrap_err();
        assert!(why(&Action::advice("think")).contains("person"));
        let kernel = Action::kernel("", "vm.dirty_ratio", "10", None);
        assert!(why(&kernel).contains("--consent vm.dirty_ratio"));
        for name in ["vm.dirty_ratio", "kernel"] {
            let arm = executed(&kernel, &[name].iter().collect(), false).unwrap();
            assert_eq!(arm.name, "vm.dirty_ratio = 10");
            assert_eq!(arm.kernel["vm.dirty_ratio"], SettingValue::Text("10".to_owned()));
        }
        let device = Action::kernel("", "/sys/block/vda/queue/read_ahead_kb", "4096", None);
        let consent: Consent = ["kernel"].iter().collect();
        assert!(executed(&device, &consent, false).unwrap_err().contains("catalogue"));
        let setting = |class| Action {
            change: Change::Setting {
                name: "synchronous_commit".to_owned(),
                value: "off".to_owned(),
            },
            ..Action::advice("").class(class)
        };
        assert!(why(&setting(DurabilityClass::D)).contains("--consent synchronous_commit"));
        assert!(why(&setting(DurabilityClass::X)).contains("corrupt"));
        let consent: Consent = ["synchronous_commit"].iter().collect();
        assert_eq!(
            executed(&setting(DurabilityClass::D), &consent, false).unwrap().name,
            "synchronous_commit = off"
        );
        let ddl = Action::ddl("", "DROP INDEX a;", "CREATE INDEX a ON t (b);");
        let arm = executed(&ddl, &none, false).unwrap();
        assert_eq!((arm.name.as_str(), arm.ddl.len()), ("DROP INDEX a", 1));
        let form = Action::client("", "--option pattern=transaction --option rows=16");
        let arm = executed(&form, &none, false).unwrap();
        assert_eq!(arm.name, "pattern = transaction, rows = 16");
        assert_eq!(arm.workload.options["rows"], SettingValue::Text("16".to_owned()));
        let gateway = Action::client("", "--gateway");
        assert_eq!(executed(&gateway, &none, false).unwrap().name, "pooler = gateway");
        assert!(executed(&gateway, &none, true).unwrap_err().contains("cluster of our own"));
    }
}
