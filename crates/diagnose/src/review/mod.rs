//! The settings review: each setting that bears on writes, its value, what it
//! should be on this machine and under this load, why, and what a change can lose.
//!
//! It reads settings from a configuration file, a live server or a record alike.
//! What would need the machine or a load is said as advice only where they are
//! known; without them the review keeps to what is wrong on any machine.

mod bytes;
mod checkpoints;
mod commit;
mod contradictions;
mod corrected;
mod durability;
mod evidence;
mod input;
mod memory;
mod observation;
mod refused;
mod stops;
mod suspicious;
mod vacuum;
mod wal;
mod workers;

#[cfg(test)]
mod tests;

use serde::Serialize;
use walwright_catalog::{Parameter, parameter, setting};

pub use corrected::{Corrected, corrected};
pub use input::{Asked, Given, Machine, ReviewInput};

use input::Subject;

/// How a setting stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The server does not start with it.
    Stops,
    /// It loses data, keeps the server from working, or is a plain defect.
    Problem,
    /// Another value would serve better.
    Advice,
    /// Nothing to change.
    Fine,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReviewItem {
    /// Name; a kernel value by its sysctl name.
    pub name: String,
    /// The value in force, as a person writes it.
    pub now: String,
    /// Where it is set: `file:line`, or `default`.
    pub place: String,
    /// What it should be; `None` where it is fine, or where no value can be named.
    pub advised: Option<String>,
    /// The setting that a misspelled name was to be.
    pub meant: Option<String>,
    /// How it stands.
    pub standing: Standing,
    /// Why, with the figures it rests on.
    pub why: String,
    /// What the value in force can lose, in words.
    pub can_lose: Option<String>,
    /// What the change advised can lose, else any change of it: S, D, X, E or T.
    pub class: String,
    /// What a change takes: reload, restart, live.
    pub apply: String,
}

/// A review.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Review {
    /// The outcome in one sentence.
    pub verdict: String,
    /// Major version it was made for.
    pub major: u32,
    /// What was known of the machine, in words.
    pub machine: String,
    /// The load that the advice rests on, in words; `None` without a record.
    pub load: Option<String>,
    /// Which server program checked names and values, in words; `None` where none did.
    pub asked: Option<String>,
    /// The settings: what keeps the server from starting first, then problems.
    pub items: Vec<ReviewItem>,
    /// Settings that do not go together, each a sentence.
    pub contradictions: Vec<String>,
    /// What could not be judged and why, each a sentence.
    pub not_observable: Vec<String>,
}

impl Review {
    /// Whether the server does not start, or can lose data that it said were safe.
    pub fn fails(&self) -> bool {
        self.items.iter().any(|item| item.standing == Standing::Stops || item.loses())
    }
}

impl ReviewItem {
    /// Whether the value in force can lose data.
    pub fn loses(&self) -> bool {
        self.standing <= Standing::Problem && self.can_lose.is_some()
    }
}

/// Reviews settings. Pure: the same input gives the same review.
pub fn review(input: &ReviewInput) -> Review {
    let subject = Subject::of(input);
    let mut items: Vec<ReviewItem> = [
        durability::items,
        memory::items,
        wal::items,
        checkpoints::items,
        commit::items,
        vacuum::items,
        workers::items,
        observation::items,
        suspicious::items,
    ]
    .iter()
    .flat_map(|family| family(&subject))
    .collect();
    items.extend(stops::items(&subject));
    let mut items = worst(items);
    let beside = stops::beside(&subject);
    items.retain(|item| item.standing != Standing::Fine || !beside.contains(&item.name.as_str()));
    items.sort_by_key(|item| (item.standing, !item.loses()));
    let mut not_observable = Vec::new();
    if subject.ram.is_none() || subject.processors.is_none() {
        not_observable.push(
            "memory and processors of the server's machine are not known, so sizes were not judged against them"
                .to_owned(),
        );
    }
    if input.record.is_none() {
        not_observable.push(
            "no record of a load: max_wal_size, wal_buffers, wal_compression and commit_delay are judged without WAL rate and flush time"
                .to_owned(),
        );
    }
    if !subject.unread.is_empty() {
        not_observable.push(format!("not read, and not judged: {}", subject.unread.join(", ")));
    }
    Review {
        verdict: verdict(&items),
        major: subject.major,
        machine: subject.machine_in_words(),
        load: subject.evidence.in_words(),
        asked: input.asked.as_ref().map(|asked| asked.by.clone()),
        items,
        contradictions: contradictions::found(&subject),
        not_observable,
    }
}

/// The worst that is said of each setting, in the order of what was said first.
fn worst(all: Vec<ReviewItem>) -> Vec<ReviewItem> {
    let mut items: Vec<ReviewItem> = Vec::with_capacity(all.len());
    for item in all {
        match items.iter_mut().find(|other| other.name == item.name) {
            Some(other) if item.standing < other.standing => {
                *other = ReviewItem { can_lose: item.can_lose.or(other.can_lose.take()), ..item };
            }
            Some(_) => {}
            None => items.push(item),
        }
    }
    items
}

