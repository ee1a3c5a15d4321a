//! walwright as a contender, driven as a person drives it: by its command.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::{Latency, Measured, Testbed, Usage, run_measured, run_measured_to};

/// What `walwright run` exits with where a run was made and a limit missed, or a quarter of
/// the transactions failed.
const MISSED: i32 = 4;

/// `walwright record` at work.
pub struct Recording(Child);

impl Recording {
    /// Waits until it has written its record.
    ///
    /// # Errors
    /// When it failed; with what it said.
    pub fn finish(self) -> anyhow::Result<()> {
        let output = self.0.wait_with_output()?;
        if !output.status.success() {
            bail!("walwright record failed:\n{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

/// The `walwright` command with a lab of its own.
pub struct Walwright {
    program: PathBuf,
    lab: PathBuf,
    /// Removes the lab with it, where nobody asked to keep it.
    _temporary: Option<tempfile::TempDir>,
}

impl Walwright {
    /// Finds the command beside this program.
    ///
    /// # Errors
    /// When it has not been built.
    pub fn find() -> anyhow::Result<Walwright> {
        let program = std::env::current_exe()?.with_file_name("walwright");
        if !program.exists() {
            bail!("{} is not there; run `cargo build --release` first", program.display());
        }
        let temporary = tempfile::tempdir()?;
        Ok(Walwright { program, lab: temporary.path().to_owned(), _temporary: Some(temporary) })
    }

    /// The same with a lab that is kept.
    #[must_use]
    pub fn in_lab(self, lab: PathBuf) -> Walwright {
        Walwright { program: self.program, lab, _temporary: None }
    }

    /// Its program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The command, with its lab.
    pub fn command(&self) -> Command {
        self.command_in(&self.lab)
    }

    /// The command with another lab.
    pub fn command_in(&self, lab: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--lab").arg(lab);
        command
    }

    /// Runs `walwright --json run` with `arguments`; what it printed and used.
    ///
    /// # Errors
    /// When it fails or prints no JSON.
    pub fn json(&self, arguments: &[&str]) -> anyhow::Result<(Value, Usage)> {
        let mut command = self.command();
        command.args(["--json", "run", "--quiet"]).args(arguments);
        let (printed, usage) = run_measured_to(&mut command, &[0, MISSED])?;
        let value = serde_json::from_str(&printed)
            .with_context(|| format!("walwright printed no JSON:\n{printed}"))?;
        Ok((value, usage))
    }

    /// What `walwright --json` prints with other arguments than `run`.
    ///
    /// # Errors
    /// When it fails or prints no JSON.
    pub fn printed_json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let (printed, _) = run_measured(self.command().arg("--json").args(arguments))?;
        serde_json::from_str(&printed)
            .with_context(|| format!("walwright printed no JSON:\n{printed}"))
    }

    /// Starts `walwright record` of the server of `testbed`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn record_beside(&self, testbed: &Testbed, length: Duration) -> anyhow::Result<Recording> {
        let length = format!("{}s", length.as_secs());
        let mut command = self.command();
        command.args(["record", "--quiet", "--dsn", &testbed.dsn(), "--for", &length]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Recording(command.spawn().context("starting walwright record")?))
    }

    /// The runs of its lab by label; of several with one label the last.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn labelled_runs(&self) -> anyhow::Result<HashMap<String, String>> {
        let runs = self.printed_json(&["runs"])?;
        let mut found: Vec<(String, String)> = runs
            .as_array()
            .context("no list of runs")?
            .iter()
            .filter_map(|run| Some((run["label"].as_str()?.into(), run["id"].as_str()?.into())))
            .collect();
        // Names begin with the time.
        found.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(found.into_iter().collect())
    }

    /// Runs `tpcb` on the server of `testbed` on one driver thread, all of `length` measured.
    ///
    /// CPU is that of the driver's threads: the load generator. What the rest of the
    /// tool uses (reading and writing the record) is not the load path; `probe-cost`
    /// measures what a run as a whole takes from the server.
    ///
    /// # Errors
    /// When it fails.
    pub fn tpcb(
        &self,
        testbed: &Testbed,
        clients: u32,
        length: Duration,
        extra: &[&str],
    ) -> anyhow::Result<Measured> {
        let scale = testbed.scale().to_string();
        let workload = ["--workload", "tpcb", "--scale", &scale, "--threads", "1"];
        let workload: Vec<&str> = workload.into_iter().chain(extra.iter().copied()).collect();
        self.load(&testbed.dsn(), clients, length, Duration::ZERO, &workload)
    }

    /// Runs a load on a server, on what stands before it, or both; `what` are further arguments
    /// of `walwright run`.
    ///
    /// # Errors
    /// When it fails.
    pub fn load(
        &self,
        dsn: &str,
        clients: u32,
        length: Duration,
        warm_up: Duration,
        what: &[&str],
    ) -> anyhow::Result<Measured> {
        let seconds = |time: Duration| format!("{}s", time.as_secs());
        let (clients, length, warm_up) = (clients.to_string(), seconds(length), seconds(warm_up));
        let mut arguments = vec!["--dsn", dsn, "--clients", &clients];
        arguments.extend(["--warmup", &warm_up, "--duration", &length]);
        arguments.extend(what);
        let (value, _) = self.json(&arguments)?;
        let summary = &value["summary"];
        let number = |pointer: &str| {
            summary.pointer(pointer).and_then(Value::as_f64).with_context(|| {
                format!("walwright's summary has no number at {pointer}:\n{summary:#}")
            })
        };
        Ok(Measured {
            throughput: number("/load/throughput/center")?,
            cpu_us: number("/cpu/driver_per_transaction")? * 1e6,
            latency: Some(Latency {
                p50: number("/load/latency/p50")?,
                p99: number("/load/latency/p99")?,
            }),
        })
    }
}
