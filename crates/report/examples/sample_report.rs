//! Writes the report of a synthetic record and prints its summary:
//! `cargo run -p walwright-report --example sample_report -- FILE [SECONDS]`.

#[path = "../tests/report/synthetic/mod.rs"]
mod synthetic;

use std::error::Error;

use walwright_report::RunReport;
use walwright_report::terminal::Style;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "sample_report.html".to_owned());
    let seconds = arguments.next().map_or(Ok(120), |s| s.parse())?;
    let record = synthetic::record_of(seconds);
    let report = RunReport::new(record);
    std::fs::write(&path, report.document().html())?;
    print!("{}", report.document().summary(&Style::for_terminal(80, false), false));
    println!("{path}");
    Ok(())
}
