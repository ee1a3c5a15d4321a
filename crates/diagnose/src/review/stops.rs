//! What keeps the server from starting.

use super::bytes::in_words;
use super::input::Subject;
use super::memory::{HUGE_PAGE, huge_page};
use super::refused::Refused;
use super::{Item, ReviewItem, Standing};

/// Sessions and background processes there can be in all (`MAX_BACKENDS` of postmaster.h).
const MOST_PROCESSES: f64 = 262_143.0;
/// Two segments of WAL of the size that `initdb` chooses.
const TWO_SEGMENTS: f64 = 2.0 * 16.0 * 1_048_576.0;

/// Each setting that keeps the server from starting; a contradiction at the setting that is
/// to give way.
pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    let mut items: Vec<ReviewItem> = subject.refused.iter().map(not_taken).collect();
    let found = [
        minimal(subject),
        reserved(subject),
        processes(subject),
        huge_pages(subject),
        segments(subject),
        memory(subject),
    ];
    items.extend(found.into_iter().flatten());
    items
}

/// Settings that are fine but for the one beside them which is to give way.
pub(super) fn beside(subject: &Subject) -> &'static [&'static str] {
    match minimal(subject) {
        Some(_) => &["max_wal_senders", "archive_mode", "summarize_wal"],
        None => &[],
    }
}

fn not_taken(refused: &Refused) -> ReviewItem {
    ReviewItem {
        name: refused.name.clone(),
        now: refused.value.clone(),
        place: refused.place.clone(),
        advised: None,
        meant: refused.meant.map(|meant| meant.name.clone()),
        standing: Standing::Stops,
        why: refused.why.clone(),
        can_lose: None,
        class: "S".to_owned(),
        apply: "restart".to_owned(),
    }
}

/// `PostmasterMain` refuses these three beside `wal_level = minimal`.
fn minimal(subject: &Subject) -> Option<ReviewItem> {
    if subject.text("wal_level") != Some("minimal") {
        return None;
    }
    let senders = subject.number("max_wal_senders").filter(|senders| *senders > 0.0);
    let senders = senders.map(|senders| format!("max_wal_senders = {senders}"));
    let archive = subject.text("archive_mode").filter(|mode| *mode != "off");
    let archive = archive.map(|mode| format!("archive_mode = {mode}"));
    let summaries = subject.is_on("summarize_wal").then(|| "summarize_wal = on".to_owned());
    let beside: Vec<String> = [senders, archive, summaries].into_iter().flatten().collect();
    if beside.is_empty() {
        return None;
    }
    let why = format!("{} cannot be had with it", beside.join(" and "));
    Some(Item::of(subject, "wal_level")?.stops("replica", why).done())
}

fn reserved(subject: &Subject) -> Option<ReviewItem> {
    let most = subject.number("max_connections")?;
    let superusers = subject.number("superuser_reserved_connections")?;
    let others = subject.number("reserved_connections").unwrap_or(0.0);
    if superusers + others < most {
        return None;
    }
    let why = format!("of {most} connections {} are reserved: none is left", superusers + others);
    let advised = (superusers + others + 100.0).min(MOST_PROCESSES);
    Some(Item::of(subject, "max_connections")?.stops(format!("{advised}"), why).done())
}

/// `InitializeMaxBackends`. From 18 on the slots of autovacuum workers count, not the workers.
fn processes(subject: &Subject) -> Option<ReviewItem> {
    let most = subject.number("max_connections")?;
    let vacuums = match subject.major {
        18.. => "autovacuum_worker_slots",
        _ => "autovacuum_max_workers",
    };
    let others: Option<f64> = [vacuums, "max_worker_processes", "max_wal_senders"]
        .into_iter()
        .map(|name| subject.number(name))
        .sum();
    let others = others? + 1.0;
    if most + others < MOST_PROCESSES {
        return None;
    }
    let why = format!("with {others} background processes it is beyond {MOST_PROCESSES} in all");
    Some(Item::of(subject, "max_connections")?.stops("100", why).done())
}

/// With `on`, memory that huge pages do not hold is refused; what the kernel has is known
/// only of this machine.
fn huge_pages(subject: &Subject) -> Option<ReviewItem> {
    if subject.text("huge_pages") != Some("on") {
        return None;
    }
    let item = Item::of(subject, "huge_pages")?;
    if let Some(kind) = subject.text("shared_memory_type").filter(|kind| *kind != "mmap") {
        let why = format!("shared_memory_type = {kind} has none");
        return Some(item.stops("try", why).done());
    }
    let pages = |name: &str| -> Option<f64> { subject.kernel(name)?.parse().ok() };
    let kept = pages("vm.nr_hugepages")?;
    let there = kept + pages("vm.nr_overcommit_hugepages").unwrap_or(0.0);
    let buffers = subject.bytes("shared_buffers")?;
    let needed = (buffers / huge_page(subject).unwrap_or(HUGE_PAGE)).ceil();
    if there >= needed || subject.bytes("huge_page_size").is_some_and(|bytes| bytes > 0.0) {
        return None;
    }
    let why = format!(
        "shared_buffers of {} take {needed} huge pages, and the kernel has {there}",
        in_words(buffers)
    );
    Some(item.stops("try", why).done())
}

fn segments(subject: &Subject) -> Option<ReviewItem> {
    let segment = subject.bytes("wal_segment_size").unwrap_or(TWO_SEGMENTS / 2.0);
    [("min_wal_size", "80MB"), ("max_wal_size", "1GB")].into_iter().find_map(|(name, advised)| {
        let bytes = subject.bytes(name)?;
        if bytes >= 2.0 * segment {
            return None;
        }
        let why = format!("it must hold two segments of WAL, of {} each", in_words(segment));
        Some(Item::of(subject, name)?.stops(advised, why).done())
    })
}

/// What no kernel gives that counts what it promises.
fn memory(subject: &Subject) -> Option<ReviewItem> {
    let host = subject.host()?;
    let all = host.memory_bytes? as f64 + host.swap_bytes? as f64;
    let buffers = subject.bytes("shared_buffers")?;
    if buffers <= all || subject.kernel("vm.overcommit_memory") == Some("1") {
        return None;
    }
    let why = format!("the machine has {} of memory and swap", in_words(all));
    let advised = super::memory::quarter(subject.ram?);
    Some(Item::of(subject, "shared_buffers")?.stops(advised, why).done())
}
