//! What became of documents that all write, as it was told to anyone.

use std::collections::{HashMap, HashSet};

use super::model::{Violation, ensure};

/// A moment at which a request was begun or an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(u64);

/// The history of documents, each known by its address, in which a version is written once,
/// holds one body, and is not followed by an earlier one.
#[derive(Default)]
pub(super) struct History {
    now: u64,
    documents: HashMap<String, Told>,
}

#[derive(Default)]
struct Told {
    /// The tag of each version that was told.
    tags: HashMap<i32, u64>,
    /// Versions whose writers were told so.
    written: HashSet<i32>,
    /// Each version that was the last, from when it was told.
    last: Vec<(Moment, i32)>,
    /// Since when it is known to be gone.
    gone: Option<Moment>,
    deleted: bool,
}

impl Told {
    /// Notes a version that was told in an answer to a request that was begun then.
    fn is(
        &mut self,
        begun: Moment,
        now: Moment,
        version: i32,
        tag: Option<u64>,
    ) -> Result<(), Violation> {
        ensure!(self.gone.is_none_or(|gone| gone > begun), "it is gone, and was told again");
        let earlier = self.last.partition_point(|(when, _)| *when < begun);
        let last = earlier.checked_sub(1).map_or(0, |index| self.last[index].1);
        ensure!(version >= last, "version {version} was told after version {last}");
        if let Some(tag) = tag {
            let told = *self.tags.entry(version).or_insert(tag);
            ensure!(told == tag, "version {version} has tag {tag}, and had {told}");
        }
        if self.last.last().is_none_or(|(_, last)| version > *last) {
            self.last.push((now, version));
        }
        Ok(())
    }
}

impl History {
    /// The moment at which a request is begun.
    pub(super) fn moment(&mut self) -> Moment {
        self.now += 1;
        Moment(self.now)
    }

    fn of(&mut self, id: &str) -> (Moment, &mut Told) {
        let now = self.moment();
        (now, self.documents.entry(id.to_owned()).or_default())
    }

    /// Notes that a version was read; a list may leave its tag out.
    pub(super) fn read(
        &mut self,
        begun: Moment,
        id: &str,
        version: i32,
        tag: Option<u64>,
    ) -> Result<(), Violation> {
        let (now, told) = self.of(id);
        told.is(begun, now, version, tag).map_err(|violation| violation.of(id))
    }

    /// Notes that a writer was told that a version is its own.
    pub(super) fn wrote(
        &mut self,
        begun: Moment,
        id: &str,
        version: i32,
        tag: u64,
    ) -> Result<(), Violation> {
        let (now, told) = self.of(id);
        told.is(begun, now, version, Some(tag)).map_err(|violation| violation.of(id))?;
        ensure!(told.written.insert(version), "{id}: two were told that they wrote {version}");
        let before = told.last.partition_point(|(when, _)| *when < begun);
        let seen = before.checked_sub(1).is_some_and(|index| told.last[index].1 >= version);
        ensure!(!seen, "{id}: version {version} was written when it had been there before");
        Ok(())
    }

    /// Notes that a document is not there, whether it was deleted by who was told or by another.
    pub(super) fn gone(&mut self, id: &str, deleted: bool) -> Result<(), Violation> {
        let (now, told) = self.of(id);
        ensure!(!(deleted && told.deleted), "{id}: two were told that they deleted it");
        told.deleted |= deleted;
        told.gone.get_or_insert(now);
        Ok(())
    }
}
