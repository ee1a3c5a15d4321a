//! What commands that break something on purpose have in common: how they are told what to do,
//! and what they report of the books of their clients.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::Report;
use crate::ledger::Audit;

/// What each of them is told.
#[derive(Debug, Clone, Copy, Args)]
pub struct Rules<Check: ValueEnum + Clone + Send + Sync + 'static> {
    /// Decides loads, kinds, moments and what is lost.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Breaks what is tested: something wrong must be found then.
    #[arg(long, value_enum)]
    pub check: Option<Check>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    pub json: bool,
}

/// Adds what an audit counted, and bars: of it and of what else must not happen. Where something
/// was broken, something must have happened instead.
pub fn judge(report: &mut Report, audit: &Audit, others: &[(&str, u64)], is_broken: bool) {
    for (name, value) in [
        ("transactions acknowledged", audit.acknowledged),
        ("refused, or not committed", audit.refused),
        ("unknown", audit.unknown),
        ("of these there afterwards", audit.kept),
        ("values told by reads and errors", audit.told),
    ] {
        report.figure(name, value.to_string(), json!(value));
    }
    let wrong = [
        ("writes lost, doubled or torn", audit.wrong_writes),
        ("told and gone", audit.gone),
        ("answers to the wrong client", audit.wrong_answers),
    ];
    let mut found = false;
    for (name, value) in wrong.iter().chain(others) {
        found |= *value > 0;
        if is_broken {
            report.figure(name, value.to_string(), json!(value));
        } else {
            report.bar(name, value.to_string(), json!(value), "0", *value == 0);
        }
    }
    if is_broken {
        let shown = if found { "yes" } else { "no" };
        report.bar("something wrong found", shown.to_owned(), json!(found), "yes", found);
    }
}
