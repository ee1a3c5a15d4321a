//! What is run and how it is driven, as `run`, `ab` and `tune` take it.

use std::time::Duration;

use clap::{Args, ValueEnum};
use walwright_run::{Length, LoadOptions, Pooler, WorkloadPlan};
use walwright_workload::Workload;
use walwright_workload::script::parse_script_argument;

use super::duration;

/// What is run.
#[derive(Debug, Args)]
pub struct WorkloadArgs {
    /// A built-in workload (see `walwright workload list`) or a workload directory. The default
    /// is tpcb.
    #[arg(short, long, value_name = "NAME|DIR", help_heading = "What is run")]
    pub workload: Option<String>,
    /// A pgbench script; `@N` gives its weight. May be repeated.
    ///
    /// With --workload it runs on the tables and data of that workload, in place of its scripts.
    #[arg(short, long, value_name = "SCRIPT[@WEIGHT]", help_heading = "What is run")]
    pub file: Vec<String>,
    /// A built-in script of pgbench on its tables: tpcb-like, simple-update or select-only, or
    /// the beginning of such a name; `@N` gives its weight. May be repeated, and with --file.
    #[arg(short, long, value_name = "NAME[@WEIGHT]", value_parser = builtin_script, conflicts_with = "workload", help_heading = "What is run")]
    pub builtin: Vec<String>,
    /// Scale factor: how much data. The default is the workload's own.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What is run")]
    pub scale: Option<u32>,
    /// An option of the workload, such as partial_index=off.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "What is run")]
    pub option: Vec<(String, String)>,
    /// A script variable, as pgbench -D.
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = pair, help_heading = "What is run")]
    pub define: Vec<(String, String)>,
    /// Leave out the VACUUM before the run.
    ///
    /// Without it, workloads on pgbench's tables vacuum branches and tellers before the run as
    /// pgbench does, on an embedded cluster and with --init. Other tables of a server of yours
    /// are never vacuumed, with this or without.
    #[arg(short, long, help_heading = "What is run")]
    pub no_vacuum: bool,
}

impl WorkloadArgs {
    /// What is asked for.
    pub fn plan(self) -> WorkloadPlan {
        WorkloadPlan {
            name: self.workload,
            files: self.file,
            requests: Vec::new(),
            builtin: self.builtin,
            no_vacuum: self.no_vacuum,
            scale: self.scale,
            options: self.option,
            define: self.define,
        }
    }
}

/// What clients do, whenever their transactions begin.
#[derive(Debug, Args)]
pub struct ClientArgs {
    /// Driver threads. The default is one for every 64 clients, at most one a processor.
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "How it is run")]
    pub threads: Option<u32>,
    /// Start the clients evenly over this time.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "How it is run")]
    pub ramp: Option<Duration>,
    /// Protocol. The default is the workload's own, mostly prepared.
    #[arg(short = 'M', long, value_enum, help_heading = "How it is run")]
    pub protocol: Option<Protocol>,
    /// Lean mode: binary parameters and a whole transaction in one round trip where the script allows.
    ///
    /// It changes the server's work too, so its figures do not compare with pgbench's. Without it, the same messages are sent as pgbench sends.
    #[arg(long, help_heading = "How it is run")]
    pub lean: bool,
    /// Tries a transaction has on serialization failure (40001) and deadlock (40P01); 0: without
    /// limit. The default is 1.
    #[arg(long, value_name = "N", help_heading = "How it is run")]
    pub max_tries: Option<u32>,
    /// Open a new connection for each transaction. Opening it is timed apart and is no part of a
    /// latency, as in pgbench; with --rate, where latency counts from the due time, it is.
    #[arg(short = 'C', long, help_heading = "How it is run")]
    pub connect: bool,
    /// What follows an SQL error, a lost connection or an error of the script. Serialization
    /// failures and deadlocks (see --max-tries) are counted and end nothing. The default is
    /// continue.
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "How it is run")]
    pub on_error: Option<OnError>,
    /// Put walwright's gateway between clients and the embedded server: the same as --pooler
    /// gateway.
    #[arg(long, conflicts_with = "pooler", help_heading = "How it is run")]
    pub gateway: bool,
    /// Put a pooler between clients and the embedded server: gateway, or pgbouncer where it is
    /// installed, or pgbouncer=PATH.
    #[arg(long, value_name = "POOLER", value_parser = str::parse::<Pooler>, help_heading = "How it is run")]
    pub pooler: Option<Pooler>,
}

