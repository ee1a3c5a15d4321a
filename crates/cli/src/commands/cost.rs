//! `walwright cost`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use walwright_cost::{Capacity, Cost, EXAMPLE, Machine, PriceList, Terms};
use walwright_figures::summary;
use walwright_record::RunHeader;
use walwright_store::{Lab, Store};

use crate::args::CostArgs;
use crate::commands::{named, write};
use crate::output::{Output, print};

/// Prints what the rates of runs cost.
pub fn execute(lab: &Lab, args: &CostArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let path = match &args.prices {
        Some(path) if !args.example => path,
        _ => {
            print(EXAMPLE)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the prices in {}", path.display()))?;
    let prices = || format!("the prices in {}", path.display());
    let list = PriceList::read(&text).with_context(prices)?;
    let terms = Terms { utilisation: args.utilisation, rate: args.rate };
    let store = named::store(lab)?;
    let mut costs = Vec::new();
    for (name, headers) in groups(lab, &store, &args.runs)? {
        let capacity = capacity(&store, name, &headers, args)?;
        let instance = args.instance.as_deref();
        costs.push(Cost::of(capacity, &list, instance, terms).with_context(prices)?);
    }
    walwright_cost::smaller(&mut costs, &list, args.instance.as_deref());
    let page = walwright_report::cost(&costs, &list);
    if let Some(path) = &args.html {
        write::write_file(path, &page.html())?;
    }
    output.painted_result(&costs, || page.terminal(&output.style()))?;
    Ok(ExitCode::SUCCESS)
}

/// The runs of each name; an experiment's by its arms, the baseline first.
fn groups(
    lab: &Lab,
    store: &Store,
    names: &[String],
) -> anyhow::Result<Vec<(String, Vec<RunHeader>)>> {
    let mut groups: Vec<(String, Vec<RunHeader>)> = Vec::new();
    for name in names {
        let first = groups.len();
        for run in named::named(lab, store, name)?.measured() {
            let called = run.arm().unwrap_or(name).to_owned();
            match groups[first..].iter_mut().find(|(of, _)| *of == called) {
                Some((_, runs)) => runs.push(run),
                None => groups.push((called, vec![run])),
            }
        }
        if groups.len() == first {
            bail!("no run of '{name}' is complete; `walwright runs list` lists them");
        }
        groups[first..].sort_by_key(|(of, _)| of != "baseline");
    }
    Ok(groups)
}

fn capacity(
    store: &Store,
    name: String,
    headers: &[RunHeader],
    args: &CostArgs,
) -> anyhow::Result<Capacity> {
    let mut summaries = Vec::new();
    let mut machines = Vec::new();
    for header in headers {
        let record = store.load(&header.id)?;
        machines.push(Machine::of(&record));
        summaries.push(summary(&record));
    }
    Ok(Capacity::of(name, &summaries, args.p99, &machines)?)
}
