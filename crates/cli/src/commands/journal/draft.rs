//! A person's own entry, from arguments or from an editor.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use walwright_catalog::DurabilityClass;
use walwright_store::Lab;
use walwright_store::journal::{Change, Entry};

use crate::args::AddArgs;
use crate::output::usage;

/// Name of the file inside the lab that is edited. It stays until its entry is kept.
const FILE: &str = "journal.draft";

/// What is put before a person.
const TEMPLATE: &str = "\
# An entry of the journal. Fill in what there is to say below each heading, leave the
# rest empty. Lines that begin with # are left out; without a question nothing is kept.

[question]


# One change a line: max_wal_size = 1GB -> 8GB
[change]

[baseline]

[result]

[decision]

[next question]

[notes]

# Names of runs, one a line; `latest` is one.
[runs]

[workload]

# What the outcome can lose: S nothing, D committed data, X the cluster, E the
# environment, T time outside the window.
[class]
";

/// An entry whose runs are still the names that a person gave.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Draft {
    pub(super) entry: Entry,
    pub(super) runs: Vec<String>,
}

/// The draft that arguments make.
pub(super) fn of_arguments(args: AddArgs) -> anyhow::Result<Draft> {
    let changes = args.change.iter().map(|text| change(text)).collect::<anyhow::Result<_>>()?;
    let entry = Entry {
        changes,
        baseline: args.baseline,
        workload: args.workload,
        result: args.result,
        decision: args.decision,
        next_question: args.next,
        notes: args.notes,
        durability: args.class.as_deref().map(class).transpose()?,
        ..Entry::asking(args.question.unwrap_or_default())
    };
    Ok(Draft { entry, runs: args.run })
}

/// Opens an editor and reads what was written, with the file it is in. A draft that an
/// earlier start left is opened again.
pub(super) fn edited(lab: &Lab) -> anyhow::Result<(Draft, PathBuf)> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(usage("--question is needed where there is no terminal to open an editor on"));
    }
    let path = lab.directory().join(FILE);
    let cannot = || format!("cannot write {}", path.display());
    if !path.exists() {
        lab.write(&path, TEMPLATE.as_bytes()).with_context(cannot)?;
    }
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // An editor may be given with arguments, which a shell takes apart.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(&path)
        .status()
        .with_context(|| format!("cannot start the editor '{editor}'; set EDITOR"))?;
    if !status.success() {
        bail!(
            "the editor '{editor}' ended with {status}; your draft is kept in {}",
            path.display()
        );
    }
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let draft =
        parse(&text).with_context(|| format!("your draft is kept in {}", path.display()))?;
    if draft.entry.question.is_empty() {
        std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        return Err(usage("without a question nothing is kept"));
    }
    Ok((draft, path))
}

fn parse(text: &str) -> anyhow::Result<Draft> {
    let mut draft = Draft::default();
    let mut heading = String::new();
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().chain(["[]"]) {
        let trimmed = line.trim();
        match trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(next) => {
                take(&mut draft, &heading, lines.join("\n").trim())?;
                next.trim().to_lowercase().clone_into(&mut heading);
                lines.clear();
            }
            None if trimmed.starts_with('#') => {}
            None => lines.push(line.trim_end()),
        }
    }
    Ok(draft)
}

fn take(draft: &mut Draft, heading: &str, text: &str) -> anyhow::Result<()> {
    let entry = &mut draft.entry;
    if text.is_empty() {
        return Ok(());
    }
    let whole = Some(text.to_owned());
    let each = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    match heading {
        "question" => entry.question = each().collect::<Vec<_>>().join(" "),
        "change" => entry.changes = each().map(change).collect::<anyhow::Result<_>>()?,
        "baseline" => entry.baseline = whole,
        "result" => entry.result = whole,
        "decision" => entry.decision = whole,
        "next question" => entry.next_question = whole,
        "notes" => entry.notes = whole,
        "runs" => draft.runs = each().map(str::to_owned).collect(),
        "workload" => entry.workload = whole,
        "class" => entry.durability = Some(class(text)?),
        "" => bail!("'{text}' stands above the first heading, where it belongs to nothing"),
        other => bail!("[{other}] is no heading of an entry"),
    }
    Ok(())
}

/// Reads `NAME=TO` and `NAME=FROM->TO`.
fn change(text: &str) -> anyhow::Result<Change> {
    let (name, values) =
        text.split_once('=').filter(|(name, _)| !name.trim().is_empty()).ok_or_else(|| {
            usage(format!("'{text}' is not a change: write NAME=TO or NAME=FROM->TO"))
        })?;
    let (from, to) = match values.split_once("->") {
        Some((from, to)) => (from.trim(), to.trim()),
        None => ("", values.trim()),
    };
    let known = |value: &str| (!value.is_empty()).then(|| value.to_owned());
    Ok(Change { name: name.trim().to_owned(), from: known(from), to: known(to) })
}

fn class(text: &str) -> anyhow::Result<DurabilityClass> {
    Ok(match text.trim().to_ascii_uppercase().as_str() {
        "S" => DurabilityClass::S,
        "D" => DurabilityClass::D,
        "X" => DurabilityClass::X,
        "E" => DurabilityClass::E,
        "T" => DurabilityClass::T,
        other => {
            return Err(usage(format!("'{other}' is not a durability class: S, D, X, E or T")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untouched_template_has_no_question_and_nothing_else() {
        assert_eq!(parse(TEMPLATE).unwrap(), Draft::default());
    }

    #[test]
    fn every_heading_of_the_template_takes_what_is_written_below_it() {
        let filled: String = TEMPLATE
            .lines()
            .map(|line| match line {
                "[change]" => "[change]\nmax_wal_size = 1GB -> 8GB\nfsync_probe = on\n".to_owned(),
                "[class]" => "[class]\n d \n".to_owned(),
                "[runs]" => "[runs]\nlatest\n\nabc\n".to_owned(),
                heading if heading.starts_with('[') => format!("{heading}\nof\n{heading}.\n"),
                other => format!("{other}\n"),
            })
            .collect();
        let filled = filled.replace("of\n[", "of\n(");
        let draft = parse(&filled).unwrap();
        let entry = draft.entry;
        assert_eq!(entry.question, "of (question].");
        assert_eq!(entry.changes.len(), 2);
        assert_eq!(entry.changes[0].from.as_deref(), Some("1GB"));
        assert_eq!(
            (entry.changes[1].from.as_deref(), entry.changes[1].to.as_deref()),
            (None, Some("on"))
        );
        assert_eq!(entry.durability, Some(DurabilityClass::D));
        assert_eq!(draft.runs, ["latest", "abc"]);
        let texts = [
            entry.baseline,
            entry.result,
            entry.decision,
            entry.next_question,
            entry.notes,
            entry.workload,
        ];
        assert!(texts.iter().all(Option::is_some), "{texts:?}");
    }

    #[test]
    fn what_belongs_nowhere_is_refused_not_lost() {
        assert!(parse("lost words\n[question]\nwhy").is_err());
        assert!(parse("[question]\nwhy\n[mood]\ngood").is_err());
        assert!(change("no value").is_err() && change("=x").is_err());
        assert!(class("Q").is_err());
    }
}
