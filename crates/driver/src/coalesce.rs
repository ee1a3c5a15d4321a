//! Write coalescers in front of the server: clients of the load are their producers.
//!
//! A row goes to a coalescer when its client has put it together, and its latency ends when the
//! worker hears that it is durable. The coalescers have threads of their own, whose CPU time is
//! the driver's.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_postgres::{Config, NoTls};
use walwright_coalesce::{Coalescer, Options, TextRow, WriteError};
use walwright_wire::{ConnectOptions, Host, SslMode};
use walwright_workload::script::{BatchForm, Gathered};

use crate::client::Failure;
use crate::endpoint::Endpoint;
use crate::outcome::LoadError;
use crate::plan::LoadPlan;
use crate::shared::{Inbox, News};
use crate::system::{task_cpu, this_task};
use crate::tally::CONNECTION;

/// How long what is on its way may take once the load has ended.
const CLOSING: Duration = Duration::from_secs(5);

/// A row that a client has put together.
#[derive(Debug)]
pub(crate) struct HandedOver {
    /// Index of the client among those of its thread.
    pub(crate) client: u32,
    /// Which of its rows.
    pub(crate) number: u64,
    /// The script it is of.
    pub(crate) script: usize,
    pub(crate) row: Vec<Option<String>>,
}

/// The coalescers of a load, by script, and the runtime they live in.
pub(crate) struct Coalescers {
    of_scripts: Vec<Option<Coalescer<TextRow>>>,
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
    threads: Arc<Mutex<Vec<PathBuf>>>,
}

impl fmt::Debug for Coalescers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "coalescers of {} scripts", self.of_scripts.len())
    }
}

impl Coalescers {
    /// Connects those that the scripts want; `None` where none does.
    pub(crate) fn start(plan: &LoadPlan) -> Result<Option<Self>, LoadError> {
        let wanted = |gathered: &&Gathered| gathered.form == BatchForm::Coalesce;
        let scripts = plan.program.scripts.iter();
        let tables: Vec<Option<&Gathered>> = scripts
            .map(|script| script.statements.iter().filter_map(|s| s.gathered.as_ref()).find(wanted))
            .collect();
        if tables.iter().all(Option::is_none) {
            return Ok(None);
        }
        let Endpoint::Postgres(options) = &plan.endpoint else { return Ok(None) };
        let config = config(options)?;
        let threads = Arc::new(Mutex::new(Vec::new()));
        let started = Arc::clone(&threads);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("driver-coalesce")
            .on_thread_start(move || {
                started.lock().unwrap_or_else(PoisonError::into_inner).extend(this_task());
            })
            .enable_all()
            .build()
            .map_err(|source| LoadError::System { what: "start a thread", source })?;
        let connect = async |of: Option<&Gathered>| {
            let Some(of) = of else { return Ok(None) };
            let (config, options) = (config.clone(), Options::default());
            let found = Coalescer::connect_with(config, NoTls, &of.table, &of.names, options).await;
            found.map(Some).map_err(|error| LoadError::Coalescer(error.to_string()))
        };
        let mut of_scripts = Vec::new();
        for of in tables {
            of_scripts.push(runtime.block_on(connect(of))?);
        }
        let handle = runtime.handle().clone();
        Ok(Some(Coalescers { of_scripts, handle, runtime: Mutex::new(Some(runtime)), threads }))
    }

    /// Has a row written; `inbox` gets the answer.
    pub(crate) fn write(&self, row: HandedOver, inbox: &Arc<Inbox>) {
        let HandedOver { client, number, script, row } = row;
        let Some(coalescer) = self.of_scripts.get(script).cloned().flatten() else { return };
        let inbox = Arc::clone(inbox);
        self.handle.spawn(async move {
            let failure = coalescer.write(TextRow(row)).await.err().map(failure);
            inbox.send(News::Written { client, number, failure });
        });
    }

    /// CPU time of their threads so far.
    pub(crate) fn cpu(&self) -> Duration {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().filter_map(|task| task_cpu(task)).sum()
    }

    /// Writes what waits, and ends them.
    pub(crate) fn close(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(runtime) = runtime else { return };
        runtime.block_on(async {
            for coalescer in self.of_scripts.iter().flatten() {
                // Its clients were told, or have been cut off and counted so.
                coalescer.clone().close(CLOSING).await;
            }
        });
        runtime.shutdown_background();
    }
}

/// What became of a row, as failures of transactions are counted.
fn failure(error: WriteError) -> Failure {
    let message = error.to_string();
    let kind = match error {
        WriteError::Refused(refusal) => refusal.sqlstate,
        // It may be there.
        WriteError::Unknown(_) => CONNECTION.to_owned(),
        _ => NOT_WRITTEN.to_owned(),
    };
    Failure { kind, message }
}

/// Key of failures of rows that are certainly not there, though the server did not refuse them.
const NOT_WRITTEN: &str = "not written";

/// How the server is reached, in the words of the library that the coalescer speaks by.
fn config(of: &ConnectOptions) -> Result<Config, LoadError> {
    let encrypted = !matches!(of.tls.mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer);
    if encrypted && !matches!(of.host, Host::Unix(_)) {
        let why = "in front of a load it speaks no TLS: reach the server by its socket, or with sslmode=prefer or less";
        return Err(LoadError::Coalescer(why.to_owned()));
    }
    let mut config = Config::new();
    match &of.host {
        Host::Unix(directory) => config.host_path(directory),
        Host::Tcp(host) => config.host(host),
    };
    if let (Some(address), Host::Tcp(_)) = (of.hostaddr, &of.host) {
        config.hostaddr(address);
    }
    config.port(of.port).user(&of.user).dbname(&of.dbname).application_name(&of.application_name);
    if let Some(password) = &of.password {
        config.password(password.expose());
    }
    if let Some(limit) = of.connect_timeout {
        config.connect_timeout(limit);
    }
    let options: Vec<String> =
        of.parameters.iter().map(|(name, value)| option(name, value)).collect();
    if !options.is_empty() {
        config.options(options.join(" "));
    }
    Ok(config)
}

/// A parameter of the session as it stands in `options`.
fn option(name: &str, value: &str) -> String {
    match name {
        "options" => value.to_owned(),
        _ => format!("-c {name}={}", value.replace('\\', "\\\\").replace(' ', "\\ ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_options_of_the_session() {
        assert_eq!(option("options", "-c jit=off"), "-c jit=off");
        assert_eq!(option("search_path", "a, b\\c"), "-c search_path=a,\\ b\\\\c");
    }

    #[test]
    fn what_must_be_encrypted_is_not_sent_in_the_clear() {
        let mut options = ConnectOptions::new(Host::Tcp("db".into()), 5432, "u", "d");
        assert!(config(&options).is_ok());
        options.tls.mode = SslMode::Require;
        assert!(config(&options).unwrap_err().to_string().contains("no TLS"));
    }
}
