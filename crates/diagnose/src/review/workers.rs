//! D57: worker processes against processors.

use super::input::Subject;
use super::{Item, ReviewItem};

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    [processes(subject), parallel(subject), gather(subject), vacuum(subject), io(subject)]
        .into_iter()
        .flatten()
        .collect()
}

fn processes(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "max_worker_processes")?;
    let now = subject.number("max_worker_processes")?;
    let Some(processors) = subject.processors else { return Some(item.done()) };
    if now < processors.ceil() && processors > 8.0 {
        let why =
            format!("{processors} processors, but all background processes together may be {now}");
        return Some(item.advise(format!("{}", processors.ceil()), why).done());
    }
    Some(item.done())
}

fn parallel(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "max_parallel_workers")?;
    let now = subject.number("max_parallel_workers")?;
    let Some(processors) = subject.processors else { return Some(item.done()) };
    // The default of 8 is harmless on a small machine as long as few queries go parallel.
    if now > 2.0 * processors.max(4.0) {
        let why = format!(
            "{now} parallel workers on {processors} processors take them from the sessions that write"
        );
        return Some(item.advise(format!("{}", processors.ceil()), why).done());
    }
    Some(item.done())
}

fn gather(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "max_parallel_workers_per_gather")?;
    let now = subject.number("max_parallel_workers_per_gather")?;
    let Some(processors) = subject.processors else { return Some(item.done()) };
    if now > processors.max(2.0) {
        let why = format!("one query may take {now} workers on {processors} processors");
        return Some(item.advise("2", why).done());
    }
    Some(item.done())
}

fn vacuum(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "autovacuum_max_workers")?;
    let now = subject.number("autovacuum_max_workers")?;
    let Some(processors) = subject.processors else { return Some(item.done()) };
    if now > 3.0 && now > processors {
        let why = format!(
            "{now} workers on {processors} processors; they share one cost limit, so that fewer vacuum as much"
        );
        return Some(item.advise(format!("{}", processors.max(3.0).floor()), why).done());
    }
    Some(item.done())
}

fn io(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "io_workers")?;
    if subject.text("io_method") != Some("worker") {
        return None;
    }
    let now = subject.number("io_workers")?;
    let Some(processors) = subject.processors else { return Some(item.done()) };
    let quarter = (processors / 4.0).floor();
    if now < quarter && processors >= 16.0 {
        let why = format!("{now} processes read ahead for sessions on {processors} processors");
        return Some(item.advise(format!("{}", quarter.min(32.0)), why).done());
    }
    Some(item.done())
}
