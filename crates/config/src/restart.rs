//! Restarting a server that is someone else's: by their command, or by whoever owns it.

use std::fmt;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use walwright_server::Secret;

/// How long a restart command may run.
const COMMAND: Duration = Duration::from_secs(600);

/// What restarts the server.
pub enum Restart {
    /// Nothing: what takes a restart waits for one.
    Never,
    /// A shell command that returns when the server has restarted.
    Command(Secret),
    /// Its owner in this process. Blocks; says what failed.
    With(Box<dyn FnMut() -> Result<(), String> + Send>),
}

impl fmt::Debug for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Restart::Never => "Never",
            Restart::Command(_) => "Command",
            Restart::With(_) => "With",
        })
    }
}

impl Restart {
    /// Whether there is a way.
    pub fn can(&self) -> bool {
        !matches!(self, Restart::Never)
    }

    /// Restarts.
    ///
    /// # Errors
    /// With what failed.
    pub(super) async fn now(&mut self) -> Result<(), String> {
        match self {
            Restart::Never => Err("there is no way to restart the server".to_owned()),
            Restart::Command(command) => run(command.expose()).await,
            Restart::With(restart) => tokio::task::block_in_place(restart),
        }
    }
}

async fn run(command: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the restart command cannot be run: {error}");
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        // Results alone go to standard output.
        .stdout(std::io::stderr())
        .stderr(Stdio::inherit())
        // Ctrl-C asks walwright to stop; a server must not be left halfway by it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    match tokio::time::timeout(COMMAND, child.wait()).await {
        Err(_) => Err(format!("the restart command did not end within {} s", COMMAND.as_secs())),
        Ok(status) => match status.map_err(failed)? {
            status if status.success() => Ok(()),
            status => Err(format!("the restart command failed ({status})")),
        },
    }
}
