//! Autovacuum.

use super::bytes::in_words;
use super::input::Subject;
use super::{Item, ReviewItem};

/// Above this share of dead rows an index scan passes one for every few live ones.
const SCALE: f64 = 0.1;

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    [on(subject), naptime(subject), scale(subject), cost(subject), ring(subject), freeze(subject)]
        .into_iter()
        .flatten()
        .collect()
}

fn on(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum")?;
    if subject.is_off("autovacuum") {
        let why = "dead rows stay, tables and indexes grow, statistics age; the cost only comes later, and larger, against wraparound";
        return Some(item.advise("on", why).problem().done());
    }
    Some(item.done())
}

fn naptime(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum_naptime")?;
    let now = subject.seconds("autovacuum_naptime")?;
    if now > 120.0 {
        let why = format!("a table that turns over quickly waits up to {now:.0} s");
        return Some(item.advise("30s", why).done());
    }
    Some(item.done())
}

fn scale(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum_vacuum_scale_factor")?;
    let now = subject.number("autovacuum_vacuum_scale_factor")?;
    if now > SCALE {
        let why = format!(
            "{:.0} % of a large table die before it is vacuumed; for such tables a factor of their own serves better than a low one for all",
            100.0 * now
        );
        return Some(item.advise("0.05", why).done());
    }
    Some(item.done())
}

/// How many bytes a second the workers may dirty, all together: cost_limit each
/// cost_delay, vacuum_cost_page_dirty (20) a page.
fn cost(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum_vacuum_cost_limit")?;
    let delay = subject.seconds("autovacuum_vacuum_cost_delay");
    let limit = match subject.number("autovacuum_vacuum_cost_limit")? {
        inherited if inherited < 0.0 => subject.number("vacuum_cost_limit")?,
        own => own,
    };
    let Some(delay) = delay.filter(|delay| *delay > 0.0) else {
        return Some(
            item.because("without a delay it has no effect: vacuum goes as fast as it can").done(),
        );
    };
    let dirtied = limit / delay / 20.0 * 8192.0;
    let says = format!(
        "all workers together may change {} a second, and read the rest at no more than twenty times that",
        in_words(dirtied)
    );
    // What a large server writes through in a few minutes.
    if dirtied < 20.0 * 1_048_576.0 {
        return Some(
            item.advise("1000", format!("{says}: too little for tables of many gigabytes")).done(),
        );
    }
    if dirtied < 60.0 * 1_048_576.0 && subject.ram.is_some_and(|ram| ram > 32e9) {
        return Some(
            item.advise("1000", format!("{says}: little for a machine of this size")).done(),
        );
    }
    Some(item.because(says).done())
}

fn ring(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "vacuum_buffer_usage_limit")?;
    let (now, buffers) =
        (subject.bytes("vacuum_buffer_usage_limit")?, subject.bytes("shared_buffers")?);
    let wanted = 16.0 * 1_048_576.0;
    if now > 0.0 && now < wanted && buffers / 8.0 >= 4.0 * wanted {
        let why = format!(
            "a vacuum flushes WAL and writes pages itself each time it goes round its {}; shared buffers have room for more",
            in_words(now)
        );
        return Some(item.advise("16MB", why).done());
    }
    Some(item.done())
}

fn freeze(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum_freeze_max_age")?;
    let now = subject.number("autovacuum_freeze_max_age")?;
    if now > 1.2e9 {
        let why = "vacuum against wraparound begins so late that little is left before the server stops taking writes";
        return Some(item.advise("1000000000", why).problem().done());
    }
    Some(item.done())
}
