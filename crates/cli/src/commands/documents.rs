//! `walwright documents serve`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use walwright_documents::{
    Isolation, Limits, Locks, Options, Pool, PoolOptions, Reset, Service, Shape, Store,
};
use walwright_ingest::Server;
use walwright_run::{LoadOptions, RunPlan, ServerAddress, TargetPlan, WorkloadPlan};
use walwright_server::{
    Cluster, ClusterSpec, ConnectParams, Hosts, Installs, Major, Places, RunningCluster, Stop,
};

use crate::args::{
    DocumentsCommand, IsolationChoice, LocksChoice, ResetChoice, ServeDocumentsArgs, ShapeChoice,
};
use crate::commands::command_line;
use crate::commands::runtime::{Parting, until_served};
use crate::output::{Output, say};
use crate::show::{self, Style};

/// How long what has come may take to be answered at the end.
const FAREWELL: Duration = Duration::from_secs(30);

/// Serves until a signal.
pub fn execute(command: DocumentsCommand, output: &Output) -> anyhow::Result<ExitCode> {
    let DocumentsCommand::Serve(args) = command;
    let threads = args.threads.map(usize::from);
    let served = until_served(Parting::WORKING, threads, async |stop| {
        let mut embedded = None;
        let served = serve(&args, &mut embedded, &stop, output).await;
        // It stops its server, and waits for that.
        _ = tokio::task::spawn_blocking(move || drop(embedded)).await;
        served
    })?;
    served.map(|()| ExitCode::SUCCESS)
}

async fn serve(
    args: &ServeDocumentsArgs,
    embedded: &mut Option<RunningCluster>,
    stop: &Stop,
    output: &Output,
) -> anyhow::Result<()> {
    let listener = Service::listen(args.listen).await?;
    let hosts = match &args.dsn {
        Some(dsn) => ConnectParams::resolve_hosts(dsn.expose(), None)?,
        None => {
            let server = start(args).await?;
            let params = vec![server.connect_params("postgres")];
            *embedded = Some(server);
            Hosts { params, session_attributes: None, dbname: None }
        }
    };
    let server = Server::of(&hosts)?;
    for warning in hosts.params.iter().flat_map(ConnectParams::warnings) {
        say(&format!("warning: {warning}"));
    }
    if args.create || embedded.is_some() {
        let params = hosts.params.first().context("the connection string names no host")?;
        let (observer, _terminal) = show::observer(Style::Plain, stop, output);
        walwright_run::fill(&plan(args, params), params, &args.replace, stop, &observer).await?;
    }
    let options = options(args);
    let (config, tls) = server.into_parts();
    let store = Store::open(Pool::new(config, tls, options.pool.clone()), &options).await?;
    let service = Service::on(listener, store, options);
    let address = service.address().context("the service has no address")?;
    say(&format!(
        "listening on http://{address}/data; metrics at http://{address}/metrics; Ctrl-C ends it"
    ));
    service.serve(stop.requested(), FAREWELL).await;
    Ok(())
}

/// A server that lives as long as the service.
async fn start(args: &ServeDocumentsArgs) -> anyhow::Result<RunningCluster> {
    say("an embedded server; it is gone at the end");
    let settings = args.set.clone();
    let connections = u32::from(args.pool_size);
    let server = tokio::task::spawn_blocking(move || -> anyhow::Result<RunningCluster> {
        let places = Places::open(None)?;
        walwright_server::sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let mut spec = ClusterSpec::new(&places, install);
        spec.settings = walwright_run::with_connections(&settings, connections);
        Ok(Cluster::create(spec)?.start()?)
    });
    server.await?
}

/// The tables and data, as a run makes them.
fn plan(args: &ServeDocumentsArgs, params: &ConnectParams) -> RunPlan {
    let server = ServerAddress::Known(Box::new(params.clone()));
    let target =
        TargetPlan::Attached { server, init: true, replace: args.replace.clone(), window: None };
    RunPlan {
        target,
        workload: WorkloadPlan {
            name: Some("documents".to_owned()),
            scale: Some(args.scale),
            options: args.option.clone(),
            ..WorkloadPlan::default()
        },
        load: LoadOptions::default().choice(),
        load_jobs: None,
        storage_dir: None,
        probe: None,
        label: None,
        command: command_line::command_line(),
    }
}

/// What is typed, as the service takes it.
fn options(args: &ServeDocumentsArgs) -> Options {
    let defaults = Options::default();
    Options {
        pool: PoolOptions {
            size: usize::from(args.pool_size),
            wait: args.pool_wait,
            reset: match args.reset {
                ResetChoice::None => Reset::None,
                ResetChoice::DiscardAll => Reset::DiscardAll,
                ResetChoice::Selective => Reset::Selective,
            },
            shape: match args.statements {
                ShapeChoice::Prepared => Shape::Prepared,
                ShapeChoice::Unprepared => Shape::Unprepared,
            },
            statement: args.statement_time,
        },
        locks: match args.locks {
            LocksChoice::NoKeyUpdate => Locks::NoKeyUpdate,
            LocksChoice::KeyShare => Locks::KeyShare,
            LocksChoice::UpdateNowait => Locks::UpdateNowait,
            LocksChoice::None => Locks::None,
        },
        idle: args.idle,
        isolation: match args.isolation {
            IsolationChoice::ReadCommitted => Isolation::ReadCommitted,
            IsolationChoice::RepeatableRead => Isolation::RepeatableRead,
            IsolationChoice::Serializable => Isolation::Serializable,
        },
        retries: args.retries,
        resources: match args.resource.is_empty() {
            true => defaults.resources,
            false => args.resource.clone(),
        },
        limits: Limits { body: args.longest_body as usize, body_time: args.body_time },
    }
}
