//! An experiment on a terminal.

use walwright_figures::compare::Section;
use walwright_figures::experiment::{ArmOutcome, Judged, JudgedArm, Outcome};
use walwright_stats::{Interval, Verdict};

use super::printable::one_line;
use super::style::{Ansi, Style};
use crate::compare::words::{percent, value};
use crate::experimented as words;

/// Most columns of an arm's name.
const NAMES: usize = 26;
/// Columns of a value.
const VALUE: usize = 11;
/// Reasons told of an arm.
const REASONS: usize = 6;
/// Runs named of an arm.
const RUNS: usize = 3;

/// The result of an experiment as text.
pub fn experiment(of: &Outcome, width: usize, colour: bool) -> String {
    styled(of, &Style::for_terminal(width, colour))
}

fn styled(of: &Outcome, style: &Style) -> String {
    let longest = of.judged.arms.iter().map(|arm| arm.name.chars().count()).max().unwrap_or(0);
    let mut page = Page { style, lines: Vec::new(), names: longest.clamp(8, NAMES) };
    page.text(&words::experiment_verdict(of), 0, Some(Ansi::Bold));
    page.header(of);
    page.judged(&of.judged);
    if let Some(contrasts) = &of.contrasts {
        page.head("Main effects and interactions");
        page.table(contrasts, true);
    }
    for other in &of.others {
        page.head(&format!("{}, told beside it: nothing is claimed of it", other.metric.name));
        page.table(other, false);
    }
    page.conclusions(of);
    page.method(of);
    page.warnings(of);
    style.finish(&page.lines)
}

struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
    names: usize,
}

