//! What a commit waits for, beyond durability.

use super::input::Subject;
use super::{Item, ReviewItem, Standing};

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    [delay(subject), method(subject)].into_iter().flatten().collect()
}

/// A leader that waits half a flush loses little when nobody comes and halves the
/// flushes when someone does; longer waits cost their own length in every commit.
fn delay(subject: &Subject) -> Option<ReviewItem> {
    let mut item = Item::of(subject, "commit_delay")?;
    let now = subject.number("commit_delay")?;
    if now <= 0.0 {
        return Some(item.done());
    }
    let Some(flush) = subject.evidence.flush else {
        item.item.standing = Standing::Advice;
        return Some(
            item.because(format!(
                "{now} µs are added to commits of group leaders; it pays only where it is about half a flush, and a measured comparison shows whether it does"
            ))
            .done(),
        );
    };
    let half = (0.5 * flush * 1e6 / 10.0).round() * 10.0;
    if now > 1.5 * half {
        let why = format!(
            "a flush takes {:.0} µs: a wait of {now} µs costs more than what it merges can save",
            flush * 1e6
        );
        return Some(item.advise(format!("{half}"), why).done());
    }
    Some(item.because(format!("a flush takes {:.0} µs", flush * 1e6)).done())
}

fn method(subject: &Subject) -> Option<ReviewItem> {
    let mut item = Item::of(subject, "wal_sync_method")?;
    if subject.text("wal_sync_method")?.starts_with("open") {
        item.item.standing = Standing::Advice;
        return Some(
            item.because(
                "the flush is inside the write, where the server does not time it; keep it only where a measured comparison with fdatasync shows a gain and the device is known to flush",
            )
            .done(),
        );
    }
    Some(item.done())
}
