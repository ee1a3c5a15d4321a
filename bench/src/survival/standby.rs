//! A standby of a server.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use walwright_server::{Cluster, ClusterSpec, Install, Places, RunningCluster};

/// A standby that follows a server, by a name for `synchronous_standby_names`.
///
/// # Errors
/// When it cannot be made.
pub fn standby(
    of: &RunningCluster,
    name: &str,
    base: &Path,
    install: Install,
) -> anyhow::Result<RunningCluster> {
    let primary = format!(
        "host={} port={} user=postgres application_name={name}",
        of.socket_dir().display(),
        of.port()
    );
    let mut spec = ClusterSpec::new(&Places::open(Some(base.to_owned()))?, install);
    let settings = [
        ("primary_conninfo", primary.as_str()),
        ("wal_retrieve_retry_interval", "20ms"),
        // So much later at most it confirms what it had before it was stopped.
        ("wal_receiver_status_interval", "1s"),
    ];
    spec.settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let cluster = Cluster::create(spec)?;
    let data = cluster.data_dir();
    std::fs::remove_dir_all(&data)?;
    let mut copies = cluster.install().command("pg_basebackup");
    copies.args(["--checkpoint=fast", "--no-sync", "--wal-method=stream", "--username=postgres"]);
    copies.arg("--host").arg(of.socket_dir()).arg("--port").arg(of.port().to_string());
    run(copies.arg("--pgdata").arg(&data))?;
    std::fs::write(data.join("standby.signal"), "")?;
    run(Command::new("chown").arg("-R").arg("--reference").arg(of.data_dir()).arg(&data))?;
    Ok(cluster.start()?)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}
