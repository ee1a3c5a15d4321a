//! What a gateway is to do, from its file and from what was typed, which wins.

use std::path::Path;

use walwright_gateway::Server;
use walwright_gateway::config::{AuthType, Config, Dsn, File, Resolved, Said};
use walwright_server::{ConnectParams, Hosts};
use walwright_wire::ConnectOptions;

use crate::args::{AuthChoice, GatewayRunArgs};
use crate::output::usage;

/// Reads the file, if one is named, and puts what was typed over it.
pub fn read(args: &GatewayRunArgs) -> anyhow::Result<Config> {
    let (mut file, source) = match &args.config {
        None => (File::default(), None),
        Some(path) => {
            let (file, text) = File::read(path).map_err(|error| usage(error.to_string()))?;
            (file, Some((path.as_path(), text)))
        }
    };
    put_over(&mut file, args);
    meaning(&file, source.as_ref().map(|(path, text)| (*path, text.as_str())))
}

/// What a file means.
pub fn meaning(file: &File, source: Option<(&Path, &str)>) -> anyhow::Result<Config> {
    file.config(source, &resolve).map_err(|error| usage(error.to_string()))
}

fn put_over(file: &mut File, args: &GatewayRunArgs) {
    fn put<T>(into: &mut Option<T>, typed: Option<impl Into<T>>) {
        if let Some(typed) = typed {
            *into = Some(typed.into());
        }
    }
    if let Some(dsn) = &args.server {
        file.server = Some(Dsn(dsn.expose().to_owned()).into());
    }
    if !args.listen.is_empty() {
        file.listen = args.listen.iter().cloned().map(Into::into).collect();
    }
    put(&mut file.workers, args.threads.map(usize::from));
    let authentication = &mut file.authentication;
    if let Some(choice) = args.auth {
        let kind = match choice {
            AuthChoice::Scram => AuthType::Scram,
            AuthChoice::Trust => AuthType::Trust,
            AuthChoice::Cert => AuthType::Cert,
            AuthChoice::Peer => AuthType::Peer,
        };
        authentication.kind = Some(kind.into());
        (authentication.hba_file, authentication.rules) = (None, None);
    }
    if let Some(path) = &args.hba_file {
        authentication.hba_file = Some(path.clone().into());
        (authentication.kind, authentication.rules) = (None, None);
    }
    put(&mut authentication.userlist, args.userlist.clone());
    put(&mut authentication.auth_query, args.auth_query.clone());
    put(&mut file.tls.certificate, args.tls_cert.clone());
    put(&mut file.tls.key, args.tls_key.clone());
    put(&mut file.tls.required, args.tls_required.then_some(true));
    put(&mut file.tls.client_ca, args.tls_client_ca.clone());
    put(&mut file.metrics.listen, args.metrics.map(|address| Said::from(address.to_string())));
    if !args.admin_users.is_empty() {
        file.admin_users.clone_from(&args.admin_users);
    }
    if !args.stats_users.is_empty() {
        file.stats_users.clone_from(&args.stats_users);
    }
    let (typed, pooling) = (&args.limits, &mut file.pooling);
    put(&mut pooling.size, typed.pool_size.map(usize::from));
    put(&mut pooling.mode, typed.pool_mode);
    put(&mut pooling.reads, typed.reads);
    let limits = &mut file.limits;
    put(&mut limits.max_clients, typed.max_clients.map(|most| most as usize));
    put(&mut limits.max_database_connections, typed.max_database_connections);
    put(&mut limits.max_user_connections, typed.max_user_connections);
    for (into, typed) in [
        (&mut limits.login_timeout, typed.login_timeout),
        (&mut limits.query_wait_timeout, typed.query_wait_timeout),
        (&mut limits.query_timeout, typed.query_timeout),
        (&mut limits.transaction_timeout, typed.transaction_timeout),
        (&mut limits.idle_transaction_timeout, typed.idle_transaction_timeout),
        (&mut limits.client_idle_timeout, typed.client_idle_timeout),
        (&mut limits.server_idle_timeout, typed.server_idle_timeout),
        (&mut limits.server_lifetime, typed.server_lifetime),
    ] {
        put(into, typed);
    }
}

/// Reads a connection string as libpq does.
fn resolve(dsn: &str, user: Option<&str>) -> Result<Resolved, String> {
    let Hosts { params, session_attributes, dbname } =
        ConnectParams::resolve_hosts(dsn, user).map_err(|error| error.to_string())?;
    let attributes = match session_attributes {
        None => Ok(walwright_gateway::SessionAttributes::Any),
        Some(text) => text.parse().map_err(|()| {
            format!("\"{text}\" is no value for target_session_attrs: any, read-write, read-only, primary, standby or prefer-standby")
        }),
    };
    let addresses: Vec<ConnectOptions> = params.iter().map(ConnectParams::wire_options).collect();
    let warnings = params.iter().flat_map(|params| params.warnings().to_vec());
    Ok(Resolved {
        server: Server { addresses, attributes: attributes? },
        dbname,
        warnings: warnings.collect(),
    })
}

/// The places of a server, for people.
pub fn places(server: &Server) -> String {
    let places: Vec<String> = server.addresses.iter().map(ConnectOptions::target).collect();
    places.join(", ")
}
