//! `walwright ab`.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;
use serde_json::json;
use walwright_experiment::{
    Choices, Length, LoadOptions, Pair, ServerTable, SettingValue, Side, Visit,
};
use walwright_store::Lab;

use crate::args::{AbArgs, Cli};
use crate::commands::{command_line, experiment as experiments};
use crate::output::Output;

/// Makes an experiment of two groups of settings and does it.
pub fn execute(lab: &Lab, args: AbArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let [a, b] = sides(&args);
    let [a, b] = [Side::of(&a)?, Side::of(&b)?];
    let visit = Visit::from(args.visit);
    let pair = Pair {
        a,
        b,
        workload: args.workload.plan().into(),
        load: LoadOptions {
            clients: args.clients,
            duration: Some(Length(args.duration)),
            warmup: Some(args.warmup),
            ..args.load.options()
        },
        server: ServerTable {
            postgres: args.pg.map(SettingValue::Text),
            pg_bin: args.pg_bin,
            flush_latency: args.flush_latency.map(Length),
            tcp: args.tcp.then_some(true),
            ..ServerTable::default()
        },
        pairs: args.pairs.map(|pairs| pairs as usize),
        seed: args.seed,
        consent: args.consent,
    };
    let text = pair.plan().to_toml()?;
    if args.plan {
        output.result(&json!({ "plan": text }), || text.clone())?;
        return Ok(ExitCode::SUCCESS);
    }
    let choices = Choices {
        new: args.new,
        stop_when_clear: args.stop_when_clear,
        blocks: None,
        consent: Vec::new(),
        command: command_line::command_line(),
        visit,
        made_on: None,
    };
    experiments::begin(lab, &text, Path::new("."), &choices, args.view.style(), output)
}

/// The settings of A and of B; leaves with a usage error where there are not two sides.
fn sides(args: &AbArgs) -> [Vec<(String, String)>; 2] {
    let [a, b] = match &args.set[..] {
        [] => [args.a.clone(), args.b.clone()],
        [a, b] => [vec![a.clone()], vec![b.clone()]],
        _ => {
            let why = "--set is given twice: A's setting, then B's; for several on a side write --a NAME=VALUE and --b NAME=VALUE";
            crate::output::refuse(&Cli::command().error(ErrorKind::WrongNumberOfValues, why))
        }
    };
    if a == b {
        let why = "A and B are the same; give them different values";
        crate::output::refuse(&Cli::command().error(ErrorKind::ValueValidation, why));
    }
    [a, b]
}
