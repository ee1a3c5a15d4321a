//! `walwright serve`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use walwright_serve::{Admission, Options, Program, Site, Token};
use walwright_store::Lab;

use crate::args::ServeArgs;
use crate::commands::runtime::{Parting, until_done};
use crate::output::{say, usage};

/// How long what has come may take to be answered at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Most of one processor that watching one thing may take.
const SHARE: f64 = 0.005;

/// Serves until a signal.
pub fn execute(lab: &Lab, args: ServeArgs) -> anyhow::Result<ExitCode> {
    if lab.existing_store()?.is_none() {
        bail!(
            "there is no lab in {}: `walwright run` makes one, --lab names another",
            lab.directory().display()
        );
    }
    let reading = args.token_file.is_some() || !args.listen.ip().is_loopback();
    let token = match &args.token_file {
        Some(path) => Some(token(path)?),
        None => (reading || args.allow_actions).then(Token::random),
    };
    let file = std::env::current_exe().context("cannot find walwright's own program file")?;
    let program = Program { file, words: vec!["--lab".into(), lab.directory().into()] };
    let workloads = walwright_workload::workload::builtin_names().map(str::to_owned).collect();
    let gateway = args.gateway.clone().map(|address| address.or_path("metrics"));
    let served = until_done(Parting::WORKING, async |stop| -> anyhow::Result<()> {
        let listener = Site::listen(args.listen).await?;
        let address = listener.local_addr()?;
        let admission = Admission::new(
            address.port(),
            token.as_ref(),
            reading,
            args.allow_actions,
            args.name.clone(),
        );
        let options =
            Options { lab: lab.clone(), admission, program, workloads, share: SHARE, gateway };
        let site = Site::new(listener, options);
        let at = format!("http://{address}/");
        // The token of a file is not repeated: what is printed may be kept in a log.
        let at = match &token {
            Some(token) if args.token_file.is_none() => token.address(&at),
            _ => at,
        };
        say(&format!("the lab is at {at}; Ctrl-C ends it"));
        site.serve(stop.requested(), FAREWELL).await;
        Ok(())
    })?;
    served.map(|()| ExitCode::SUCCESS)
}

/// The token in a file.
fn token(path: &Path) -> anyhow::Result<Token> {
    let wrong = |why: String| usage(format!("--token-file {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Token::chosen(first).map_err(|error| wrong(error.to_string()))
}
