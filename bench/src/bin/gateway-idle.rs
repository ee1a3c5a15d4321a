//! What idle clients cost the gateway.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::json;
use walwright_bench::{Report, Testbed, Walwright, cpu_time, resident_bytes};
use walwright_server::PoolerProgram;

/// Memory and CPU of a gateway with idle clients, each of which has run a statement before.
#[derive(Parser)]
struct Cli {
    /// Clients.
    #[arg(long, default_value_t = 10_000)]
    clients: u32,
    /// Seconds in which they do nothing.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Bytes a client that are promised.
const BYTES: f64 = 25e3;
/// Part of a processor that counts as none.
const NO_CPU: f64 = 0.001;

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let testbed = Testbed::start(1, &[])?;
    let program = PoolerProgram::Gateway(Walwright::find()?.program().to_owned());
    let gateway = testbed.pooler(program, cli.clients)?;
    let socket = gateway.connect_params().socket_path().context("not on a unix socket")?;
    drop(connected(&socket)?);
    let before = resident_bytes(gateway.pid())?;
    let mut clients = Vec::new();
    for _ in 0..cli.clients {
        clients.push(connected(&socket)?);
    }
    let bytes = (resident_bytes(gateway.pid())? - before) / f64::from(cli.clients);
    let used = cpu_time(gateway.pid())?;
    std::thread::sleep(Duration::from_secs(cli.seconds));
    let used = cpu_time(gateway.pid())? - used;
    let part = used.as_secs_f64() / cli.seconds as f64;
    // All are still served.
    for client in &mut clients {
        ask(client)?;
    }
    let mut report = Report::new(&format!("{} idle clients on a unix socket", cli.clients));
    report.bar(
        "resident memory a client",
        format!("{:.1} kB", bytes / 1e3),
        json!(bytes),
        "<= 25 kB",
        bytes <= BYTES,
    );
    report.bar(
        &format!("CPU in {} s of doing nothing", cli.seconds),
        format!("{:.0} ms, {:.2} % of a processor", used.as_secs_f64() * 1e3, part * 100.0),
        json!(part),
        "none",
        part < NO_CPU,
    );
    Ok(report.print(cli.json))
}

/// A client that has logged in and asked once.
fn connected(socket: &Path) -> anyhow::Result<UnixStream> {
    let mut client = UnixStream::connect(socket)?;
    let parameters = b"user\0postgres\0database\0postgres\0\0";
    let mut startup = ((parameters.len() + 8) as u32).to_be_bytes().to_vec();
    startup.extend([0, 3, 0, 0]);
    startup.extend(parameters);
    client.write_all(&startup)?;
    until_ready(&mut client)?;
    ask(&mut client)?;
    Ok(client)
}

fn ask(client: &mut UnixStream) -> anyhow::Result<()> {
    client.write_all(b"Q\0\0\0\x0dSELECT 1\0")?;
    until_ready(client)
}

fn until_ready(client: &mut UnixStream) -> anyhow::Result<()> {
    loop {
        let mut head = [0; 5];
        client.read_exact(&mut head)?;
        let [tag, length @ ..] = head;
        let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
        client.read_exact(&mut body)?;
        match tag {
            b'Z' => return Ok(()),
            b'E' => bail!("a client is refused: {}", String::from_utf8_lossy(&body)),
            _ => {}
        }
    }
}
