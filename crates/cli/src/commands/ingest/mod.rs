//! `walwright ingest`.

mod embedded;
mod http;
mod options;
mod progress;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use walwright_ingest::{
    Counts, Destination, Format, Input, Reading, Rejects, Server, Summary, feed, source,
};
use walwright_report::format;
use walwright_server::{ConnectParams, Stop};

use crate::args::{FormatChoice, IngestArgs};
use crate::commands::runtime::{Parting, until_done};
use crate::output::{Output, exit, say, usage};

/// How long what was read may take to be durable at the end.
const FAREWELL: Duration = Duration::from_secs(60);

/// Reads the inputs, and tells what became of their rows.
pub fn execute(args: IngestArgs, output: &Output) -> anyhow::Result<ExitCode> {
    options::check(&args)?;
    let output = *output;
    until_done(Parting::WRITING, async |stop| {
        let counts = Arc::new(Counts::default());
        let done = with_server(&args, &counts, &stop).await;
        let (Ok(elapsed) | Err((elapsed, _))) = &done;
        let summary = counts.summary(*elapsed);
        if let Err((_, error)) = done {
            if summary.rows > 0 {
                say(&text(&summary, &args));
            }
            return Ok(output.fail(&error));
        }
        output.result(&summary, || text(&summary, &args))?;
        // Whoever sent rows by HTTP was told what became of them.
        Ok(if args.http.is_some() { ExitCode::SUCCESS } else { code(&summary) })
    })?
}

/// Ingests, and tells how long that took; a demonstration has a server for as long.
async fn with_server(
    args: &IngestArgs,
    counts: &Arc<Counts>,
    stop: &Stop,
) -> Result<Duration, (Duration, anyhow::Error)> {
    let mut embedded = None;
    let hosts = match &args.dsn {
        Some(dsn) => ConnectParams::resolve_hosts(dsn.expose(), None).map_err(anyhow::Error::from),
        None => embedded::start().await.map(|(server, hosts)| {
            embedded = Some(server);
            hosts
        }),
    };
    let began = Instant::now();
    let done = match hosts {
        Err(error) => Err(error),
        Ok(hosts) => match Server::of(&hosts) {
            Err(error) => Err(error.into()),
            Ok(server) => {
                for warning in hosts.params.iter().flat_map(ConnectParams::warnings) {
                    say(&format!("warning: {warning}"));
                }
                match args.http {
                    Some(address) => http::serve(args, address, &server, counts, stop).await,
                    None => ingest(args, &server, counts, stop).await,
                }
            }
        },
    };
    let elapsed = began.elapsed();
    // It stops its server, and waits for that.
    _ = tokio::task::spawn_blocking(move || drop(embedded)).await;
    done.map(|()| elapsed).map_err(|error| (elapsed, error))
}

async fn ingest(
    args: &IngestArgs,
    server: &Server,
    counts: &Arc<Counts>,
    stop: &Stop,
) -> anyhow::Result<()> {
    let table = args.table.first().map_or(embedded::TABLE, String::as_str);
    let inputs = inputs(args)?;
    let rejects = rejects(args, &inputs)?;
    if inputs.iter().any(Input::is_terminal) {
        say("rows are read from this terminal, one a line; Ctrl-D ends them");
    }
    let total = inputs.iter().map(Input::size).sum::<Option<u64>>();
    let _progress = (!args.quiet).then(|| progress::show(Arc::clone(counts), total));
    for mut input in inputs {
        if stop.is_requested() {
            counts.note(format!("{} is not read", input.name));
            continue;
        }
        let source = match args.no_resume {
            true => None,
            false => source(server, options::LANES, table, &mut input).await?,
        };
        let reading = Reading {
            format: format_of(args.format, &input),
            longest: args.longest_row as usize,
            ahead: 2 * args.batch_rows as usize * usize::from(args.connections),
            resumes: source.is_some(),
            farewell: FAREWELL,
        };
        let options = options::options(args, server, source).await?;
        let mapping = options::mapping(args);
        let destination = Destination::connect(server, table, &mapping, options).await?;
        feed(input, reading, destination, rejects.as_ref(), counts, stop).await?;
    }
    Ok(())
}

