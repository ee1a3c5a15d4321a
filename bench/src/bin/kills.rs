//! Whether an attached server is as it was after walwright was killed at random moments.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use walwright_bench::{Kill, Kills, Report};
use walwright_server::{Installs, Major, Places};

/// walwright is killed (SIGKILL) while it applies a profile, rolls one back, does an
/// experiment or a tune on an attached server, alone, from two labs at once, or while the
/// server's owner restarts it. Then `walwright config rollback` undoes what is left, in each
/// lab until nothing is, and the server is compared with what it was: postgresql.auto.conf byte
/// for byte, settings with their source and line, roles, relations, indexes, statistics resets,
/// and that no session and no lock of walwright's is left.
#[derive(Parser)]
struct Cli {
    /// Kills.
    #[arg(long, default_value_t = 200)]
    cycles: usize,
    /// Decides what is killed, and when.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tells what was said by those that failed before they were killed.
    #[arg(long)]
    verbose: bool,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let program = std::env::current_exe()?.with_file_name("walwright");
    anyhow::ensure!(program.exists(), "{} is not built", program.display());
    let place = tempfile::tempdir_in("/var/tmp").context("a directory on a real disk")?;
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755))?;
    let places = Places::open(Some(place.path().join("cache")))?;
    let install = Installs::open(None)?.ensure(Major::V18, &mut |_| {})?;
    let walwright = move |lab: &std::path::Path, args: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("--lab").arg(lab).args(args);
        command
    };
    let mut kills = Kills::new(&places, install, place.path(), cli.seed, Box::new(walwright))?;
    let mut report = Report::new(&format!("{} kills, seed {}", cli.cycles, cli.seed));
    let mut counts: BTreeMap<Kill, [usize; 5]> = BTreeMap::new();
    let first = cli.seed as usize;
    for number in 0..cli.cycles {
        let kind = Kill::ALL[(first + number) % Kill::ALL.len()];
        let cycle = kills.cycle(kind)?;
        let [all, rolled_back, different, ended, cut] = counts.entry(kind).or_default();
        *all += 1;
        *rolled_back += cycle.rolled_back;
        *different += usize::from(!cycle.differences.is_empty());
        *cut += cycle.cut;
        *ended += usize::from(!cycle.ended.is_empty());
        for line in cycle.ended.iter().filter(|_| cli.verbose) {
            eprintln!("cycle {}, {kind:?}, not killed: {line}", number + 1);
        }
        for line in &cycle.differences {
            eprintln!("cycle {}, {kind:?}: {line}", number + 1);
        }
    }
    for (kind, [all, rolled_back, different, ended, cut]) in &counts {
        report.figure(
            &format!("{kind:?}"),
            format!("{all}, of which {ended} failed before; {cut} rollbacks killed; {rolled_back} sets rolled back; {different} different"),
            json!({ "cycles": all, "failed_before": ended, "rollbacks_killed": cut, "rolled_back": rolled_back, "different": different }),
        );
    }
    let different: usize = counts.values().map(|[_, _, different, _, _]| different).sum();
    let identical = cli.cycles - different;
    report.bar(
        "identical after rollback",
        format!("{identical} of {}", cli.cycles),
        json!(identical),
        "all",
        different == 0,
    );
    Ok(report.print(cli.json))
}
