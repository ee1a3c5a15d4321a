//! `walwright serve`: what can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

const HELP: &str = "\
Examples:
  walwright serve                                    the lab's pages at http://127.0.0.1:8088/
  walwright serve --allow-actions                    and start and stop runs, label them, prove findings
  walwright serve --listen 0.0.0.0:8088 --token-file ~/.walwright-token --name lab.example.com
  ssh -L 8088:127.0.0.1:8088 lab                     from another machine, nothing opened

Pages: / the runs, /runs/latest the last one (live while it goes on), /compare?run=A&run=B up to four
beside each other, /experiments and /tunes with what remains of those that go on, /journal, /jobs,
/gateway.

On loopback anybody on this machine may read; --token-file closes that too. Elsewhere, and for what
--allow-actions allows, a token is needed: the address that is printed brings it, the browser keeps
it in a cookie; programs send `Authorization: Bearer TOKEN`. Nothing is encrypted: across a network
use ssh as above, or a proxy with TLS.

SIGTERM and SIGINT (Ctrl-C) end it, and ask what was started here to stop as Ctrl-C would.";

/// `walwright serve`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct ServeArgs {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8088")]
    pub listen: SocketAddr,
    /// Allow what changes something: starting and stopping runs, labels, notes, proofs.
    #[arg(long)]
    pub allow_actions: bool,
    /// File that holds the token. It is asked for everywhere then, on loopback too.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Where a gateway shows its metrics (`walwright gateway --metrics`), for a page of it.
    #[arg(long, value_name = "http://HOST:PORT/metrics")]
    pub gateway: Option<walwright_http::PageAddress>,
    /// A name by which browsers reach it, beside localhost and addresses; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
}