/// What is typed, opened before anything is written.
fn inputs(args: &IngestArgs) -> anyhow::Result<Vec<Input>> {
    let stdin = || Input::stdin().map_err(|error| usage(format!("standard input: {error}")));
    let files = &args.files;
    if files.is_empty() {
        return Ok(vec![if args.embedded { embedded::rows(args.rows)? } else { stdin()? }]);
    }
    let open = |path: &PathBuf| match path == Path::new("-") {
        true => stdin(),
        false => Ok(Input::file(path)?),
    };
    files.iter().map(open).collect()
}

/// Opens the file for rejects, which holds rows of one format.
fn rejects(args: &IngestArgs, inputs: &[Input]) -> anyhow::Result<Option<Arc<Rejects>>> {
    let Some(path) = &args.rejects else { return Ok(None) };
    let formats = || inputs.iter().map(|input| format_of(args.format, input));
    if formats().zip(formats().skip(1)).any(|(one, next)| one != next) {
        return Err(usage(
            "files of several formats cannot share --rejects: ingest them one by one",
        ));
    }
    let is_input = |real: PathBuf| inputs.iter().any(|input| Path::new(&input.name) == real);
    if path.canonicalize().is_ok_and(is_input) {
        return Err(usage(format!(
            "{} is read, and cannot take the rejects too: name another file with --rejects",
            path.display()
        )));
    }
    Ok(Some(Arc::new(Rejects::open(path)?)))
}

fn format_of(choice: Option<FormatChoice>, input: &Input) -> Format {
    match choice {
        Some(FormatChoice::Ndjson) => Format::Ndjson,
        Some(FormatChoice::Csv) => Format::Csv,
        Some(FormatChoice::Text) => Format::Text,
        None => Format::of_name(Path::new(&input.name)).unwrap_or(Format::Ndjson),
    }
}

fn code(summary: &Summary) -> ExitCode {
    match summary {
        Summary { unknown: 1.., .. } | Summary { failed: 1.., .. } => ExitCode::from(exit::FAILED),
        Summary { rejected: 1.., .. } => ExitCode::from(exit::CHECK_FAILED),
        _ => ExitCode::SUCCESS,
    }
}

/// The summary for people.
fn text(summary: &Summary, args: &IngestArgs) -> String {
    let mut text = format!(
        "{} written to {} in {}: {}, {}\n",
        format::counted(summary.written, "row"),
        if args.table.is_empty() { embedded::TABLE.to_owned() } else { args.table.join(", ") },
        format::length(summary.elapsed),
        format::rate_of(summary.rows_per_second, "row"),
        format::byte_rate(summary.bytes as f64 / summary.elapsed.as_secs_f64().max(1e-6)),
    );
    let latency = &summary.latency;
    let percentiles = [
        ("p50", latency.p50),
        ("p95", latency.p95),
        ("p99", latency.p99),
        ("p99.9", latency.p999),
        ("longest", latency.max),
    ];
    let percentiles: Vec<String> = percentiles
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name} {}", format::latency(value?))))
        .collect();
    if !percentiles.is_empty() {
        text.push_str(&format!("from reading a row to its answer: {}\n", percentiles.join(", ")));
    }
    for (count, what) in [
        (summary.written_before, "had been written, or were kept as rejects, before"),
        (summary.rejected, "rejected"),
        (summary.unknown, "of which it is not known whether they are written"),
        (summary.failed, "not written"),
    ] {
        if count > 0 {
            text.push_str(&format!("{} {what}\n", format::counted(count, "row")));
        }
    }
    for note in &summary.notes {
        text.push_str(&format!("{note}\n"));
    }
    for told in &summary.told {
        text.push_str(&format!("  {told}\n"));
    }
    if let Some(path) = args.rejects.as_deref().filter(|_| summary.rejected > 0) {
        let path = path.display();
        text.push_str(&format!("they are in {path}, and why in {path}.reasons\n"));
    }
    text
}
