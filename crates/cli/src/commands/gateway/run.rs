//! `walwright gateway` as it serves.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use walwright_gateway::{Authentication, Gateway, Listen, Options, Tls, Users, parse_userlist};
use walwright_server::{ConnectParams, Secret};

use crate::args::{AuthChoice, GatewayRunArgs};
use crate::commands::service::Service;
use crate::output::say;

/// Serves until it is stopped.
pub fn execute(args: &GatewayRunArgs) -> anyhow::Result<ExitCode> {
    let params = server(args)?;
    let service = Service::prepare()?;
    let gateway = Gateway::start(options(args)?)?;
    for place in gateway.places() {
        say(&match place {
            Listen::Tcp(address) => format!("listening on {address}"),
            Listen::Unix(path) => format!("listening on {}", path.display()),
        });
    }
    if let Some(address) = gateway.metrics() {
        say(&format!("metrics at http://{address}/metrics"));
        if !address.ip().is_loopback() {
            say("warning: whoever reaches that address may read them");
        }
    }
    say(&format!("before the server at {}; Ctrl-C ends it", params.address()));
    let args = args.clone();
    let patience = args.drain_timeout;
    gateway.on_reload(move || options(&args).map_err(|error| format!("{error:#}")));
    Ok(service.serve(gateway, patience))
}

fn server(args: &GatewayRunArgs) -> anyhow::Result<ConnectParams> {
    Ok(ConnectParams::resolve(args.server.as_ref().map(Secret::expose))?)
}

/// What is typed, with what the files that it names say now.
fn options(args: &GatewayRunArgs) -> anyhow::Result<Options> {
    let params = server(args)?;
    let mut options = Options::new(params.wire_options());
    options.listen = args.listen.iter().map(|text| place(text)).collect::<Result<_, _>>()?;
    options.authentication = authentication(args, &options.listen)?;
    if let Some((certificate, key)) = args.tls_cert.as_ref().zip(args.tls_key.as_ref()) {
        options.tls = Some(Tls::from_files(certificate, key, args.tls_required)?);
    }
    options.pooling.size = usize::from(args.pool_size);
    if let Some(threads) = args.threads {
        options.workers = usize::from(threads);
    }
    options.metrics = args.metrics;
    if !args.admin_users.is_empty() {
        options.admin_users.clone_from(&args.admin_users);
    }
    options.stats_users.clone_from(&args.stats_users);
    Ok(options)
}

fn place(text: &str) -> anyhow::Result<Listen> {
    if text.starts_with('/') {
        return Ok(Listen::Unix(text.into()));
    }
    let address: SocketAddr = text.parse().with_context(|| {
        format!("--listen {text}: write an address with its port, such as 127.0.0.1:6432, or the path of a unix socket")
    })?;
    Ok(Listen::Tcp(address))
}

fn authentication(args: &GatewayRunArgs, listen: &[Listen]) -> anyhow::Result<Authentication> {
    if args.auth == AuthChoice::Trust {
        let open = listen.iter().find_map(|place| match place {
            Listen::Tcp(address) if !address.ip().is_loopback() => Some(address),
            Listen::Tcp(_) | Listen::Unix(_) => None,
        });
        if let Some(address) = open {
            bail!(
                "--auth trust lets anybody in who reaches {address}: it goes with loopback addresses and unix sockets alone"
            );
        }
        return Ok(Authentication::Trust);
    }
    let mut users = Users { ask_server: args.userlist.is_none(), ..Users::default() };
    if let Some(path) = &args.userlist {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        users.known = parse_userlist(&text)
            .map_err(|(line, what)| anyhow::anyhow!("{}, line {line}: {what}", path.display()))?;
    }
    Ok(Authentication::Scram(Arc::new(users)))
}
