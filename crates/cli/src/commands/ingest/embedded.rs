//! The demonstration: a server of its own, and rows that are made up.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use walwright_ingest::Input;
use walwright_report::format;
use walwright_server::{Cluster, ClusterSpec, Hosts, Installs, Major, Places, RunningCluster};

use crate::output::say;

/// The table that rows go to.
pub const TABLE: &str = "events";

const EVENTS: &str = "CREATE TABLE events (
    id bigint PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL,
    payload jsonb
)";

/// A server that lives as long as the demonstration, with its table.
pub async fn start() -> anyhow::Result<(RunningCluster, Hosts)> {
    let server = tokio::task::spawn_blocking(|| -> anyhow::Result<RunningCluster> {
        let places = Places::open(None)?;
        walwright_server::sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        Ok(Cluster::create(ClusterSpec::new(&places, install))?.start()?)
    });
    let server = server.await??;
    let params = server.connect_params("postgres");
    let client = walwright_server::connect_for_workload(&params).await?;
    client.batch_execute(EVENTS).await?;
    let (sockets, port) = (server.socket_dir(), server.port());
    say(&format!(
        "an embedded server for this demonstration, gone at the end, with a table:\n{EVENTS};"
    ));
    say(&format!("look into it with: psql -h {} -p {port} -U postgres", sockets.display()));
    Ok((server, Hosts { params: vec![params], session_attributes: None, dbname: None }))
}

/// So many rows, as if a program wrote them.
pub fn rows(count: u64) -> io::Result<Input> {
    say(&format!("{} are made up, as JSON", format::counted(count, "row")));
    Input::written_by("the rows made up", move |file: File| {
        const KINDS: [&str; 4] = ["view", "click", "cart", "order"];
        let mut to = BufWriter::with_capacity(64 * 1024, file);
        for id in 0..count {
            let kind = KINDS[(id % 4) as usize];
            writeln!(
                to,
                r#"{{"id": {id}, "kind": "{kind}", "payload": {{"user": {}, "page": "/p/{}"}}}}"#,
                id % 9_973,
                id % 127
            )?;
        }
        to.flush()
    })
}
