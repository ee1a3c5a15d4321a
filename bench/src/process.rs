//! Running a command and accounting for it.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::Pid;

/// What a finished process used, all its threads together.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// CPU time in user and kernel mode.
    pub cpu: Duration,
    /// Largest resident memory in bytes.
    pub peak_bytes: u64,
}

/// The process of a number, for signals and the like.
///
/// # Errors
/// When the number is of none.
pub fn process(id: u32) -> anyhow::Result<Pid> {
    Pid::from_raw(i32::try_from(id)?).context("no process has the number 0")
}

/// The children of a process, such as a postmaster's sessions and helpers.
///
/// # Errors
/// When it is gone.
pub fn children(of: u32) -> anyhow::Result<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"))
        .with_context(|| format!("reading the children of process {of}"))?;
    text.split_whitespace().map(|child| Ok(child.parse()?)).collect()
}

/// A process that takes a processor until it is dropped.
pub struct Busy(Child);

impl Busy {
    /// Starts one.
    ///
    /// # Errors
    /// When there is no shell.
    pub fn start() -> anyhow::Result<Busy> {
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .context("starting a busy neighbour")?;
        Ok(Busy(child))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have been ended from outside.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command to its end; its standard output and what it used.
///
/// # Errors
/// When it cannot be started or does not exit with 0; with what it said.
pub fn run_measured(command: &mut Command) -> anyhow::Result<(String, Usage)> {
    run_measured_to(command, &[0])
}

/// The same of a command that may exit with any of these codes.
///
/// # Errors
/// As [`run_measured`].
pub fn run_measured_to(command: &mut Command, codes: &[i32]) -> anyhow::Result<(String, Usage)> {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let mut errors = child.stderr.take().context("standard error is piped")?;
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = errors.read_to_string(&mut text);
        text
    });
    let mut printed = String::new();
    child.stdout.take().context("standard output is piped")?.read_to_string(&mut printed)?;
    let (code, usage) = wait(child)?;
    let said = said.join().unwrap_or_default();
    if !codes.contains(&code) {
        bail!("{shown} ended with status {code}:\n{printed}{said}");
    }
    Ok((printed, usage))
}

/// Waits with wait4, which tells what exactly this child used.
fn wait(child: Child) -> anyhow::Result<(i32, Usage)> {
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: rusage is plain data for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: pid is a child that nothing else waits for, since `child` is owned here
    // and Child's drop does not wait; both pointers are valid for the call.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
    if waited != pid {
        bail!("cannot wait for process {pid}: {}", std::io::Error::last_os_error());
    }
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.unsigned_abs())
            + Duration::from_micros(t.tv_usec.unsigned_abs())
    };
    let usage = Usage {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
    };
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
    Ok((code, usage))
}

/// Resident memory of a process, in bytes.
///
/// # Errors
/// When it is gone.
pub fn resident_bytes(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kilobytes = line.split_whitespace().nth(1).context("VmRSS without a number")?;
    Ok(kilobytes.parse::<f64>()? * 1024.0)
}

/// CPU time that the threads of a process have used.
///
/// # Errors
/// When it is gone.
pub fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // Threads come and go.
        let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanoseconds += text.split(' ').next().context("an empty schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Takes PostgreSQL's variables of this process's environment (`PGHOST`, `PGUSER`, …) from a
/// command's.
pub fn without_pg_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
}