impl ClientArgs {
    /// What is asked for; the rest is left as it is.
    pub fn options(self) -> LoadOptions {
        LoadOptions {
            threads: self.threads,
            ramp: self.ramp.map(Length),
            protocol: self.protocol.map(|protocol| match protocol {
                Protocol::Simple => walwright_driver::Protocol::Simple,
                Protocol::Extended => walwright_driver::Protocol::Extended,
                Protocol::Prepared => walwright_driver::Protocol::Prepared,
            }),
            lean: self.lean.then_some(true),
            max_tries: self.max_tries,
            connect: self.connect.then_some(true),
            on_error: self.on_error.map(|what| match what {
                OnError::Continue => walwright_record::OnError::Continue,
                OnError::StopClient => walwright_record::OnError::StopClient,
                OnError::Stop => walwright_record::OnError::Stop,
            }),
            pooler: self.gateway.then_some(Pooler::Gateway).or(self.pooler),
            ..LoadOptions::default()
        }
    }
}

/// What clients do, and when their transactions begin.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Open loop: this many transactions are due each second, over all clients.
    #[arg(short = 'R', long, value_name = "PER_SECOND", value_parser = rate, help_heading = "How it is run")]
    pub rate: Option<f64>,
    /// Open loop: gaps between due times. The default is poisson.
    #[arg(long, value_enum, help_heading = "How it is run")]
    pub gaps: Option<Gaps>,
    /// Count transactions that take longer than this. In an open loop, one that is already later
    /// when it could begin is skipped.
    #[arg(short = 'L', long, value_name = "TIME", value_parser = duration, help_heading = "How it is run")]
    pub latency_limit: Option<Duration>,
    /// Closed loop: mean time a client waits between transactions (exponential).
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "rate", help_heading = "How it is run")]
    pub think: Option<Duration>,
    /// What clients do.
    #[command(flatten)]
    pub client: ClientArgs,
}

impl LoadArgs {
    /// What is asked for; the rest is left as it is.
    pub fn options(self) -> LoadOptions {
        LoadOptions {
            rate: self.rate,
            gaps: self.gaps.map(|gaps| match gaps {
                Gaps::Poisson => walwright_run::Gaps::Poisson,
                Gaps::Even => walwright_run::Gaps::Even,
            }),
            latency_limit: self.latency_limit.map(Length),
            think: self.think.map(Length),
            ..self.client.options()
        }
    }
}

/// How the warm-up ends.
pub(super) fn warm_up(text: &str) -> Result<walwright_run::WarmUp, String> {
    text.to_owned().try_into()
}

/// Gaps between due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Gaps {
    /// Exponential, as of many independent users.
    Poisson,
    /// All the same.
    Even,
}

/// What follows an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// The transaction counts as failed, and the client goes on.
    Continue,
    /// The client ends, as pgbench's do.
    StopClient,
    /// The run ends.
    Stop,
}

/// Wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Simple query: text with values in it.
    Simple,
    /// Parse, Bind and Execute each time.
    Extended,
    /// Parse once, Bind and Execute each time.
    Prepared,
}

/// A number of transactions a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err(format!("'{text}' is not a number of transactions a second above 0")),
    }
}

/// A built-in script, which must be one.
fn builtin_script(text: &str) -> Result<String, String> {
    let script = parse_script_argument(text).map_err(|error| error.to_string())?;
    Workload::from_builtin_scripts(&[script], &[]).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// NAME=VALUE.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("'{text}' is not NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_need_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(pair("=b").is_err());
        assert!(pair("a").is_err());
    }
}
