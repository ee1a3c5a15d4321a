//! `walwright ingest --http`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use walwright_ingest::{
    Admission, Counts, Destination, Endpoint, HttpLimits, Server, TlsFiles, server_config,
};
use walwright_server::Stop;

use super::{FAREWELL, embedded, options, progress};
use crate::args::IngestArgs;
use crate::output::{say, usage};

/// Takes rows until it is asked to stop, and answers what has come.
pub async fn serve(
    args: &IngestArgs,
    address: SocketAddr,
    server: &Server,
    counts: &Arc<Counts>,
    stop: &Stop,
) -> anyhow::Result<()> {
    let admission = match &args.http_token_file {
        None => Admission::by_tokens(""),
        Some(path) => tokens(path)?,
    };
    let files = args.http_tls_cert.clone().zip(args.http_tls_key.clone());
    let tls = files
        .map(|(certificate, key)| {
            let client_authorities = args.http_client_ca.clone();
            server_config(&TlsFiles { certificate, key, client_authorities })
        })
        .transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };

    let embedded = [embedded::TABLE.to_owned()];
    let names = if args.table.is_empty() { &embedded[..] } else { &args.table };
    let Some((first, others)) = names.split_first() else {
        return Err(usage("--table names no table"));
    };
    let mapping = options::mapping(args);
    let typed = options::options(args, server, None).await?;
    let mut tables = HashMap::new();
    let destination = Destination::connect(server, first, &mapping, typed).await?;
    let coalescer = destination.coalescer().clone();
    for name in others {
        tables.insert(name.clone(), destination.table(name, &mapping).await?);
    }
    tables.insert(first.clone(), destination);

    let limits = HttpLimits { body: args.http_longest_body as usize, time: args.http_body_time };
    let counts = Arc::clone(counts);
    let endpoint =
        Endpoint::bind(address, tls, admission, limits, tables, Arc::clone(&counts), stop).await?;
    let address = endpoint.address().context("the endpoint has no address")?;
    for name in names {
        say(&format!("listening on {scheme}://{address}/ingest/{name}"));
    }
    if args.embedded {
        let rows = r#"[{"id": 1, "kind": "click"}, {"id": 2}]"#;
        say(&format!(
            "send rows from another terminal:\n  curl -d '{rows}' {scheme}://{address}/ingest/{first}"
        ));
    }
    say(&format!("metrics at {scheme}://{address}/metrics; Ctrl-C ends it"));
    let shown = (!args.quiet).then(|| progress::show(counts, None));
    endpoint.serve(FAREWELL).await;
    drop(shown);
    coalescer.close(FAREWELL).await;
    Ok(())
}

fn tokens(path: &Path) -> anyhow::Result<Admission> {
    let lines = std::fs::read_to_string(path)
        .map_err(|error| usage(format!("--http-token-file {}: {error}", path.display())))?;
    let admission = Admission::by_tokens(&lines);
    if !admission.asks() {
        return Err(usage(format!("--http-token-file {} has no token", path.display())));
    }
    Ok(admission)
}
