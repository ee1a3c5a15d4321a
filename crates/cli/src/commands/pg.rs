//! `walwright pg`: PostgreSQL installs.

use std::process::ExitCode;
use std::str::FromStr;

use serde_json::json;
use walwright_report::List;
use walwright_report::terminal::printable;
use walwright_server::{CheckState, FetchEvent, Installs, Major, doctor, system_installs};
use walwright_store::Lab;

use crate::args::PgCommand;
use crate::output::{Output, exit, print, say, usage};

/// Does what is asked of installs.
pub fn execute(lab: &Lab, command: PgCommand, output: &Output) -> anyhow::Result<ExitCode> {
    match command {
        PgCommand::List => list(output),
        PgCommand::Install { majors } => install(&majors, output),
        PgCommand::Doctor => examine(lab, output),
    }
}

fn list(output: &Output) -> anyhow::Result<ExitCode> {
    let cached = Installs::open(None)?.list();
    let system = system_installs();
    let mut rows: Vec<[String; 3]> = cached
        .iter()
        .map(|install| {
            let fetch = format!("walwright pg install {}", install.major);
            let (state, place) = match &install.present {
                Ok(true) => ("fetched".to_owned(), install.directory.display().to_string()),
                Ok(false) => ("can be fetched".to_owned(), fetch),
                Err(damage) => (format!("damaged: {damage}"), fetch),
            };
            [format!("PostgreSQL {} ({})", install.major, install.package), state, place]
        })
        .collect();
    rows.extend(system.iter().map(|install| {
        [
            format!("PostgreSQL {}", install.version()),
            "on the system".to_owned(),
            format!("--pg-bin {}", install.bin_dir().display()),
        ]
    }));
    let value: Vec<_> = rows
        .iter()
        .map(|[name, state, place]| json!({ "name": name, "state": state, "place": place }))
        .collect();
    output.list(&value, || {
        let mut list = List::new(["install", "state", "where, or how"]);
        rows.into_iter().for_each(|row| list.row(row));
        Ok(list)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn install(majors: &[String], output: &Output) -> anyhow::Result<ExitCode> {
    let majors: Vec<Major> = majors
        .iter()
        .map(|text| {
            Major::from_str(text)
                .map_err(|_| usage(format!("'{text}' is not one of 14, 15, 16, 17 and 18")))
        })
        .collect::<Result<_, _>>()?;
    let installs = Installs::open(None)?;
    let mut done = Vec::new();
    for major in majors {
        let install = installs.ensure(major, &mut |event: &FetchEvent| say(&event.to_string()))?;
        done.push(json!({
            "version": install.version().to_string(),
            "bin_dir": install.bin_dir(),
            "fallback_reason": install.fallback_reason(),
        }));
        if !output.json {
            print(&format!("{install} in {}\n", install.bin_dir().display()))?;
        }
    }
    if output.json {
        output.print_json(&done)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn examine(lab: &Lab, output: &Output) -> anyhow::Result<ExitCode> {
    let checks = doctor(None, Some(lab.directory()));
    let bad = checks.iter().any(|check| check.state == CheckState::Missing);
    let value: Vec<_> = checks
        .iter()
        .map(|check| {
            json!({
                "name": check.name,
                "state": state(check.state),
                "found": check.found,
                "meaning": check.meaning,
                "remedy": check.remedy,
            })
        })
        .collect();
    output.painted_result(&value, || {
        let mut text = String::new();
        for check in &checks {
            let (mark, colour) = match check.state {
                CheckState::Ok => ("ok     ", "\x1b[32m"),
                CheckState::Warning => ("warning", "\x1b[33m"),
                CheckState::Missing => ("missing", "\x1b[31m"),
            };
            let (on, off) = if output.colour { (colour, "\x1b[0m") } else { ("", "") };
            text.push_str(&format!(
                "{on}{mark}{off}  {}: {}\n",
                check.name,
                printable(&check.found)
            ));
            if let Some(remedy) = &check.remedy {
                text.push_str(&format!("         {}\n", printable(remedy)));
            }
        }
        text
    })?;
    Ok(if bad { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

fn state(state: CheckState) -> &'static str {
    match state {
        CheckState::Ok => "ok",
        CheckState::Warning => "warning",
        CheckState::Missing => "missing",
    }
}
