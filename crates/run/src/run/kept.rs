//! The cluster of a run that stays after it, and how to start it again.

use std::path::PathBuf;

use serde::Serialize;
use walwright_catalog::shell_word;
use walwright_server::RunningCluster;

/// A cluster that was kept: stopped, with what the run left in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its directory; the data directory is `data` below it. Removing it removes all.
    pub directory: PathBuf,
    /// The shell command that starts it on a unix socket.
    pub start: String,
    /// The shell command that connects to it then.
    pub connect: String,
    /// The shell command that stops it.
    pub stop: String,
}

impl Kept {
    /// How the cluster of a server can be started when the server has been stopped.
    pub fn of(server: &RunningCluster) -> Kept {
        let cluster = server.cluster();
        let directory = cluster.dir().to_owned();
        // A socket directory elsewhere goes with the run.
        let inside = server.socket_dir().starts_with(&directory);
        let socket = if inside { server.socket_dir().to_owned() } else { "/tmp".into() };
        let socket = socket.display().to_string();
        let data = cluster.data_dir();
        // The server's user may not write beside its data directory.
        let log = shell_word(&data.join("server.log").display().to_string());
        let data = data.display().to_string();
        let pg_ctl = format!("{} -D {}", program(server, "pg_ctl"), shell_word(&data));
        let user = cluster.user();
        let as_user = if user.is_dropped() {
            format!("runuser -u {} -- ", user.name())
        } else {
            String::new()
        };
        let options = shell_word(&format!("-k {} -c listen_addresses=", shell_word(&socket)));
        Kept {
            start: format!("{as_user}{pg_ctl} -o {options} -l {log} start"),
            connect: format!(
                "{} -h {} -U postgres postgres",
                program(server, "psql"),
                shell_word(&socket)
            ),
            stop: format!("{as_user}{pg_ctl} stop"),
            directory,
        }
    }
}

/// A program of the install with the environment it needs.
fn program(server: &RunningCluster, name: &str) -> String {
    let command = server.cluster().install().command(name);
    let variables: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| {
            let value = value?.to_string_lossy();
            Some(format!("{}={}", name.to_string_lossy(), shell_word(&value)))
        })
        .collect();
    let path = shell_word(&command.get_program().to_string_lossy());
    if variables.is_empty() { path } else { format!("env {} {path}", variables.join(" ")) }
}
