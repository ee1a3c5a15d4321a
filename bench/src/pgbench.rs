//! pgbench as a contender.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::{Measured, Testbed, run_measured};

/// pgbench's TPC-B-like script with its statements in one pipeline: one round trip a
/// transaction, the fastest pgbench itself can do it.
pub const PIPELINED: &str = r"\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
\startpipeline
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
\endpipeline
";

/// A way to run pgbench.
#[derive(Debug, Clone)]
pub struct Pgbench {
    /// Client connections.
    pub clients: u32,
    /// A script instead of the built-in TPC-B-like one.
    pub script: Option<std::path::PathBuf>,
    /// Transactions a client, instead of a time.
    pub transactions: Option<u32>,
}

impl Pgbench {
    /// The built-in TPC-B-like script.
    pub fn tpcb(clients: u32) -> Pgbench {
        Pgbench { clients, script: None, transactions: None }
    }

    /// The pipelined script, from a file.
    pub fn pipelined(clients: u32, script: &Path) -> Pgbench {
        Pgbench { script: Some(script.to_owned()), ..Pgbench::tpcb(clients) }
    }

    /// Runs it on one thread with prepared statements for `length`.
    ///
    /// # Errors
    /// When it fails, or prints what is not understood.
    pub fn run(&self, testbed: &Testbed, length: Duration) -> anyhow::Result<Measured> {
        let mut command = testbed.program("pgbench");
        command.args(["-n", "-M", "prepared", "-j", "1", "-c", &self.clients.to_string()]);
        match self.transactions {
            Some(count) => command.args(["-t", &count.to_string()]),
            None => command.args(["-T", &length.as_secs().to_string()]),
        };
        if let Some(script) = &self.script {
            command.arg("-f").arg(script).arg(format!("-Dscale={}", testbed.scale()));
        }
        let (printed, usage) = run_measured(&mut command)?;
        let throughput = figure(&printed, "tps = ")?;
        let transactions = figure(&printed, "transactions actually processed: ")?;
        let cpu_us = usage.cpu.as_secs_f64() * 1e6 / transactions;
        Ok(Measured { throughput, cpu_us, latency: None })
    }
}

fn figure(printed: &str, label: &str) -> anyhow::Result<f64> {
    let (_, rest) = printed
        .split_once(label)
        .with_context(|| format!("pgbench printed no '{label}':\n{printed}"))?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().with_context(|| format!("'{label}' is no number in:\n{printed}"))
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn figures_are_found_in_what_pgbench_prints() {
        let printed = "number of transactions actually processed: 5310/5310\ntps = 530.123 (x)\n";
        assert_eq!(figure(printed, "actually processed: ").unwrap(), 5310.0);
        assert_eq!(figure(printed, "tps = ").unwrap(), 530.123);
        assert!(figure(printed, "latency = ").is_err());
    }
}
