//! D58, D43: what watching and compiling cost, and what cannot be seen without it.

use super::input::Subject;
use super::{Item, ReviewItem, Standing};

/// Share of the statements' time in JIT from which it costs more than it can bring.
const JIT: f64 = 0.05;

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    let loud = [
        ("log_statement", &["all", "mod", "ddl"][..2], "none", "a line in the log for every write"),
        ("log_min_duration_statement", &["0"][..], "1s", "a line in the log for every statement"),
        ("log_duration", &["on"][..], "off", "a line in the log for every statement"),
    ];
    let loud = loud.into_iter().filter_map(|(name, values, better, why)| {
        let item = Item::of(subject, name)?;
        let now = item.item.now.clone();
        Some(if values.contains(&now.as_str()) { item.advise(better, why) } else { item }.done())
    });
    let blind = [
        (
            "track_io_timing",
            "without it the time of reads and writes is unknown; where the clock is cheap (pg_test_timing) it costs next to nothing",
        ),
        (
            "track_wal_io_timing",
            "without it flush latency is unknown; where the clock is cheap (pg_test_timing) it costs next to nothing",
        ),
    ];
    let blind = blind.into_iter().filter_map(|(name, why)| {
        let item = Item::of(subject, name)?;
        Some(if subject.is_off(name) { item.advise("on", why) } else { item }.done())
    });
    loud.chain(blind).chain(waits(subject)).chain(jit(subject)).chain(idle(subject)).collect()
}

fn waits(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "log_lock_waits")?;
    let why = "one line for each wait longer than deadlock_timeout: the only trace that lock queues leave";
    Some(if subject.is_off("log_lock_waits") { item.advise("on", why) } else { item }.done())
}

fn jit(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "jit")?;
    let share = subject.evidence.jit.filter(|share| *share > JIT);
    Some(match share {
        Some(share) if subject.is_on("jit") => {
            let why =
                format!("{:.0} % of the statements' time went into compiling them", 100.0 * share);
            item.advise("off", why).problem().done()
        }
        _ => item.done(),
    })
}

fn idle(subject: &Subject) -> Option<ReviewItem> {
    let mut item = Item::of(subject, "idle_in_transaction_session_timeout")?;
    if subject.number("idle_in_transaction_session_timeout")? == 0.0 {
        item.item.standing = Standing::Advice;
        item.item.advised = Some("60s".to_owned());
        item = item.because(
            "a client that forgets a transaction holds its locks and keeps vacuum from removing anything newer, without end",
        );
    }
    Some(item.done())
}
