//! What HammerDB prints of its TPROC-C test with the timed driver: `Vuser 1:TEST RESULT :
//! System achieved 42332 NOPM from 97427 PostgreSQL TPM` (before 4.0: `… achieved 14999
//! PostgreSQL TPM at 6461 NOPM`), and the times of its procedures, where it profiles them
//! (`>>>>> PROC: NEWORD`, then `CALLS: … MIN: …ms AVG: …ms …` and `P99: …ms P95: …`).
//!
//! TPM are transactions that the server counted, NOPM new orders. The counter that it prints
//! meanwhile (`193290 PostgreSQL tpm`) is the server's too, which the record samples itself.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::Told;
use super::{Tool, whole};
use crate::span::span;

/// TPROC-C has five.
const MOST_PROCEDURES: usize = 50;

#[derive(Debug, Default)]
pub(super) struct HammerDb {
    /// New orders and transactions a minute, of the last test.
    achieved: Option<(u64, u64)>,
    procedures: Vec<OperationTotals>,
    /// Whether what follows is of all virtual users, not of one.
    of_all: bool,
}

impl Tool for HammerDb {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        if let Some((_, result)) = line.split_once("TEST RESULT : System achieved ") {
            self.achieved = achieved(result).or(self.achieved);
        } else if line.contains("ACTIVE VIRTUAL USERS") || line.contains("ACROSS ALL USERS") {
            self.of_all = true;
            self.procedures.clear();
        } else if line.contains(">>>>> VIRTUAL USER") {
            self.of_all = false;
        } else if let Some((_, name)) = line.split_once(">>>>> PROC: ")
            && self.of_all
            && self.procedures.len() < MOST_PROCEDURES
        {
            let name = name.trim().chars().take(40).collect();
            self.procedures.push(OperationTotals { name, ..OperationTotals::default() });
        } else if let Some(procedure) = self.procedures.last_mut().filter(|_| self.of_all) {
            times(line, procedure);
        }
    }

    fn told(&self) -> Option<Told> {
        let mut told = Told::of(ClientUnit::Transaction);
        if let Some((orders, transactions)) = self.achieved {
            for (name, a_minute) in
                [("transactions (TPM)", transactions), ("new orders (NOPM)", orders)]
            {
                told.totals.push(OperationTotals {
                    name: name.to_owned(),
                    throughput: Some(a_minute as f64 / 60.0),
                    ..OperationTotals::default()
                });
            }
            told.notes.push(
                "HammerDB's result leaves out its ramp-up; its transactions are those that the \
                 server counted, of all databases"
                    .to_owned(),
            );
        }
        told.totals.extend(self.procedures.iter().filter(|one| one.count.is_some()).cloned());
        told.tells().then_some(told)
    }
}

/// NOPM and TPM, in either order.
fn achieved(result: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = result.split_ascii_whitespace().collect();
    // The number stands before the word, the name of the database between.
    let before = |unit: &str| {
        let place = words.iter().position(|word| *word == unit)?;
        words[..place].iter().rev().find_map(|word| whole(Some(word)))
    };
    before("NOPM").zip(before("TPM"))
}

/// `CALLS: 648063 MIN: 1.640ms AVG: 48.569ms …`, `P99: 413.374ms P95: …`
fn times(line: &str, of: &mut OperationTotals) {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    for pair in words.windows(2) {
        let (name, value) = (pair[0], pair[1]);
        match name {
            "CALLS:" => of.count = whole(Some(value)),
            "MIN:" => of.min = span(value),
            "AVG:" => of.mean = span(value),
            "MAX:" => of.max = span(value),
            "P99:" | "P95:" | "P50:" => {
                let percent = name[1..3].parse().ok();
                of.percentiles
                    .extend(percent.zip(span(value)).filter(|_| of.percentiles.len() < 3));
                of.percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
            }
            _ => {}
        }
    }
}
