//! `walwright config rollback`.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;
use walwright_config::{Hold, Restart, Undone, undo_changes};
use walwright_server::ConnectParams;
use walwright_store::Lab;
use walwright_store::ledger::{Change, ChangeSet, Ledger, State};

use crate::args::RollbackArgs;
use crate::commands::runtime::runtime;
use crate::output::{Output, exit, wrapped};

/// Undoes a change set, or lists them.
pub fn execute(lab: &Lab, args: &RollbackArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let ledger = Ledger::of(lab);
    if args.list {
        return list(&ledger, output);
    }
    let set = match args.id {
        Some(id) => ledger.set(id)?.with_context(|| {
            format!("there is no change set {id}: walwright config rollback --list shows them")
        })?,
        None => match ledger.next_to_undo()? {
            Some(set) => set,
            None => {
                if let Some(set) = ledger.sets()?.into_iter().find(ChangeSet::is_in_progress) {
                    bail!(
                        "change set {} ({}) is in progress in process {}, and there is no other to undo: wait for it, or end it first",
                        set.id,
                        set.intent.purpose,
                        set.pid()
                    );
                }
                output.result(&json!({ "undone": null }), || "Nothing to undo.\n".to_owned())?;
                return Ok(ExitCode::SUCCESS);
            }
        },
    };
    let settings = set.intent.changes.iter().any(|c| !matches!(c, Change::Kernel { .. }));
    let runtime = runtime()?;
    let mut hold = match (&args.dsn, settings) {
        (Some(dsn), _) => Some(Hold::of(&ConnectParams::resolve(Some(dsn.expose()))?)),
        (None, false) => None,
        (None, true) => {
            let server = set.intent.server.as_ref().map_or("a server", |s| s.address.as_str());
            bail!("change set {} changed {server}: name it with --dsn", set.id)
        }
    };
    let mut restart = match &args.restart_command {
        Some(command) => Restart::Command(command.clone()),
        None => Restart::Never,
    };
    let undone = runtime.block_on(undo_changes(&ledger, &set, hold.as_mut(), &mut restart))?;
    let body = json!({
        "id": set.id,
        "restored": undone.restored,
        "restarted": undone.restarted,
        "waiting_for_restart": undone.waiting,
        "notes": undone.notes,
        "left": undone.left,
        "file": undone.file,
    });
    output.result(&body, || text(&set, &undone))?;
    match undone.left.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::from(exit::LEFT)),
    }
}

fn text(set: &ChangeSet, undone: &Undone) -> String {
    let but = match undone.left.as_slice() {
        [] => String::new(),
        names => format!(", but for {}", names.join(", ")),
    };
    let mut out = match undone.restored.as_slice() {
        [] if undone.notes.is_empty() && undone.waiting.is_empty() => {
            format!("Change set {}: everything is as it was before.\n", set.id)
        }
        [] => wrapped(&format!("Change set {} is undone{but}.", set.id), ""),
        names => wrapped(
            &format!("Change set {} is undone{but}: {} as before.", set.id, names.join(", ")),
            "",
        ),
    };
    for note in undone.notes.iter().chain(&undone.file) {
        out.push_str(&wrapped(note, "  "));
    }
    if !undone.waiting.is_empty() {
        out.push_str(&wrapped(
            &format!("Takes effect after a server restart: {}.", undone.waiting.join(", ")),
            "",
        ));
    }
    out
}

fn list(ledger: &Ledger, output: &Output) -> anyhow::Result<ExitCode> {
    let sets = ledger.sets()?;
    let body: Vec<serde_json::Value> = sets
        .iter()
        .map(|set| {
            json!({
                "id": set.id,
                "at": set.at,
                "purpose": set.intent.purpose,
                "server": set.intent.server,
                "changes": set.intent.changes,
                "state": state(set),
                "left": left(set),
            })
        })
        .collect();
    output.result(&body, || {
        let mut out = String::new();
        if sets.is_empty() {
            out.push_str("No changes were made.\n");
        }
        for set in &sets {
            let server = set.intent.server.as_ref().map_or("this machine", |s| s.address.as_str());
            let _ =
                writeln!(out, "{:>4}  {}  {}  {server}", set.id, state(set), set.intent.purpose);
            if let [_, ..] = left(set) {
                let names = left(set).join(", ");
                let _ = writeln!(out, "        not undone, changed by others since: {names}");
            }
            for change in &set.intent.changes {
                let _ = writeln!(out, "        {}", shown(change));
            }
        }
        out
    })?;
    Ok(ExitCode::SUCCESS)
}

fn state(set: &ChangeSet) -> &'static str {
    match &set.state {
        State::Undone { left, .. } if left.is_empty() => "undone",
        State::Undone { .. } => "undone in part",
        _ if set.is_in_progress() => "in progress",
        State::Begun => "cut short",
        State::Done => "done",
    }
}

/// What was left of a set when it was undone.
fn left(set: &ChangeSet) -> &[String] {
    match &set.state {
        State::Undone { left, .. } => left,
        _ => &[],
    }
}

fn shown(change: &Change) -> String {
    match change {
        Change::Setting { name, before, after, .. } => {
            let said = |value: &Option<String>| {
                value.clone().unwrap_or_else(|| "not set by ALTER SYSTEM".to_owned())
            };
            format!("{name}: {} -> {}", said(before), said(after))
        }
        // Not changed by the set itself.
        Change::Kernel { name, before, after, .. } if before == after => {
            format!("{name}: {before}, noted since another change sets it anew")
        }
        Change::Kernel { name, before, after, .. } => format!("{name}: {before} -> {after}"),
        Change::Statement { sql, undo, .. } => format!("{sql}; undone by {undo}"),
    }
}
