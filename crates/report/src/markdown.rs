//! The summary of a run as Markdown, for a ticket, a commit or a chat.

use std::fmt::Write;

use walwright_diagnose::{Diagnosis, Kind};
use walwright_figures::{NotObservable, Summary};
use walwright_record::Record;

use crate::{format, settings, words};

/// The summary as GitHub-flavoured Markdown.
pub fn summary(record: &Record, summary: &Summary, diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    line(&format!("## {}\n", escape(&words::title(record))));
    line(&format!("{}\n", escape(&words::deck(record))));
    if let Some((word, text)) = words::state(record) {
        line(&format!("**{word}.** {}\n", escape(&text)));
    }
    line("| | |");
    line("|---|---|");
    for (name, value) in figures(record, summary) {
        line(&format!("| {} | {} |", escape(&name), escape(&value)));
    }
    if let Some(mark) = summary.load.as_ref().and_then(|l| l.pass_mark.as_ref()) {
        let word = if mark.passed { "PASS" } else { "FAIL" };
        line(&format!("\n**{word}**: {}", words::pass_mark(mark)));
    }
    out.push_str(&time(summary));
    out.push_str(&findings(summary, diagnosis));
    out.push_str(&changed_settings(record));
    out.push_str(&warnings(summary));
    let header = &record.header;
    let _ = write!(
        out,
        "\nRun `{}` of {}, walwright {}: `{}`\n",
        header.id,
        format::moment(header.started),
        escape(&header.walwright_version),
        header.command.replace('`', "'")
    );
    out
}

/// The problems, a line each; the verdict where there are none.
fn findings(summary: &Summary, found: &Diagnosis) -> String {
    if summary.window.is_none() {
        return String::new();
    }
    let problems = found.findings.iter().filter(|f| f.kind == Kind::Problem);
    let lines: Vec<String> =
        problems.map(|f| format!("- {}\n", escape(&crate::diagnosis::line(f)))).collect();
    match lines.is_empty() {
        true => format!("\n{}\n", escape(&found.verdict)),
        false => format!("\nFindings:\n\n{}", lines.concat()),
    }
}

fn figures(record: &Record, summary: &Summary) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut push = |name: &str, value: Option<String>| {
        rows.push((name.to_owned(), value.unwrap_or_else(|| format::NOT_OBSERVABLE.to_owned())));
    };
    match &summary.load {
        Some(load) => {
            push("Throughput", load.throughput.as_ref().map(|t| format::estimate(t, "/s")));
            if let Some(open) = &load.open_loop {
                push("Offered rate", Some(format::rate(open.offered)));
            }
            if let (None, Some(mean)) = (&load.latency, load.mean_latency) {
                push("Latency", Some(words::mean_only(mean)));
            }
            if let Some(latency) = &load.latency {
                push("Latency, mean", Some(words::mean(latency)));
                for (name, value) in words::percentiles(latency) {
                    let value = value.unwrap_or_else(|| "too few transactions".to_owned());
                    push(&format!("Latency, {name}"), Some(value));
                }
            }
            let states: Vec<String> = load
                .failures
                .iter()
                .map(|(code, n)| format!("{code} {}", format::count(*n)))
                .collect();
            let of = words::failed_of(load);
            push(
                "Failed",
                Some(if states.is_empty() { of } else { format!("{of}: {}", states.join(", ")) }),
            );
        }
        None => {
            let server = summary.server_load.as_ref();
            if let Some((load, rate)) =
                server.and_then(|load| Some((load, load.commits_per_second.as_ref()?)))
            {
                let note = words::commits_note(load);
                push("Throughput", Some(format!("{}, {note}", format::estimate(rate, "/s"))));
            }
            push("Load", Some(words::no_load(record)));
        }
    }
    for totals in summary.client.iter().flat_map(words::client_totals) {
        push("Clients", Some(totals));
    }
    let wal = summary.wal.as_ref();
    let unit = wal.map_or("transaction", |w| w.unit.name());
    push(&format!("WAL per {unit}"), wal.and_then(|w| w.bytes_per_transaction).map(format::bytes));
    push(
        &format!("Flushes per {unit}"),
        wal.and_then(|w| w.flushes_per_transaction).map(format::number),
    );
    push(
        &format!("{unit}s per flush"),
        wal.and_then(|w| w.transactions_per_flush).map(format::number),
    );
    push("Mean time of a flush", wal.and_then(|w| w.mean_flush).map(format::latency));
    if let Some(used) = &summary.storage {
        push("The WAL's disk", Some(words::storage_use(used, summary.window)));
    }
    push("The data disk", summary.data_disk.as_ref().map(words::data_disk));
    push("Checkpoints completed", summary.checkpoints.as_ref().map(|c| format::count(c.completed)));
    for (name, seconds) in &record.side_measures {
        let name = format!("{}, {}", words::side_measure(name), words::SIDE_MEASURE);
        push(&name, Some(format::seconds(*seconds)));
    }
    rows
}

fn time(summary: &Summary) -> String {
    let Some(split) = &summary.time else {
        let why = summary.not_observable.iter().find(|n| n.figure == "time of a transaction");
        let said = |why: &NotObservable| {
            let unknown = format::NOT_OBSERVABLE;
            format!("\nWhere the time went: {unknown}, {}.\n", escape(&why.why.to_string()))
        };
        return why.map(said).unwrap_or_default();
    };
    if let Some(unseen) = split.unseen() {
        return format!("\nWhere the time went: {}.\n", escape(&unseen));
    }
    let mut out = format!("\n### Where the time of a {} went\n\n", split.unit.name());
    out.push_str("| | share | time | most of it |\n|---|---:|---:|---|\n");
    for part in &split.parts {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            part.class.label(),
            format::percent(part.share.center),
            format::seconds(part.per_transaction.center),
            part.events.first().map(|e| escape(&e.event)).unwrap_or_default()
        );
    }
    if let (Some(residual), Some(share)) = (&split.residual, split.residual_share) {
        let _ = writeln!(
            out,
            "| outside the transaction | {} | {} | |",
            format::percent(share),
            format::seconds(residual.center)
        );
    }
    out
}

fn changed_settings(record: &Record) -> String {
    let rows = settings::changed(record);
    if rows.is_empty() {
        return String::new();
    }
    let mut out =
        "\n### Settings that differ from the default\n\n| setting | value | default |\n|---|---|---|\n".to_owned();
    for (setting, default) in rows {
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            escape(&setting.name),
            escape(&setting.shown),
            escape(&default)
        );
    }
    out
}

fn warnings(summary: &Summary) -> String {
    if summary.warnings.is_empty() {
        return String::new();
    }
    let mut out = "\n### Warnings that go with every figure\n\n".to_owned();
    for warning in &summary.warnings {
        let hint = warning.hint.as_deref().map(|h| format!(" {}", words::sentence(h)));
        let text = format!("{}{}", words::sentence(&warning.text), hint.unwrap_or_default());
        let _ = writeln!(out, "- {}", escape(&text));
    }
    out
}

/// Text that Markdown shows as it is, also inside a table.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_text() {
        assert_eq!(escape("a|b <img> *x*\n"), "a\\|b &lt;img&gt; \\*x\\* ");
    }
}
