//! How often checkpoints come, and how they write.

use super::bytes::in_words;
use super::input::Subject;
use super::{Item, ReviewItem, Standing, round_size, size};
use walwright_catalog::parameter;

const GB: f64 = 1_073_741_824.0;
const MB: f64 = 1_048_576.0;
/// Default of `min_wal_size`.
const LEAST: f64 = 80.0 * MB;
/// Share of the WAL disk's free space that WAL may take.
const OF_DISK: f64 = 0.25;

pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    [max_wal_size(subject), min_wal_size(subject), timeout(subject), completion(subject)]
        .into_iter()
        .flatten()
        .collect()
}

/// A checkpoint is asked for when WAL since the last one began reaches
/// `max_wal_size / (1 + checkpoint_completion_target)` (`CalculateCheckpointSegments`).
fn max_wal_size(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "max_wal_size")?;
    let now = subject.bytes("max_wal_size")?;
    let timeout = subject.seconds("checkpoint_timeout")?;
    let spread = subject.number("checkpoint_completion_target")?;
    let free = subject
        .host()
        .and_then(|host| host.wal_disk.as_ref())
        .and_then(|disk| disk.free_bytes)
        .map(|bytes| bytes as f64);
    let room = free.map_or(f64::INFINITY, |free| OF_DISK * (free + now));
    if let Some(rate) = subject.evidence.wal_rate.filter(|rate| *rate > 0.0) {
        let needed = 1.1 * rate * timeout * (1.0 + spread);
        let figures = format!(
            "{} of WAL a second make {} in {timeout:.0} s, so that time and not volume calls for checkpoints",
            in_words(rate),
            in_words(rate * timeout)
        );
        if needed <= now {
            return Some(item.because(figures).done());
        }
        let seconds = now / (1.0 + spread) / rate;
        let wanted = needed.min(room);
        if wanted <= now {
            let why = format!(
                "a checkpoint each {seconds:.0} s at this load, but the WAL disk has {} free: no room for more",
                in_words(free.unwrap_or(0.0))
            );
            return Some(item.because(why).done());
        }
        let cut = if needed > room {
            format!("; bounded by the {} free on the WAL disk", in_words(free.unwrap_or(0.0)))
        } else {
            String::new()
        };
        let why = format!(
            "at this load it forces a checkpoint each {seconds:.0} s, and each makes the next change of every page log it whole; {figures}{cut}"
        );
        let mut wanted = (wanted / GB).ceil() * GB;
        if wanted > room {
            wanted = (room / MB).floor() * MB;
        }
        return Some(item.advise(size(wanted), why).done());
    }
    let wanted = (8.0 * GB).min(room);
    if now <= GB && wanted > now {
        let why = "the default forces a checkpoint after about half a gigabyte of WAL, which a busy server writes in seconds; a run says how much it takes";
        return Some(item.advise(round_size(wanted), why).done());
    }
    if now > room {
        let why = format!("the WAL disk has {} free", in_words(free.unwrap_or(0.0)));
        return Some(item.advise(round_size(room), why).problem().done());
    }
    Some(item.done())
}

fn min_wal_size(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "min_wal_size")?;
    let least = subject.bytes("min_wal_size")?;
    let advised = max_wal_size(subject)
        .and_then(|item| parameter("max_wal_size")?.read(&item.advised?).ok()?.bytes());
    let most = advised.or_else(|| subject.bytes("max_wal_size"))?;
    if least > most {
        let why = format!(
            "more is kept than the {} of max_wal_size{} that checkpoints allow for",
            in_words(most),
            if advised.is_some() { ", as advised," } else { "" }
        );
        return Some(item.advise(round_size((most / 4.0).max(LEAST).min(most)), why).done());
    }
    if most >= 4.0 * GB && least < most / 16.0 {
        let why = format!(
            "after a quiet time all but {} of the {} are removed and made anew, zero by zero, when load comes back",
            in_words(least),
            in_words(most)
        );
        return Some(item.advise(round_size(most / 4.0), why).done());
    }
    Some(item.done())
}

fn timeout(subject: &Subject) -> Option<ReviewItem> {
    let mut item = Item::of(subject, "checkpoint_timeout")?;
    let now = subject.seconds("checkpoint_timeout")?;
    if now < 300.0 {
        let why = format!(
            "a checkpoint each {now:.0} s makes the next change of every page log it whole, that often"
        );
        return Some(item.advise("15min", why).done());
    }
    if now > 3600.0 {
        item.item.standing = Standing::Advice;
        let why = "recovery after a crash replays up to twice as much; and a measurement that ends before a checkpoint shows none of its cost";
        return Some(item.because(why).done());
    }
    if now <= 300.0 && subject.evidence.images.is_some_and(|images| images >= 0.2) {
        let images = 100.0 * subject.evidence.images.unwrap_or(0.0);
        let why = format!(
            "full-page images are up to {images:.0} % of the WAL; rarer checkpoints make fewer, and recovery longer"
        );
        return Some(item.advise("15min", why).done());
    }
    Some(item.done())
}

fn completion(subject: &Subject) -> Option<ReviewItem> {
    let item = Item::of(subject, "checkpoint_completion_target")?;
    if subject.number("checkpoint_completion_target")? < 0.8 {
        let why = "the checkpoint's writes are squeezed into a part of the time there is for them";
        return Some(item.advise("0.9", why).done());
    }
    Some(item.done())
}