/// What the review comes to.
fn verdict(items: &[ReviewItem]) -> String {
    let count = |of: &dyn Fn(&ReviewItem) -> bool| items.iter().filter(|item| of(item)).count();
    let settings = |n: usize| if n == 1 { "1 setting".to_owned() } else { format!("{n} settings") };
    let stops = count(&|item| item.standing == Standing::Stops);
    let loses = count(&|item| item.loses());
    let problems = count(&|item| item.standing == Standing::Problem && !item.loses());
    let advice = count(&|item| item.standing == Standing::Advice);
    let mut parts = Vec::new();
    if stops > 0 {
        parts.push(format!("the server does not start with {}", settings(stops)));
    }
    for (n, what) in
        [(loses, "can lose data"), (problems, "cause problems"), (advice, "could be better")]
    {
        if n > 0 {
            let what = if n == 1 { what.replace("cause ", "causes ") } else { what.to_owned() };
            parts.push(format!("{} {what}", settings(n)));
        }
    }
    match parts.is_empty() {
        true => "nothing to change".to_owned(),
        false => parts.join("; "),
    }
}

/// Makes items of one subject.
struct Item<'s, 'a> {
    subject: &'s Subject<'a>,
    item: ReviewItem,
}

impl<'s, 'a> Item<'s, 'a> {
    /// The setting called `name`, fine until said otherwise; `None` where this version
    /// does not have it or its value is not known.
    fn of(subject: &'s Subject<'a>, name: &str) -> Option<Item<'s, 'a>> {
        let now = subject.value(name)?.to_string();
        Some(Self::fine(subject, setting(name)?, now, subject.place(name)))
    }

    /// A value of the kernel, where it is known.
    fn kernel(subject: &'s Subject<'a>, name: &str) -> Option<Item<'s, 'a>> {
        let now = subject.kernel(name)?.to_owned();
        Some(Self::fine(subject, parameter(name)?, now, "kernel".to_owned()))
    }

    fn fine(
        subject: &'s Subject<'a>,
        parameter: &Parameter,
        now: String,
        place: String,
    ) -> Item<'s, 'a> {
        let item = ReviewItem {
            name: parameter.name.clone(),
            now,
            place,
            advised: None,
            meant: None,
            standing: Standing::Fine,
            why: parameter.what.clone(),
            can_lose: None,
            class: parameter.class.to_string(),
            apply: parameter.apply(subject.major).words().to_owned(),
        };
        Item { subject, item }
    }

    /// Advises a value, unless it is the one in force.
    fn advise(mut self, value: impl Into<String>, why: impl Into<String>) -> Self {
        let (name, value) = (self.item.name.as_str(), value.into());
        let parameter = setting(name).or_else(|| parameter(name));
        let value =
            parameter.and_then(|p| p.nearest_in(self.subject.major, &value)).unwrap_or(value);
        let same = parameter
            .and_then(|p| p.read(&value).ok())
            .is_some_and(|value| self.subject.value(name) == Some(&value));
        if !same {
            self.item.standing = self.item.standing.min(Standing::Advice);
            let lowers = parameter.is_some_and(|p| p.weaker.contains_key(&value));
            if !lowers && ["D", "X"].contains(&self.item.class.as_str()) {
                self.item.class = "S".to_owned();
            }
            self.item.advised = Some(value);
            self.item.why = why.into();
        }
        self
    }

    /// Says why it is as it is.
    fn because(mut self, why: impl Into<String>) -> Self {
        self.item.why = why.into();
        self
    }

    /// Says that the server does not start with it, and what it would start with.
    fn stops(mut self, value: impl Into<String>, why: impl Into<String>) -> Self {
        self = self.advise(value, why);
        self.item.standing = Standing::Stops;
        self
    }

    /// Calls it a problem.
    fn problem(mut self) -> Self {
        self.item.standing = Standing::Problem;
        self
    }

    fn done(self) -> ReviewItem {
        self.item
    }
}

/// Bytes as a setting of memory is written: whole megabytes, or gigabytes where even.
fn size(bytes: f64) -> String {
    const MB: f64 = 1_048_576.0;
    let megabytes = (bytes / MB).round().max(1.0);
    if megabytes >= 1024.0 && megabytes % 1024.0 == 0.0 {
        format!("{}GB", megabytes / 1024.0)
    } else {
        format!("{megabytes}MB")
    }
}

/// Bytes rounded down to a size that a person would choose: a power of two of megabytes
/// below 1 GB, whole gigabytes above.
pub(crate) fn round_size(bytes: f64) -> String {
    const MB: f64 = 1_048_576.0;
    let megabytes = (bytes / MB).max(1.0);
    let round = if megabytes < 1024.0 {
        megabytes.log2().floor().exp2()
    } else {
        (megabytes / 1024.0).floor() * 1024.0
    };
    size(round * MB)
}
