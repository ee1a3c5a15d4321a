//! D37: durability traded away, told in words.

use walwright_catalog::{DurabilityClass, parameters};

use super::input::Subject;
use super::{Item, ReviewItem};

/// Every setting that can lower durability, fine or not: these are worth a line each.
pub(super) fn items(subject: &Subject) -> Vec<ReviewItem> {
    parameters()
        .iter()
        .filter(|p| !p.weaker.is_empty())
        .filter_map(|parameter| {
            let item = Item::of(subject, &parameter.name)?;
            let now = item.item.now.clone();
            if now == "logical" {
                // More than enough for durability; the WAL's review tells what it costs.
                return None;
            }
            let Some(loss) = parameter.weaker.get(&now) else {
                return Some(item.done());
            };
            if is_harmless(subject, &parameter.name, &now) {
                let why = format!(
                    "without a synchronous standby {now} is the same as on: nothing is lost and nothing gained"
                );
                return Some(item.because(why).done());
            }
            let back = parameter.default(subject.major).unwrap_or("on").to_owned();
            let mut item = item.advise(back, said(subject, &parameter.name, loss));
            if matches!(parameter.class, DurabilityClass::X) || parameter.name == "synchronous_commit"
            {
                item = item.problem();
            }
            item.item.can_lose = Some(loss.clone());
            Some(item.done())
        })
        .collect()
}

/// `local` and `remote_write` differ from `on` only towards a synchronous standby;
/// without standbys and archives, `minimal` and no WAL senders take away nothing
/// that was there.
fn is_harmless(subject: &Subject, name: &str, now: &str) -> bool {
    let standbys = subject.text("synchronous_standby_names").is_some_and(|s| !s.trim().is_empty());
    name == "synchronous_commit" && now != "off" && !standbys
}

/// The loss with the figures of this server.
fn said(subject: &Subject, name: &str, loss: &str) -> String {
    match (name, subject.seconds("wal_writer_delay")) {
        ("synchronous_commit", Some(delay)) if subject.is_off(name) => {
            format!("{loss} Here that is up to {:.0} ms of commits.", 3.0 * delay * 1e3)
        }
        _ => loss.to_owned(),
    }
}
