//! The WAL: its buffers, compression, level and files.

use super::bytes::in_words;
use super::input::Subject;
use super::{Item, ReviewItem, Standing};

const MB: f64 = 1_048_576.0;
/// Share of full-page images from which compressing them is worth its CPU.
const IMAGES: f64 = 0.2;
/// Share of busy processors beyond which there is no CPU to spend.
const BUSY: f64 = 0.9;

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    let mut items: Vec<ReviewItem> =
        [buffers(subject), compression(subject), level(subject), slots(subject)]
            .into_iter()
            .flatten()
            .collect();
    items.extend(copy_on_write(subject));
    items
}

fn buffers(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "wal_buffers")?;
    // XLOGChooseNumBuffers: a thirty-second of shared buffers, at most a segment.
    let now = match subject.bytes("wal_buffers") {
        Some(set) => set,
        None => (subject.bytes("shared_buffers")? / 32.0).clamp(8.0 * 8192.0, 16.0 * MB),
    };
    if subject.evidence.buffers_full.is_some_and(|full| full > 0.001) {
        let full = subject.evidence.buffers_full.unwrap_or(0.0);
        let why = format!(
            "{} were full {full:.3} times a transaction, and whoever finds them full writes WAL while others wait",
            in_words(now)
        );
        let wanted = if now < 16.0 * MB { "16MB" } else { "64MB" };
        return Some(match now < 64.0 * MB {
            true => item.advise(wanted, why).done(),
            false => item.because(why).done(),
        });
    }
    if now < 4.0 * MB && subject.evidence.buffers_full.is_none() {
        let why =
            format!("{} hold little of a busy second's WAL; it costs memory only", in_words(now));
        return Some(item.advise("16MB", why).done());
    }
    Some(item.because(format!("{}, and never full as far as is known", in_words(now))).done())
}

fn compression(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "wal_compression")?;
    let off = subject.is_off("wal_compression");
    let method = if subject.major >= 15 { "lz4" } else { "on" };
    let Some(images) = subject.evidence.images else { return Some(item.done()) };
    let share = format!("full-page images are up to {:.0} % of the WAL", 100.0 * images);
    if off && images >= IMAGES {
        if let Some(busy) = subject.evidence.busy.filter(|busy| *busy > BUSY) {
            let why = format!(
                "{share}, but the processors are {:.0} % busy: space checkpoints first",
                100.0 * busy
            );
            return Some(item.because(why).done());
        }
        let why = format!(
            "{share}; compressing them costs some CPU{}",
            if subject.major >= 15 { " (lz4 where the build has it, else pglz)" } else { "" }
        );
        return Some(item.advise(method, why).done());
    }
    let pglz = ["on", "pglz"].contains(&subject.text("wal_compression").unwrap_or_default());
    if pglz && subject.major >= 15 && images >= IMAGES {
        let why = format!("{share}; lz4 takes a fraction of pglz's CPU for them");
        return Some(item.advise("lz4", why).done());
    }
    Some(item.because(share).done())
}

fn level(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "wal_level")?;
    // Its weaker value is told with durability.
    if subject.text("wal_level") != Some("logical") {
        return None;
    }
    let schema = subject.record.and_then(|record| record.schema.as_ref());
    let unread = schema.is_some_and(|schema| {
        schema.slots.as_ref().is_some_and(|slots| !slots.iter().any(|slot| slot.logical))
            && schema.publications.as_ref().is_some_and(Vec::is_empty)
    });
    if unread {
        let why = "no logical slot and no publication reads what it adds to the WAL";
        return Some(item.advise("replica", why).done());
    }
    Some(item.because("logical decoding needs it; every update and delete logs more for it").done())
}

fn slots(subject: &Subject) -> Option<ReviewItem> {
    let mut item = Item::of(subject, "max_slot_wal_keep_size")?;
    let held = subject.record?.schema.as_ref()?.slots.as_ref()?;
    if subject.number("max_slot_wal_keep_size")? >= 0.0 || held.is_empty() {
        return None;
    }
    item.item.standing = Standing::Advice;
    let dead: Vec<&str> =
        held.iter().filter(|slot| !slot.active).map(|slot| slot.name.as_str()).collect();
    let why = match dead.as_slice() {
        [] => "a slot whose reader goes away holds WAL back until the disk is full: give it a bound below the disk's free space".to_owned(),
        dead => format!(
            "nobody reads slot {}: without a bound it holds WAL back until the disk is full",
            dead.join(", ")
        ),
    };
    Some(item.because(why).done())
}

/// On file systems that never overwrite, zeroing and renaming segments is work for nothing.
fn copy_on_write(subject: &Subject) -> Vec<ReviewItem> {
    let system = subject
        .host()
        .and_then(|host| host.wal_disk.as_ref())
        .map(|disk| disk.file_system.as_str());
    let Some(system) = system.filter(|system| ["zfs", "btrfs"].contains(system)) else {
        return Vec::new();
    };
    ["wal_init_zero", "wal_recycle"]
        .into_iter()
        .filter_map(|name| {
            let why = format!(
                "{system} writes every block to a new place, so what is prepared is not used"
            );
            Some(Item::of(subject, name)?.advise("off", why).done())
        })
        .collect()
}
