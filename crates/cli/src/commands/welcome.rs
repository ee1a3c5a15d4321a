//! `walwright` alone: what it is and where to start.

use std::process::ExitCode;

use serde_json::json;

use crate::output::Output;

const START: [(&str, &str); 3] = [
    ("walwright run", "fetch PostgreSQL 18, make a cluster, drive load, measure, report"),
    ("walwright run --file my.sql", "the same with your own pgbench script"),
    ("walwright run --dsn postgres://you@host/db --file my.sql", "the same on a server of yours"),
];

/// Prints the three commands people start with.
pub fn show(output: &Output) -> anyhow::Result<ExitCode> {
    if output.json {
        output.print_json(&json!({
            "name": "walwright",
            "version": env!("CARGO_PKG_VERSION"),
            "start": START.map(|(command, what)| json!({ "command": command, "what": what })),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (bold, plain) = if output.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut text = format!(
        "{bold}walwright {}{plain}: a performance lab for write-heavy PostgreSQL.\n\
         It drives a workload, shows where the time of a commit goes, and keeps the record.\n\n\
         Start with\n",
        env!("CARGO_PKG_VERSION"),
    );
    for (command, what) in START {
        text.push_str(&format!("  {bold}{command}{plain}\n      {what}\n"));
    }
    text.push_str(
        "\nThen `walwright runs list` lists what was recorded, `walwright runs show` prints the last\n\
         run again, and `walwright --help` names everything else.\n",
    );
    output.print_painted(&text)?;
    Ok(ExitCode::SUCCESS)
}
