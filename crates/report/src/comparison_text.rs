//! A comparison for other programs and for tickets: CSV and Markdown.

use std::fmt::Write;

use walwright_figures::compare::{Comparison, FigureUnit, Section};

use crate::markdown::escape;
use crate::{compared, format, limit, words};

/// One line for each figure and group, the baseline's too: values in seconds, bytes, a second
/// or as fractions, changes as fractions; what is not known is empty.
pub fn comparison_csv(of: &Comparison) -> String {
    let mut csv = String::from(
        "figure,section,unit,group,runs,value,change,change_low,change_high,p_value\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for figure in &of.figures {
        for (place, (group, value)) in of.groups.iter().zip(&figure.values).enumerate() {
            let effect = place.checked_sub(1).and_then(|other| figure.effects[other].as_ref());
            let interval = effect.and_then(|effect| effect.change.interval);
            let fields = [
                csv_field(&figure.key),
                section(figure.section).to_owned(),
                unit(figure.unit).to_owned(),
                csv_field(&group.name),
                group.runs.len().to_string(),
                number(value.center),
                number(effect.map(|effect| effect.change.center)),
                number(interval.map(|interval| interval.low)),
                number(interval.map(|interval| interval.high)),
                number(effect.and_then(|effect| effect.corrected_p)),
            ];
            csv.push_str(&fields.join(","));
            csv.push('\n');
        }
    }
    csv
}

/// The same as a person reads it: what may be said, the figures, what differs, warnings.
pub fn comparison_markdown(of: &Comparison, all: bool) -> String {
    let mut text = String::new();
    for finding in &of.findings {
        let _ = writeln!(text, "{}\n", escape(&finding.text));
    }
    for judged in &of.limits {
        let _ = writeln!(text, "- {}", escape(&limit(judged)));
    }
    if !of.limits.is_empty() {
        text.push('\n');
    }
    let groups: Vec<String> = of.groups.iter().map(|group| escape(&group.name)).collect();
    let _ = write!(text, "| figure | {} |", groups[0]);
    for group in &groups[1..] {
        let _ = write!(text, " {group} | change | 95 % interval |");
    }
    let _ = writeln!(text, "\n|---|---:|{}", "---:|---:|---|".repeat(groups.len() - 1));
    for section in Section::ALL {
        for figure in compared::figures(of, section, all) {
            let value = |group: usize| compared::value(figure.unit, figure.values[group].center);
            let _ = write!(text, "| {} | {} |", escape(&figure.name), value(0));
            for (other, effect) in figure.effects.iter().enumerate() {
                let change = effect.as_ref().map(|effect| compared::percent(effect.change.center));
                let interval = effect.as_ref().map(compared::interval).unwrap_or_default();
                let change = change.unwrap_or_else(|| "–".to_owned());
                let _ = write!(text, " {} | {change} | {interval} |", value(other + 1));
            }
            text.push('\n');
        }
    }
    let _ = writeln!(
        text,
        "\nThe first {} of each measured window; costs are per {}.",
        format::length(of.window),
        of.unit.name()
    );
    if !of.differences.is_empty() {
        text.push_str("\nWhat differs besides:\n\n");
    }
    for difference in &of.differences {
        let values = difference.values.iter();
        let values: Vec<&str> =
            values.map(|value| value.as_deref().unwrap_or("not known")).collect();
        let (kind, name) = (difference.kind.label(), escape(&difference.name));
        let _ = writeln!(text, "- {kind} {name}: {}", escape(&values.join(" → ")));
    }
    if !of.warnings.is_empty() {
        text.push_str("\nWarnings:\n\n");
    }
    for warning in &of.warnings {
        let _ = writeln!(text, "- {}", escape(&words::sentence(warning)));
    }
    text
}

/// A field of CSV as RFC 4180 writes it.
pub fn csv_field(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

fn section(of: Section) -> &'static str {
    match of {
        Section::Load => "load",
        Section::Time => "time",
        Section::Work => "work",
        Section::Machine => "machine",
    }
}

fn unit(of: FigureUnit) -> &'static str {
    match of {
        FigureUnit::PerSecond => "per_second",
        FigureUnit::Seconds => "seconds",
        FigureUnit::Bytes => "bytes",
        FigureUnit::Count => "count",
        FigureUnit::Share => "share",
        FigureUnit::Processors => "processors",
    }
}
