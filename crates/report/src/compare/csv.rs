//! A comparison for other programs.

use walwright_figures::compare::{Comparison, FigureUnit, Section};

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
