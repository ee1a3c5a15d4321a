//! Writes the report of a synthetic record:
//! `cargo run -p walwright-report --example sample_report -- FILE [SECONDS]`.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::error::Error;

use walwright_diagnose::{summary, timeline};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "sample_report.html".to_owned());
    let seconds = arguments.next().map_or(Ok(synthetic::MEASURE), |s| s.parse())?;
    let record = synthetic::record_of(seconds);
    let page = walwright_report::html::report(&record, &summary(&record), &timeline(&record))?;
    std::fs::write(&path, page)?;
    println!("{path}");
    Ok(())
}
