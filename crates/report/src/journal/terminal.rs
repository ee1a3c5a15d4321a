//! The journal on a terminal: the list, and one entry.

use walwright_record::journal::Entry;

use super::{change, effect, grounds_of_entry, machine, outcome};
use crate::format;
use crate::terminal::Style;
use crate::terminal::printable::one_line;
use crate::terminal::style::Ansi;

/// Columns of the names at the left of an entry.
const NAMES: usize = 15;

/// All entries, newest last, each with its question and what came out.
pub fn list(entries: &[Entry], style: &Style) -> String {
    let mut lines = Vec::new();
    for entry in entries {
        let about = [Some(entry.origin.words().to_owned()), entry.workload.clone()];
        let about = about.into_iter().flatten().collect::<Vec<_>>().join(", ");
        lines.push(format!(
            "{}  {}  {}",
            style.paint(Ansi::Bold, entry.name()),
            style.paint(Ansi::Faint, &format::moment(entry.at)),
            style.paint(Ansi::Faint, &one_line(&about))
        ));
        let mut hang = |text: &str, ansi: Option<Ansi>| {
            for line in style.wrap(text, 2) {
                let line = ansi.map_or_else(|| line.clone(), |ansi| style.paint(ansi, &line));
                lines.push(format!("  {line}"));
            }
        };
        hang(&entry.question, None);
        let outcome = outcome(entry);
        if !outcome.is_empty() {
            hang(&format!("→ {outcome}"), Some(Ansi::Faint));
        }
        if let Some(corrected) = &entry.corrects {
            hang(&format!("corrects {corrected}"), Some(Ansi::Yellow));
        }
        let later = entries.iter().find(|other| entry.id.is_some() && other.corrects == entry.id);
        if let Some(later) = later {
            hang(&format!("corrected by {}", later.name()), Some(Ansi::Yellow));
        }
    }
    style.finish(&lines)
}

/// One entry, whole; `corrections` are the entries that correct it.
pub fn entry(of: &Entry, corrections: &[&Entry], style: &Style) -> String {
    let mut lines: Vec<String> =
        style.wrap(of.question.trim(), 0).iter().map(|l| style.paint(Ansi::Bold, l)).collect();
    let about = format!("{}  {}  {}", of.name(), format::moment(of.at), of.origin.words());
    lines.push(style.paint(Ansi::Faint, &about));
    lines.push(String::new());
    let mut part = |name: &str, text: &str| {
        let mut first = true;
        for line in text.trim().lines().flat_map(|line| style.wrap(line, NAMES)) {
            let head = if first { name } else { "" };
            lines.push(format!("{head:<NAMES$}{line}").trim_end().to_owned());
            first = false;
        }
    };
    for correction in corrections {
        part("Corrected by", &format!("{}: {}", correction.name(), correction.question));
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let each = |items: Vec<String>| items.join("\n");
    part("Corrects", &of.corrects.as_ref().map(ToString::to_string).unwrap_or_default());
    part("Machine", &of.machine.as_ref().map(machine).unwrap_or_default());
    part("Workload", &text(&of.workload));
    part("Against", &text(&of.baseline));
    part("Change", &each(of.changes.iter().map(change).collect()));
    part("Result", &text(&of.result));
    part("Effects", &each(of.effects.iter().map(effect).collect()));
    part("Plots", &each(of.plots.iter().map(|plot| plot.title.clone()).collect()));
    part("Decision", &text(&of.decision));
    let class = of.durability.map(|class| format!("class {class:?}: {}", class.words()));
    part("Durability", &class.unwrap_or_default());
    part("Next question", &text(&of.next_question));
    part("Notes", &text(&of.notes));
    part("Rests on", &grounds_of_entry(of).unwrap_or_default());
    style.finish(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::sample;

    const STYLE: Style = Style { width: 80, colour: false, unicode: true };

    #[test]
    fn the_list_tells_question_and_outcome_of_each() {
        let text = list(&[sample()], &STYLE);
        assert!(text.contains("20261121-070000-abc") && text.contains("note, tpcb"), "{text}");
        assert!(text.contains("→ throughput +12.3 % (+10.1 % to +14.5 %)"), "{text}");
    }

    #[test]
    fn an_entry_shows_its_parts_and_those_that_correct_it() {
        let mut correction = Entry::asking("Really?");
        correction.id = Some(walwright_record::journal::EntryId("20261122-000000-zzz".into()));
        let text = entry(&sample(), &[&correction], &STYLE);
        for part in [
            "Corrected by   20261122-000000-zzz: Really?",
            "Change         max_wal_size: 1GB",
            "Decision       Keep it.",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("Durability") && !text.contains("Notes"));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
