//! What durable means to whom: `synchronous_commit` as each client asks for it, and the barriers
//! of one life of a server that prove it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::barrier::Transactions;
use crate::{Barrier, Epoch, Exposed};

/// How durable a commit has to be before its client is told, as `synchronous_commit` has it but
/// for `off`, which waits for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Flushed by the server.
    Local,
    /// Flushed, and written by synchronous standbys.
    RemoteWrite,
    /// Flushed, by synchronous standbys too.
    On,
    /// Flushed, and replayed by synchronous standbys.
    RemoteApply,
}

impl Level {
    /// Every level, by what it waits for.
    pub const ALL: [Level; 4] = [Level::Local, Level::RemoteWrite, Level::On, Level::RemoteApply];

    /// What a value of `synchronous_commit` asks for; `None` is `off`. What is not understood
    /// is taken for the strictest.
    pub fn of(value: &str) -> Option<Level> {
        let value = value.trim().trim_matches('\'').trim_matches('"').to_ascii_lowercase();
        match value.as_str() {
            "off" | "false" | "no" | "0" => None,
            "local" => Some(Level::Local),
            "remote_write" => Some(Level::RemoteWrite),
            "on" | "true" | "yes" | "1" => Some(Level::On),
            _ => Some(Level::RemoteApply),
        }
    }

    /// Its name as a value of `synchronous_commit`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Local => "local",
            Level::RemoteWrite => "remote_write",
            Level::On => "on",
            Level::RemoteApply => "remote_apply",
        }
    }
}

/// The barrier that an answer waits for: which of a life's, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Until {
    /// The barrier's place among those of its life.
    pub barrier: usize,
    /// How far it must have come.
    pub epoch: Epoch,
}

impl Until {
    /// Nothing to wait for.
    pub const AT_ONCE: Until = Until { barrier: 0, epoch: Epoch::AT_ONCE };

    /// Whether what waits for this has waited for the other too.
    pub fn covers(self, other: Until) -> bool {
        other == Until::AT_ONCE || self.barrier == other.barrier && self.epoch >= other.epoch
    }
}

/// What covers a relaxed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cover {
    /// The place of its barrier among those of its life.
    pub barrier: usize,
    /// Whether its client waited for that when it began.
    pub waits: bool,
}

/// Transactions of one server that can still be taken back, by the barrier that covers them.
/// All workers of a gateway share it.
#[derive(Debug, Clone, Default)]
pub struct Exposures {
    of: [Exposed; Level::ALL.len()],
    /// How many lives with barriers have begun, at any worker: those of a server that is no
    /// standby.
    begun: Arc<AtomicUsize>,
}

impl Exposures {
    /// What another gateway before the same server may have committed and not flushed: as long
    /// as it may, every reader waits for a flush, where standbys confirm for one of level `on`.
    pub const OTHERS: Left = {
        let (one, none) =
            (Transactions { awaited: 1, unawaited: 0 }, Transactions { awaited: 0, unawaited: 0 });
        [one, none, one, none]
    };

    /// Another gateway is before the same server from now on.
    pub fn share(&self) {
        self.of.iter().zip(Exposures::OTHERS).for_each(|(exposed, count)| exposed.add(count));
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.of.iter().map(|of| of.count().count()).sum()
    }
}

/// Transactions that nothing covers yet, by the levels of their barriers.
pub type Left = [Transactions; Level::ALL.len()];

/// The barriers of one life of a server: one where there are no synchronous standbys, where all
/// levels mean a flush by the server; else one for each level.
#[derive(Debug)]
pub struct Barriers {
    of: Vec<Barrier>,
    exposures: Exposures,
    /// How many lives with barriers had begun before.
    begun: usize,
}

impl Barriers {
    /// How many barriers a life has.
    pub fn count(standbys: bool) -> usize {
        if standbys { Level::ALL.len() } else { 1 }
    }

    /// The barriers of sessions that have just connected; none where the server is a standby.
    pub fn new(exposures: Exposures, count: usize) -> Barriers {
        let begun = exposures.begun.fetch_add(count.min(1), Ordering::SeqCst);
        let of = exposures.of.iter().take(count).map(|of| Barrier::new(of.clone())).collect();
        Barriers { of, exposures, begun }
    }

    /// Whether a standby may have been promoted since its life began: another worker has come to
    /// know the server as one that is written to. What is committed there can be read on sessions
    /// from before.
    pub fn are_outdated(&self) -> bool {
        self.of.is_empty() && self.exposures.begun.load(Ordering::SeqCst) > self.begun
    }

