//! `walwright gateway` as it serves.

use std::net::TcpListener;
use std::process::ExitCode;

use anyhow::Context;
use walwright_gateway::config::Config;
use walwright_gateway::{Gateway, Predecessor, Socket, Sockets};

use super::configuration::{places, read};
use super::systemd;
use crate::args::GatewayRunArgs;
use crate::commands::service::Service;
use crate::output::say;

/// Serves until it is stopped.
pub fn execute(args: &GatewayRunArgs) -> anyhow::Result<ExitCode> {
    let handed_down = systemd::sockets()?;
    let args = match &handed_down {
        Some(sockets) => on_sockets(args, sockets)?,
        None => args.clone(),
    };
    let Config { options, warnings } = read(&args)?;
    for warning in &warnings {
        say(&format!("warning: {warning}"));
    }
    let mut servers: Vec<String> =
        options.databases.iter().map(|database| places(&database.server)).collect();
    servers.dedup();
    let service = Service::prepare()?;
    let predecessor = match args.handover.as_deref().map(Predecessor::at) {
        Some(found) => found.context("the gateway that is there does not hand over")?,
        None => None,
    };
    let (predecessor, there) = predecessor.unzip();
    let sockets = match (handed_down, there) {
        (Some(sockets), _) => sockets,
        (None, Some(there)) => Sockets::bind_beside(&options, there)?,
        (None, None) => Sockets::bind(&options)?,
    };
    let keeps_sockets = !sockets.removes;
    let takes_over = predecessor.is_some();
    let mut gateway = Gateway::start_after(predecessor, sockets, options)?;
    if let Some(path) = &args.handover {
        gateway.hand_over_at(path)?;
    }
    if takes_over {
        say("taken over from the gateway that was there");
    }
    for place in gateway.places() {
        say(&format!("listening on {place}"));
    }
    if let Some(address) = gateway.metrics() {
        say(&format!("metrics at http://{address}/metrics"));
        if !address.ip().is_loopback() {
            say("warning: whoever reaches that address may read them");
        }
    }
    let before = format!("before the server at {}", servers.join(" and at "));
    say(&format!("{before}; Ctrl-C ends it"));
    let patience = args.drain_timeout;
    gateway.on_reload(move || match read(&args) {
        Ok(Config { options, .. }) => Ok(options),
        Err(error) => Err(format!("{error:#}")),
    });
    systemd::keep_watchdog(gateway.pulse());
    systemd::tell_ready(&before);
    Ok(service.serve(gateway, keeps_sockets, patience))
}

/// What was typed, as if the sockets that are there had been typed as places to listen.
fn on_sockets(args: &GatewayRunArgs, sockets: &Sockets) -> anyhow::Result<GatewayRunArgs> {
    let places = sockets.clients.iter().map(Socket::place);
    let places = places.collect::<Result<Vec<_>, _>>().context("a socket has no address")?;
    let metrics = sockets.metrics.as_ref().map(TcpListener::local_addr).transpose()?;
    Ok(GatewayRunArgs {
        listen: places.iter().map(ToString::to_string).collect(),
        metrics: metrics.or(args.metrics),
        ..args.clone()
    })
}
