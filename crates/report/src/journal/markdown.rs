//! The journal as Markdown, to keep in a repository or paste into a ticket.

use walwright_record::journal::Entry;

use super::{change, grounds, grounds_of_entry, interval, level, machine, signed};
use crate::format;
use crate::html::STYLE;
use crate::markdown::escape;

/// A picture that goes into a file beside the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlotFile {
    /// Its name, which the text refers to.
    pub name: String,
    /// A whole SVG file.
    pub svg: String,
}

/// The entries in order, each under its question, and the pictures that the text refers
/// to as files in the directory `plots`; with `None` pictures are named, not shown.
pub fn markdown(entries: &[Entry], plots: Option<&str>) -> (String, Vec<PlotFile>) {
    let mut text = "# Journal\n".to_owned();
    let mut files = Vec::new();
    for entry in entries {
        text.push_str(&one(entry, entries, plots, &mut files));
    }
    (text, files)
}

fn one(entry: &Entry, all: &[Entry], plots: Option<&str>, files: &mut Vec<PlotFile>) -> String {
    let mut out = format!("\n## {}\n", escape(entry.question.trim()));
    let mut about = vec![
        format!("`{}`", entry.name()),
        format::moment(entry.at),
        entry.origin.words().to_owned(),
    ];
    about.extend(entry.machine.as_ref().map(|m| escape(&machine(m))));
    about.extend(entry.workload.as_ref().map(|w| format!("workload {}", escape(w))));
    section(&mut out, "About", &about.join(" · "));
    if let Some(corrected) = &entry.corrects {
        section(&mut out, "Corrects", &format!("`{corrected}`"));
    }
    let corrections: Vec<String> = all
        .iter()
        .filter(|other| entry.id.is_some() && other.corrects == entry.id)
        .map(|other| format!("`{}`", other.name()))
        .collect();
    section(&mut out, "Corrected by", &corrections.join(", "));
    let mut change_text = String::new();
    if let Some(baseline) = &entry.baseline {
        change_text.push_str(&format!("Against {}.\n", escape(baseline)));
    }
    for of in &entry.changes {
        change_text.push_str(&format!("\n- {}", escape(&change(of))));
    }
    section(&mut out, "Change", &change_text);
    section(&mut out, "Result", &paragraphs(entry.result.as_deref()));
    if !entry.effects.is_empty() {
        out.push_str("\n| What | Figure | Change | Interval | Verdict | Rests on |\n");
        out.push_str("|---|---|---:|---:|---|---|\n");
        for of in &entry.effects {
            let at = level(of).map(|level| format!(" ({level})")).unwrap_or_default();
            let level = format!("{}{at}", interval(of));
            out.push_str(&format!(
                "| {} | {} | {} | {level} | {} | {} |\n",
                escape(&of.arm),
                escape(&of.metric),
                signed(of.change),
                escape(&of.verdict),
                grounds(of)
            ));
        }
    }
    for (place, plot) in entry.plots.iter().enumerate() {
        let title = escape(&plot.title);
        match plots {
            Some(directory) => {
                let name = format!("{}-{}.svg", entry.name(), place + 1);
                out.push_str(&format!("\n![{title}](<{directory}/{name}>)\n"));
                files.push(PlotFile { name, svg: standalone(&plot.svg) });
            }
            None => out.push_str(&format!("\n*Plot: {title}.*\n")),
        }
    }
    section(&mut out, "Decision", &paragraphs(entry.decision.as_deref()));
    let class = entry.durability.map(|class| format!("class {class:?}: {}", class.words()));
    section(&mut out, "Durability", &class.unwrap_or_default());
    section(&mut out, "Next question", &paragraphs(entry.next_question.as_deref()));
    section(&mut out, "Notes", &paragraphs(entry.notes.as_deref()));
    section(&mut out, "Rests on", &escape(&grounds_of_entry(entry).unwrap_or_default()));
    out
}

/// A part of an entry under its name; one that says nothing is left out.
fn section(out: &mut String, heading: &str, text: &str) {
    let text = text.trim();
    if !text.is_empty() {
        // A list needs an empty line above it.
        let between = if text.starts_with("- ") { "\n\n" } else { " " };
        out.push_str(&format!("\n**{heading}.**{between}{text}\n"));
    }
}

/// Text of a person, line by line, so that its lines stay lines.
fn paragraphs(text: Option<&str>) -> String {
    let lines = text.unwrap_or_default().trim().lines();
    lines.map(|line| escape(line.trim_end())).collect::<Vec<_>>().join("\n")
}

/// A picture that needs neither page nor style beside it.
fn standalone(svg: &str) -> String {
    let named = if svg.contains("xmlns=") {
        svg.to_owned()
    } else {
        svg.replacen("<svg", r#"<svg xmlns="http://www.w3.org/2000/svg""#, 1)
    };
    match named.find('>') {
        Some(end) => {
            let (head, rest) = named.split_at(end + 1);
            format!("{head}<style><![CDATA[\n{STYLE}]]></style>{rest}\n")
        }
        None => named,
    }
}

#[cfg(test)]
mod tests {
    use walwright_record::journal::{EntryId, Plot};

    use super::*;
    use crate::journal::tests::sample;

    #[test]
    fn an_entry_reads_from_question_to_next_question() {
        let mut entry = sample();
        let plot =
            Plot { title: "Effects".to_owned(), svg: "<svg viewBox='0'><g/></svg>".to_owned() };
        entry.plots.push(plot);
        let mut correction = Entry::asking("Was that so?");
        correction.id = Some(EntryId("20261122-000000-zzz".to_owned()));
        correction.corrects = entry.id.clone();
        let all = [entry, correction];
        let (text, files) = markdown(&all, Some("j-plots"));
        let order = [
            "## Does a larger max\\_wal\\_size",
            "**Corrected by.** `20261122-000000-zzz`",
            "**Change.**\n\n- max\\_wal\\_size: 1GB → 8GB",
            "| +12.3 % | +10.1 % to +14.5 % (95 %) | proven |",
            "![Effects](<j-plots/20261121-070000-abc-1.svg>)",
            "**Decision.** Keep it.",
            "**Next question.**",
            "**Corrects.** `20261121-070000-abc`",
        ];
        let mut from = 0;
        for part in order {
            let at =
                text[from..].find(part).unwrap_or_else(|| panic!("{part} after {from}:\n{text}"));
            from += at;
        }
        assert!(files[0].svg.starts_with(r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox"#));
        assert!(files[0].svg.contains("--main") && files[0].svg.contains("<g/>"));
        let (text, files) = markdown(&all, None);
        assert!(files.is_empty() && text.contains("*Plot: Effects.*"));
    }

    #[test]
    fn a_table_keeps_its_cells_whatever_a_name_holds() {
        let mut entry = sample();
        entry.effects[0].arm = "a|b\n<img>".to_owned();
        let (text, _) = markdown(&[entry], None);
        assert!(text.contains("| a\\|b &lt;img&gt; |"), "{text}");
    }
}
