//! How compared figures are written, for every rendering.

use walwright_figures::WorkUnit;
use walwright_figures::compare::{
    Better, ComparedFigure, Comparison, Effect, FigureUnit, Section, StatementSide,
};

use crate::format;

/// Changes smaller than this are left out of a short list, unless they are certain.
const SMALL: f64 = 0.02;

/// Percent from which a change is only called large: an interval of two runs has no end.
const MOST: f64 = 10_000.0;

/// What a section is headed.
pub(crate) fn heading(section: Section, unit: WorkUnit) -> String {
    match section {
        Section::Load => "Load".to_owned(),
        Section::Time => format!("Where the time of a {} went", unit.name()),
        Section::Work => format!("Cost of a {}", unit.name()),
        Section::Machine => "Machine".to_owned(),
    }
}

/// A value with its unit.
pub(crate) fn value(unit: FigureUnit, value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    match unit {
        FigureUnit::PerSecond => format::rate(value),
        FigureUnit::Seconds => format::seconds(value),
        FigureUnit::Bytes => format::bytes(value),
        FigureUnit::Count => small(value),
        FigureUnit::Share => format::percent(value),
        FigureUnit::Processors => format::number(value),
    }
}

/// A number of things per unit of work, which may be much less than one.
fn small(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.095 { format!("{value:.4}") } else { format::number(value) }
}

/// A change with its sign.
pub(crate) fn percent(share: f64) -> String {
    let sign = if share < 0.0 { "−" } else { "+" };
    let size = share.abs() * 100.0;
    if size >= MOST {
        return format!("beyond {sign}{MOST:.0} %");
    }
    if size >= 999.5 { format!("{sign}{size:.0} %") } else { format!("{sign}{size:.1} %") }
}

/// The interval of a change; empty where there is none.
pub(crate) fn interval(effect: &Effect) -> String {
    match effect.change.interval {
        Some(interval) => format!("{} to {}", percent(interval.low), percent(interval.high)),
        None => String::new(),
    }
}

/// Whether a change is to the better; `None` where it is open or neither way is.
pub(crate) fn is_better(figure: &ComparedFigure, effect: &Effect) -> Option<bool> {
    if !effect.change.excludes(0.0) {
        return None;
    }
    let up = effect.change.center > 0.0;
    Some(match figure.better? {
        Better::Higher => up,
        Better::Lower => !up,
    })
}

/// Whether a figure belongs into a short list.
pub(crate) fn is_worth_a_line(figure: &ComparedFigure) -> bool {
    if figure.is_idle() {
        return false;
    }
    let moved = figure
        .effects
        .iter()
        .flatten()
        .any(|effect| effect.change.center.abs() >= SMALL || effect.change.excludes(0.0));
    // Without a ratio the values themselves tell.
    let appeared = figure.effects.iter().any(Option::is_none) && {
        let centers: Vec<f64> = figure.values.iter().filter_map(|value| value.center).collect();
        centers.windows(2).any(|pair| pair[0] != pair[1])
    };
    let headline = figure.section == Section::Load && figure.effects.iter().any(Option::is_some);
    headline || moved || appeared
}

/// The figures of a section, all or those worth a line.
pub(crate) fn figures(
    comparison: &Comparison,
    section: Section,
    all: bool,
) -> Vec<&ComparedFigure> {
    comparison
        .figures
        .iter()
        .filter(|figure| figure.section == section)
        .filter(|figure| if all { !figure.is_idle() } else { is_worth_a_line(figure) })
        .collect()
}

/// A statement's time per unit of work, calls and WAL, of one group.
pub(crate) fn statement(side: Option<&StatementSide>) -> [String; 4] {
    let dash = || "–".to_owned();
    let Some(side) = side else { return [dash(), dash(), dash(), dash()] };
    [
        format::seconds(side.time),
        small(side.calls),
        side.mean_time.map_or_else(dash, format::seconds),
        side.wal_bytes_per_call.map_or_else(dash, format::bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_units() {
        assert_eq!(value(FigureUnit::PerSecond, Some(5_312.4)), "5,312/s");
        assert_eq!(value(FigureUnit::Count, Some(0.0123)), "0.0123");
        assert_eq!(value(FigureUnit::Count, Some(0.0)), "0");
        assert_eq!(value(FigureUnit::Seconds, None), "–");
        assert_eq!(percent(-0.0345), "−3.5 %");
        assert_eq!(percent(12.5), "+1250 %");
        assert_eq!(percent(1e9), "beyond +10000 %");
    }
}
