//! A sweep over clients on a terminal: what it comes to, the curve, and the latency breakdown.

use walwright_figures::scaling::{Scaling, ScalingResource};

use super::printable::one_line;
use super::style::{Ansi, Style};
use crate::{format, scaled};

/// Rows of the plot.
const ROWS: usize = 12;
/// Columns of the plot, at most.
const COLUMNS: usize = 64;
/// Columns left of the plot, for its ticks.
const MARGIN: usize = 10;
/// Columns of a table line before its shares.
const BEFORE: usize = 41;
/// Width of a column of shares.
const SHARE: usize = 9;

/// The sweep as text.
pub fn scaling(of: &Scaling, width: usize, colour: bool) -> String {
    scaling_styled(of, &Style::for_terminal(width, colour))
}

/// The sweep in a given style.
pub fn scaling_styled(of: &Scaling, style: &Style) -> String {
    let mut page = Page { style, lines: Vec::new() };
    page.header(of);
    page.plot(of);
    page.parameters(of);
    page.table(of);
    page.warnings(of);
    style.finish(&page.lines)
}

/// A name that fits its column.
fn short(resource: ScalingResource) -> &'static str {
    match resource {
        ScalingResource::Processors => "CPU",
        ScalingResource::WalFlush => "flush",
        ScalingResource::DataIo => "I/O",
        ScalingResource::Replication => "standby",
        ScalingResource::Clients => "clients",
        other => other.label(),
    }
}

struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn text(&mut self, text: &str, indent: usize, ansi: Option<Ansi>) {
        self.lines.extend(self.style.indented(text, indent, ansi));
    }

    fn header(&mut self, of: &Scaling) {
        self.text(&scaled::title(of), 0, Some(Ansi::Bold));
        self.text(&format!("{} {}", scaled::deck(of), of.name), 0, Some(Ansi::Faint));
        self.lines.push(String::new());
        for sentence in &of.verdict {
            self.text(sentence, 0, None);
        }
    }

    /// Throughput over clients, both axes as on the page: runs and the fitted curve.
    fn plot(&mut self, of: &Scaling) {
        let (Some(first), Some(last)) = (of.loads.first(), of.loads.last()) else { return };
        if first.clients == last.clients {
            return;
        }
        let columns = COLUMNS.min(self.style.width.saturating_sub(MARGIN + 2));
        let (least, most) = (f64::from(first.clients), f64::from(last.clients));
        let curve = || of.fit.iter().flat_map(|fit| &fit.band);
        let top = of
            .points
            .iter()
            .map(|p| p.throughput.center)
            .chain(curve().map(|b| b.throughput))
            .fold(0.0, f64::max);
        let column = |clients: f64| {
            let share = (clients / least).ln() / (most / least).ln();
            (share * (columns - 1) as f64).round() as usize
        };
        let row = |rate: f64| (rate / top * (ROWS - 1) as f64).round() as usize;
        let (dot, small) = if self.style.unicode { ('●', '·') } else { ('o', '.') };
        let mut grid = vec![vec![' '; columns]; ROWS];
        let mut put = |clients: f64, rate: f64, letter: char| {
            if let Some(cell) = grid.get_mut(row(rate)).and_then(|r| r.get_mut(column(clients))) {
                *cell = letter;
            }
        };
        curve().for_each(|b| put(b.clients, b.throughput, small));
        of.points.iter().for_each(|p| put(f64::from(p.clients), p.throughput.center, dot));
        self.lines.push(String::new());
        let (side, corner, floor) =
            if self.style.unicode { ("│", "└", "─") } else { ("|", "+", "-") };
        for (place, cells) in grid.iter().enumerate().rev() {
            let labelled = place == ROWS - 1 || place == ROWS / 2;
            let rate = top * place as f64 / (ROWS - 1) as f64;
            let tick = if labelled { format::rate(rate) } else { String::new() };
            let cells: String = cells.iter().collect();
            let tick = self.style.paint(Ansi::Faint, &format!("{tick:>MARGIN$} {side}"));
            self.lines.push(format!("{tick}{}", cells.trim_end()));
        }
        let base = format!("{:>MARGIN$} {corner}{}", "0", floor.repeat(columns));
        self.lines.push(self.style.paint(Ansi::Faint, &base));
        let mut ticks = vec![' '; columns + 4];
        let mut free = 0;
        for load in &of.loads {
            let at = column(f64::from(load.clients));
            let name = load.clients.to_string();
            if at >= free {
                for (place, letter) in name.chars().enumerate() {
                    if let Some(cell) = ticks.get_mut(at + place) {
                        *cell = letter;
                    }
                }
                free = at + name.len() + 1;
            }
        }
        let ticks: String = ticks.into_iter().collect();
        let axis = format!("{:>MARGIN$}  {}", "clients", ticks.trim_end());
        self.lines.push(self.style.paint(Ansi::Faint, &axis));
    }

    fn parameters(&mut self, of: &Scaling) {
        let parameters = scaled::parameters(of);
        if parameters.is_empty() {
            return;
        }
        self.lines.push(String::new());
        self.head("Universal scalability law");
        for p in parameters {
            let interval = self.style.paint(Ansi::Faint, &format!("{:<22}", p.interval));
            let about = self.style.paint(Ansi::Faint, p.about);
            self.lines.push(format!("  {:<9}{:>10}  {interval}{about}", p.name, p.value));
        }
    }

    fn head(&mut self, text: &str) {
        let bold = self.style.paint(Ansi::Bold, &one_line(text));
        self.lines.push(bold);
    }

    fn table(&mut self, of: &Scaling) {
        let mut resources = scaled::resources(of);
        let most = |resource: &ScalingResource| -> f64 {
            let shares = of.loads.iter().filter_map(|load| load.time(*resource));
            shares.map(|time| time.share.center).fold(0.0, f64::max)
        };
        // The narrower the terminal, the fewer: the smallest go first.
        while BEFORE + resources.len() * SHARE > self.style.width {
            let least = resources.iter().copied().min_by(|a, b| most(a).total_cmp(&most(b)));
            resources.retain(|resource| Some(*resource) != least);
        }
        self.lines.push(String::new());
        let what = if resources.is_empty() {
            "Each load"
        } else {
            "Each load, and where its latency goes"
        };
        self.head(what);
        let mut head = format!("{:>8}{:>17}{:>10}{:>6}", "clients", "per second", "p99", "busy");
        for resource in &resources {
            head.push_str(&format!("{:>SHARE$}", short(*resource)));
        }
        self.lines.push(self.style.paint(Ansi::Faint, &head));
        for load in &of.loads {
            let rate = format::estimate(&load.throughput, "/s");
            let p99 = load.p99.map_or_else(String::new, format::seconds);
            let busy = load.busy.map_or_else(String::new, |b| format!("{:.0} %", b * 100.0));
            let mut line = format!("{:>8}{rate:>17}{p99:>10}{busy:>6}", load.clients);
            for resource in &resources {
                line.push_str(&format!("{:>SHARE$}", scaled::share(load, *resource)));
            }
            self.lines.push(line);
        }
    }

    fn warnings(&mut self, of: &Scaling) {
        let left_out = of.left_out.iter().map(|run| format!("left out: {run}"));
        let warnings: Vec<String> = left_out.chain(of.warnings.iter().cloned()).collect();
        if warnings.is_empty() {
            return;
        }
        self.lines.push(String::new());
        for warning in warnings {
            self.text(&format!("! {}", crate::words::sentence(&warning)), 0, Some(Ansi::Yellow));
        }
    }
}
