//! `walwright gateway` as it serves.

use std::process::ExitCode;

use walwright_gateway::Gateway;
use walwright_gateway::config::Config;

use super::configuration::{places, read};
use crate::args::GatewayRunArgs;
use crate::commands::service::Service;
use crate::output::say;

/// Serves until it is stopped.
pub fn execute(args: &GatewayRunArgs) -> anyhow::Result<ExitCode> {
    let Config { options, warnings } = read(args)?;
    for warning in &warnings {
        say(&format!("warning: {warning}"));
    }
    let mut servers: Vec<String> =
        options.databases.iter().map(|database| places(&database.server)).collect();
    servers.dedup();
    let service = Service::prepare()?;
    let gateway = Gateway::start(options)?;
    for place in gateway.places() {
        say(&format!("listening on {place}"));
    }
    if let Some(address) = gateway.metrics() {
        say(&format!("metrics at http://{address}/metrics"));
        if !address.ip().is_loopback() {
            say("warning: whoever reaches that address may read them");
        }
    }
    say(&format!("before the server at {}; Ctrl-C ends it", servers.join(" and at ")));
    let args = args.clone();
    let patience = args.drain_timeout;
    gateway.on_reload(move || match read(&args) {
        Ok(Config { options, .. }) => Ok(options),
        Err(error) => Err(format!("{error:#}")),
    });
    Ok(service.serve(gateway, patience))
}