impl Page<'_> {
    fn text(&mut self, text: &str, indent: usize, ansi: Option<Ansi>) {
        self.lines.extend(self.style.indented(text, indent, ansi));
    }

    fn head(&mut self, text: &str) {
        self.lines.push(String::new());
        self.lines.push(self.style.paint(Ansi::Bold, &one_line(text)));
    }

    fn header(&mut self, of: &Outcome) {
        self.lines.push(String::new());
        self.lines.push(one_line(&of.name));
        self.text(&format!("experiment {}", of.id), 0, Some(Ansi::Faint));
        if let Some(question) = &of.question {
            self.text(question, 0, None);
        }
    }

    fn method(&mut self, of: &Outcome) {
        self.lines.push(String::new());
        self.text(&format!("Baseline: {}.", of.baseline.join("; ")), 0, Some(Ansi::Faint));
        self.text(&words::progress(of), 0, Some(Ansi::Faint));
    }

    fn judged(&mut self, of: &Judged) {
        let baseline = value(of.metric.unit, of.baseline);
        self.head(&format!("{}: baseline {baseline}", of.metric.name));
        if let Some(expression) = &of.metric.expression {
            self.text(&format!("{} = {expression}; less is better", of.metric.name), 2, None);
        }
        self.table(of, true);
        self.forest(of);
        self.text(&words::floor(of), 0, Some(Ansi::Faint));
    }

    fn name(&self, name: &str) -> String {
        let letters: Vec<char> = one_line(name).chars().collect();
        match letters.len() > self.names {
            true => format!("{}…", letters[..self.names - 1].iter().collect::<String>()),
            false => format!("{:width$}", letters.iter().collect::<String>(), width = self.names),
        }
    }

    /// Effects; what may be said of them only where something is `claimed`.
    fn table(&mut self, of: &Judged, claimed: bool) {
        let level = crate::format::percent(of.confidence.level());
        let head = format!(
            "  {:width$}{:>VALUE$}{:>10}   {:<20}{:>8}  {}",
            "",
            "value",
            "change",
            format!("{} interval", level.replace(".0", "")),
            "p, Holm",
            if claimed { "verdict" } else { "" },
            width = self.names
        );
        self.lines.push(self.style.paint(Ansi::Faint, head.trim_end()));
        for arm in &of.arms {
            let change = arm.effect.as_ref().map(|effect| &effect.change);
            let line = format!(
                "  {}{:>VALUE$}{:>10}   {:<20}{:>8}  ",
                self.name(&arm.name),
                value(of.metric.unit, arm.value),
                change.map_or_else(|| "–".to_owned(), |change| percent(change.center)),
                change.map(words::interval).unwrap_or_default(),
                arm.corrected_p.map(words::p_value).unwrap_or_default(),
            );
            let verdict = if claimed { words::verdict(arm) } else { "" };
            let verdict = self.coloured(arm, verdict);
            self.lines.push(format!("{line}{verdict}").trim_end().to_owned());
        }
    }

    /// Green or red where something is claimed.
    fn coloured(&self, arm: &JudgedArm, text: &str) -> String {
        let claimed = matches!(arm.verdict, Some(Verdict::Proven | Verdict::Screened));
        match arm.better.filter(|_| claimed) {
            Some(true) => self.style.paint(Ansi::Green, text),
            Some(false) => self.style.paint(Ansi::Red, text),
            None => self.style.paint(Ansi::Faint, text),
        }
    }

    /// The forest plot: an interval a line, zero and the noise floor as verticals.
    fn forest(&mut self, of: &Judged) {
        let room = self.style.width.saturating_sub(self.names + 5).clamp(30, 64);
        let Some(plot) = Plot::over(of, room) else { return };
        self.lines.push(String::new());
        for arm in &of.arms {
            let Some(effect) = &arm.effect else { continue };
            let row = plot.row(effect.change.center, effect.change.interval, self.style.unicode);
            let row = self.coloured(arm, row.trim_end());
            self.lines.push(format!("  {} {row}", self.name(&arm.name)));
        }
        if let Some(floor) = &of.floor {
            let change = &floor.against_itself.change;
            let row = plot.row(change.center, change.interval, self.style.unicode);
            let row = format!("  {} {}", self.name("A/A"), row.trim_end());
            self.lines.push(self.style.paint(Ansi::Faint, &row));
        }
        let axis = self.style.paint(Ansi::Faint, plot.axis().trim_end());
        self.lines.push(format!("  {} {axis}", " ".repeat(self.names)));
    }

    fn conclusions(&mut self, of: &Outcome) {
        if let Some(prediction) = &of.prediction {
            self.lines.push(String::new());
            self.text(&words::prediction(prediction), 0, Some(Ansi::Bold));
        }
        for (place, (arm, judged)) in of.arms.iter().zip(&of.judged.arms).enumerate() {
            self.lines.push(String::new());
            let claimed = matches!(judged.verdict, Some(Verdict::Proven | Verdict::Screened));
            let ansi = match judged.better.filter(|_| claimed) {
                Some(true) => Some(Ansi::Green),
                Some(false) => Some(Ansi::Red),
                None => None,
            };
            self.text(&words::sentence(judged, &of.judged), 0, ansi);
            let outlook = of.outlooks.get(place).and_then(Option::as_ref);
            if let Some(prospect) = outlook.and_then(|o| words::prospect(o, of.negligible)) {
                self.text(&prospect, 2, Some(Ansi::Faint));
            }
            self.arm(arm, judged);
        }
    }

    fn arm(&mut self, arm: &ArmOutcome, judged: &JudgedArm) {
        if arm.changes != [arm.name.clone()] {
            self.text(&format!("changed: {}", arm.changes.join("; ")), 2, None);
        }
        if let Some(why) = &arm.failed {
            self.text(&format!("given up: {why}"), 2, Some(Ansi::Red));
        }
        for (section, what) in [
            (Section::Time, "time of a transaction"),
            (Section::Work, "cost of a transaction"),
            (Section::Machine, "machine"),
        ] {
            let reasons = words::reasons_of(&arm.reasons, section);
            if !reasons.is_empty() {
                let told: Vec<String> =
                    reasons.iter().take(REASONS).map(|r| words::reason(r)).collect();
                self.text(&format!("{what}: {}", told.join(", ")), 2, Some(Ansi::Faint));
            }
        }
        // Where nothing is said of throughput, the statements' times say nothing either.
        let slowest = arm.statements.first().filter(|_| judged.effect.is_some());
        if let Some((statement, change)) =
            slowest.and_then(|s| Some((s, s.time_change.first().copied().flatten()?)))
            && change != 0.0
        {
            let query: String = one_line(&statement.query).chars().take(70).collect();
            let sign = if change > 0.0 { "+" } else { "−" };
            let size = crate::format::seconds(change.abs());
            let text = format!("statement that changed most, {sign}{size} a transaction: {query}");
            self.text(&text, 2, Some(Ansi::Faint));
        }
        let runs: Vec<&str> = arm.runs.iter().flatten().map(|run| run.0.as_str()).collect();
        if let Some(more) = runs.len().checked_sub(RUNS).filter(|more| *more > 0) {
            let first = runs[..RUNS].join(", ");
            self.text(&format!("runs: {first} and {more} more"), 2, Some(Ansi::Faint));
        } else if !runs.is_empty() {
            self.text(&format!("runs: {}", runs.join(", ")), 2, Some(Ansi::Faint));
        }
    }

    fn warnings(&mut self, of: &Outcome) {
        if of.warnings.is_empty() {
            return;
        }
        self.head("Warnings");
        for warning in &of.warnings {
            self.text(&format!("! {warning}"), 0, Some(Ansi::Yellow));
        }
    }
}

