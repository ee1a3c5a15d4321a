//! Options and output that all measuring commands have.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use walwright_report::List;
use walwright_report::terminal::Style;

/// Options of every measuring command.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Blocks: in each, every contender runs once.
    #[arg(long, default_value_t = 6)]
    pub blocks: usize,
    /// Seconds of load of one measurement.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Scale of pgbench's tables.
    #[arg(long, default_value_t = 10)]
    pub scale: u32,
    /// Figures as JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// Length of one measurement.
    pub fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// The figures of a command and whether they meet what is promised.
pub struct Report {
    title: String,
    rows: Vec<[String; 4]>,
    values: Vec<Value>,
    met: bool,
}

impl Report {
    /// No figures yet.
    pub fn new(title: &str) -> Report {
        Report { title: title.to_owned(), rows: Vec::new(), values: Vec::new(), met: true }
    }

    /// Adds a figure without a bar.
    pub fn figure(&mut self, name: &str, shown: String, value: Value) {
        self.values.push(json!({ "name": name, "value": value }));
        self.rows.push([name.to_owned(), shown, String::new(), String::new()]);
    }

    /// Adds a figure with a bar it must reach.
    pub fn bar(&mut self, name: &str, shown: String, value: Value, bar: &str, met: bool) {
        self.judged(name, shown, value, bar, Some(met));
    }

    /// Adds a figure that must be at most `most`: where its interval lies on both sides of that, it
    /// is undecided.
    pub fn at_most(
        &mut self,
        name: &str,
        shown: String,
        value: Value,
        bar: &str,
        most: f64,
        (low, high): (f64, f64),
    ) {
        let met = if high <= most { Some(true) } else { (low > most).then_some(false) };
        self.judged(name, shown, value, bar, met);
    }

    fn judged(&mut self, name: &str, shown: String, value: Value, bar: &str, met: Option<bool>) {
        self.values.push(json!({ "name": name, "value": value, "bar": bar, "met": met }));
        let verdict = match met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "undecided",
        };
        self.rows.push([name.to_owned(), shown, bar.to_owned(), verdict.to_owned()]);
        self.met &= met == Some(true);
    }

    /// Prints them; the exit code says whether all bars are met.
    pub fn print(self, json: bool) -> ExitCode {
        if json {
            let all = json!({ "title": self.title, "figures": self.values, "met": self.met });
            println!("{all:#}");
        } else {
            let mut list = List::new(["figure", "measured", "bar", ""]).titled(self.title);
            self.rows.into_iter().for_each(|row| list.row(row));
            let style = Style { width: 200, colour: false, unicode: true };
            print!("{}", list.document().terminal(&style));
        }
        if self.met { ExitCode::SUCCESS } else { ExitCode::from(1) }
    }
}