    /// The sessions are lost: how many transactions of each barrier nothing covers.
    pub fn leave(mut self) -> Left {
        let mut left = Left::default();
        for (left, barrier) in left.iter_mut().zip(&mut self.of) {
            *left = barrier.leave();
        }
        left
    }

    /// Takes over what the barriers of an earlier life left uncovered.
    pub fn inherit(&mut self, left: Left) {
        let last = self.of.len() - 1;
        for (place, left) in left.into_iter().enumerate() {
            // Without standbys a flush is all that there is to wait for.
            let covers = place.min(last);
            // In this order, so that no other worker sees it gone.
            self.exposures.of[covers].add(left);
            self.exposures.of[place].remove(left);
            self.of[covers].inherit(left);
        }
    }

    /// The barriers, in the order of their levels.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Barrier> {
        self.of.iter_mut()
    }

    /// One of them.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut Barrier> {
        self.of.get_mut(place)
    }

    /// Whether one of them is on its way.
    pub fn is_out(&self, place: usize) -> bool {
        self.of.get(place).is_some_and(Barrier::is_out)
    }

    /// Whether an answer may leave.
    pub fn has_returned(&self, until: Until) -> bool {
        self.of.get(until.barrier).is_some_and(|barrier| until.epoch <= barrier.returned())
    }

    /// The barrier of a level. What is not waited for is covered by the first.
    fn place(&self, level: Option<Level>) -> usize {
        level.map_or(0, |level| (level as usize).min(self.of.len().saturating_sub(1)))
    }

    /// A transaction of a client at a level is about to be sent to a relaxed session: the
    /// barrier that will cover it.
    pub fn relaxed_begins(&mut self, level: Option<Level>) -> Cover {
        let cover = Cover { barrier: self.place(level), waits: level.is_some() };
        self.of[cover.barrier].relaxed_begins(cover.waits);
        cover
    }

    /// It ended: what its answer waits for.
    pub fn relaxed_ends(&mut self, of: Cover, waits: bool) -> Until {
        match self.of.get_mut(of.barrier) {
            Some(barrier) => {
                Until { barrier: of.barrier, epoch: barrier.relaxed_ends(of.waits, waits) }
            }
            None => Until::AT_ONCE,
        }
    }

    /// Its session is lost before it ended.
    pub fn relaxed_strays(&mut self, of: Cover) {
        if let Some(barrier) = self.of.get_mut(of.barrier) {
            barrier.relaxed_strays(of.waits);
        }
    }

    /// It ended and wrote nothing.
    pub fn relaxed_ends_unwritten(&mut self, of: Cover) {
        if let Some(barrier) = self.of.get_mut(of.barrier) {
            barrier.relaxed_ends_unwritten(of.waits);
        }
    }

    /// An answer arrived that may tell of what others committed. It waits for the strictest
    /// barrier that one of those waits for, or for its own client's level, whichever is the
    /// stricter. `own` covers a transaction of its own client that is open. A client without a
    /// level waits for those alone whose clients do, and for the server's own flush: it may lose
    /// what it commits, and not what they do. Another worker's life may have more barriers than
    /// this one: its last covers theirs as far as it can, and tells in return that standbys are
    /// named by now.
    pub fn told(&mut self, level: Option<Level>, own: Option<Cover>) -> Until {
        let exposed = |place: usize| {
            let count = self.exposures.of[place].count();
            let own = own.filter(|own| own.barrier == place && (own.waits || level.is_some()));
            let count = if level.is_some() { count.count() } else { count.awaited as usize };
            count > usize::from(own.is_some())
        };
        let Some(last) = self.of.len().checked_sub(1) else { return Until::AT_ONCE };
        let Some(highest) = (0..Level::ALL.len()).rev().find(|&place| exposed(place)) else {
            return Until::AT_ONCE;
        };
        let strictest = highest.min(last).max(self.place(level));
        self.wait(level.map_or(0, |_| strictest))
    }

    /// Something waits for the first of these barriers that is sent from now on.
    pub fn wait(&mut self, place: usize) -> Until {
        match self.of.get_mut(place) {
            Some(barrier) => Until { barrier: place, epoch: barrier.wait() },
            None => Until::AT_ONCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_standbys_every_level_is_one_flush() {
        let mut barriers = Barriers::new(Exposures::default(), 1);
        for level in Level::ALL {
            let cover = barriers.relaxed_begins(Some(level));
            assert_eq!(cover.barrier, 0);
            let until = barriers.relaxed_ends(cover, true);
            assert!(!barriers.has_returned(until));
            let barrier = barriers.get_mut(0).unwrap();
            assert!(barrier.send());
            barrier.returns();
            assert!(barriers.has_returned(until));
        }
    }

    #[test]
    fn a_reader_waits_as_long_as_the_one_whose_row_it_may_have_seen() {
        for writer in Level::ALL {
            for reader in Level::ALL {
                let exposures = Exposures::default();
                let mut barriers = Barriers::new(exposures.clone(), 4);
                assert_eq!(barriers.told(Some(reader), None), Until::AT_ONCE);
                // The writer may be at another worker.
                let mut others = Barriers::new(exposures, 4);
                let cover = others.relaxed_begins(Some(writer));
                let until = barriers.told(Some(reader), None);
                assert_eq!(until.barrier, writer.max(reader) as usize);
                assert!(!barriers.has_returned(until));
                others.relaxed_ends(cover, true);
                assert_ne!(barriers.told(Some(reader), None), Until::AT_ONCE);
                let covers = others.get_mut(cover.barrier).unwrap();
                assert!(covers.send());
                covers.returns();
                assert_eq!(barriers.told(Some(reader), None), Until::AT_ONCE);
            }
        }
    }

    #[test]
    fn a_life_with_one_barrier_waits_for_what_one_with_more_has_exposed() {
        for writer in Level::ALL {
            let exposures = Exposures::default();
            let mut alone = Barriers::new(exposures.clone(), 1);
            let mut others = Barriers::new(exposures, 4);
            assert_eq!(alone.told(Some(Level::On), None), Until::AT_ONCE);
            others.relaxed_begins(Some(writer));
            let until = alone.told(Some(Level::On), None);
            assert_eq!(until.barrier, 0);
            assert!(!alone.has_returned(until), "{writer:?}");
        }
    }

    #[test]
    fn a_standbys_life_is_over_when_another_worker_finds_it_promoted() {
        let exposures = Exposures::default();
        drop(Barriers::new(exposures.clone(), 1));
        let before = Barriers::new(exposures.clone(), 0);
        let written = Barriers::new(exposures.clone(), 1);
        assert!(before.are_outdated() && !written.are_outdated());
        assert!(!Barriers::new(exposures, 0).are_outdated());
    }

    #[test]
    fn one_does_not_wait_for_what_oneself_has_open() {
        let mut barriers = Barriers::new(Exposures::default(), 4);
        let mine = barriers.relaxed_begins(Some(Level::On));
        assert_eq!(barriers.told(Some(Level::On), Some(mine)), Until::AT_ONCE);
        barriers.relaxed_begins(Some(Level::On));
        assert_ne!(barriers.told(Some(Level::On), Some(mine)), Until::AT_ONCE);
    }

    #[test]
    fn beside_another_gateway_every_reader_waits_until_a_barrier_after_it_has_returned() {
        for count in [1, Level::ALL.len()] {
            for level in Level::ALL {
                let exposures = Exposures::default();
                exposures.share();
                let mut barriers = Barriers::new(exposures.clone(), count);
                for _ in 0..2 {
                    let until = barriers.told(Some(level), None);
                    assert_ne!(until, Until::AT_ONCE);
                    let covers = barriers.get_mut(until.barrier).unwrap();
                    assert!(covers.send());
                    covers.returns();
                    assert!(barriers.has_returned(until));
                }
                // The other has gone: what it left is covered by the next barriers.
                barriers.inherit(Exposures::OTHERS);
                assert_ne!(barriers.told(Some(level), None), Until::AT_ONCE);
                for barrier in barriers.iter_mut() {
                    assert!(barrier.send() || count > 1, "nobody has to ask for it");
                    barrier.returns();
                }
                assert_eq!(barriers.told(Some(level), None), Until::AT_ONCE);
            }
        }
    }

    #[test]
    fn values_of_synchronous_commit_are_read_as_the_server_reads_them() {
        for (value, level) in [
            ("off", None),
            ("'OFF'", None),
            ("0", None),
            ("local", Some(Level::Local)),
            ("on", Some(Level::On)),
            ("true", Some(Level::On)),
            ("remote_apply", Some(Level::RemoteApply)),
            ("anything else", Some(Level::RemoteApply)),
        ] {
            assert_eq!(Level::of(value), level, "{value}");
        }
        for level in Level::ALL {
            assert_eq!(Level::of(level.name()), Some(level));
        }
    }
}