/// Relative changes laid out over columns.
struct Plot {
    low: f64,
    high: f64,
    floor: Option<f64>,
    columns: usize,
}

impl Plot {
    /// Wide enough for every interval, zero and the noise floor.
    fn over(of: &Judged, columns: usize) -> Option<Plot> {
        let floor = of.floor.as_ref().and_then(|floor| floor.relative);
        let ends = of.arms.iter().filter_map(|arm| {
            let change = &arm.effect.as_ref()?.change;
            Some(change.interval.unwrap_or(Interval::between(change.center, change.center)))
        });
        let (mut low, mut high, mut any) = (0.0_f64, 0.0_f64, false);
        for end in ends {
            (low, high, any) = (low.min(end.low), high.max(end.high), true);
        }
        if let Some(floor) = floor {
            (low, high) = (low.min(-floor), high.max(floor));
        }
        let (low, high) = (low.max(-1.0), high.min(100.0));
        (any && high > low).then_some(Plot { low, high, floor, columns })
    }

    fn column(&self, change: f64) -> usize {
        let share = (change.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        (share * (self.columns - 1) as f64).round() as usize
    }

    fn row(&self, center: f64, interval: Option<Interval>, unicode: bool) -> String {
        let [end_low, dash, end_high, dot, zero, floor] = if unicode {
            ['├', '─', '┤', '●', '│', '┊']
        } else {
            ['|', '-', '|', 'o', '|', ':']
        };
        let mut row = vec![' '; self.columns];
        if let Some(at) = self.floor {
            for side in [-at, at] {
                row[self.column(side)] = floor;
            }
        }
        row[self.column(0.0)] = zero;
        if let Some(interval) = interval {
            let (from, to) = (self.column(interval.low), self.column(interval.high));
            row[from..=to].fill(dash);
            row[from] = end_low;
            row[to] = end_high;
        }
        row[self.column(center)] = dot;
        row.into_iter().collect()
    }

    /// The ends and zero, as far as there is room between them.
    fn axis(&self) -> String {
        let mut row = vec![' '; self.columns + 10];
        let mut put = |text: &str, at: usize| {
            let letters: Vec<char> = text.chars().collect();
            let from = at.saturating_sub(letters.len() / 2);
            let to = from + letters.len();
            let free = row.get(from.saturating_sub(1)..(to + 1).min(row.len()));
            if to <= row.len() && free.is_some_and(|free| free.iter().all(|c| *c == ' ')) {
                row[from..to].copy_from_slice(&letters);
            }
        };
        put("0", self.column(0.0));
        put(&percent(self.low), self.column(self.low));
        put(&percent(self.high), self.column(self.high));
        row.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_zero_floor_interval_and_center_in_their_places() {
        let plot = Plot { low: -0.1, high: 0.1, floor: Some(0.02), columns: 21 };
        let row = plot.row(0.05, Some(Interval { low: 0.03, high: 0.07 }), true);
        assert_eq!(row, "        ┊ │ ┊├─●─┤   ");
        assert_eq!(plot.row(-0.5, None, false), "o       : | :        ");
        assert_eq!(plot.axis().trim_end(), "−10.0 %   0      +10.0 %");
    }
}
