//! When an answer may leave: the durability barrier as a state machine.
//!
//! Server sessions commit without waiting for a flush; a barrier session flushes the WAL, again
//! and again while anybody waits. WAL is flushed in order, so a barrier that was *sent* after an
//! answer arrived covers all that the answer depends on. Nothing here does input or output:
//! events go in, and what may be released comes out.
//!
//! One `Barrier` belongs to one barrier session, that is to one life of one server. When that
//! session is lost the barrier is dropped with it: what it had not released is unknown for ever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The barrier that must have returned before an answer may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Epoch(u64);

impl Epoch {
    /// Nothing to wait for.
    pub const AT_ONCE: Epoch = Epoch(0);
}

/// How many transactions: those whose clients wait until they are durable, and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transactions {
    /// Their clients wait.
    pub awaited: u32,
    /// Their clients do not.
    pub unawaited: u32,
}

impl Transactions {
    /// One.
    pub fn one(waits: bool) -> Transactions {
        Transactions { awaited: u32::from(waits), unawaited: u32::from(!waits) }
    }

    /// Of both kinds.
    pub fn count(self) -> usize {
        self.awaited as usize + self.unawaited as usize
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Transactions) -> Transactions {
        Transactions {
            awaited: self.awaited + other.awaited,
            unawaited: self.unawaited + other.unawaited,
        }
    }

    fn without(self, other: Transactions) -> Transactions {
        Transactions {
            awaited: self.awaited.saturating_sub(other.awaited),
            unawaited: self.unawaited.saturating_sub(other.unawaited),
        }
    }
}

/// Transactions on relaxed sessions of one server that a crash could still take back: in flight,
/// or ended and not yet covered. All workers of a gateway share it, since a reader at one of
/// them can see what was committed through another. Both numbers are one word, so that no reader
/// sees one of them without the other.
#[derive(Debug, Clone, Default)]
pub struct Exposed(Arc<AtomicU64>);

impl Exposed {
    fn word(count: Transactions) -> u64 {
        u64::from(count.unawaited) << 32 | u64::from(count.awaited)
    }

    /// So many more.
    pub fn add(&self, count: Transactions) {
        self.0.fetch_add(Exposed::word(count), Ordering::SeqCst);
    }

    /// So many are covered.
    pub fn remove(&self, count: Transactions) {
        self.0.fetch_sub(Exposed::word(count), Ordering::SeqCst);
    }

    /// A client waits now for one that it did not wait for, or the other way round.
    fn change(&self, from: bool, to: bool) {
        let word = |waits| Exposed::word(Transactions::one(waits));
        self.0.fetch_add(word(to).wrapping_sub(word(from)), Ordering::SeqCst);
    }

    /// How many there are.
    pub fn count(&self) -> Transactions {
        let word = self.0.load(Ordering::SeqCst);
        Transactions { awaited: word as u32, unawaited: (word >> 32) as u32 }
    }
}

/// Which answers have to wait for which barrier.
#[derive(Debug)]
pub struct Barrier {
    exposed: Exposed,
    /// Relaxed transactions that were sent and have not ended.
    in_flight: Transactions,
    /// How many ended relaxed transactions wait for each barrier, in order.
    uncovered: VecDeque<(Epoch, Transactions)>,
    /// The newest barrier that was sent, and the newest that returned.
    sent: Epoch,
    returned: Epoch,
    /// The newest barrier that somebody waits for.
    wanted: Epoch,
}

impl Barrier {
    /// The barrier of a session that has just connected.
    pub fn new(exposed: Exposed) -> Barrier {
        Barrier {
            exposed,
            in_flight: Transactions::default(),
            uncovered: VecDeque::new(),
            sent: Epoch(0),
            returned: Epoch(0),
            wanted: Epoch(0),
        }
    }

    /// Takes over what an earlier barrier [left](Barrier::leave) uncovered.
    pub fn inherit(&mut self, left: Transactions) {
        if left.count() > 0 {
            self.uncovered.push_back((Epoch(self.sent.0 + 1), left));
            self.wait();
        }
    }

    /// The barrier's session is lost, perhaps without the server. How many transactions that
    /// have ended nothing covers: they stay exposed, since others may see them.
    pub fn leave(&mut self) -> Transactions {
        self.uncovered.drain(..).fold(Transactions::default(), |all, (_, count)| all.and(count))
    }

    /// A transaction is about to be sent to a relaxed session, of a client that waits or not.
    pub fn relaxed_begins(&mut self, waits: bool) {
        let one = Transactions::one(waits);
        self.in_flight = self.in_flight.and(one);
        self.exposed.add(one);
    }

    /// Its ReadyForQuery arrived: what its answer waits for, if its client wants to wait, which it
    /// did or not when it began. Until a barrier covers it, it can be taken back, and readers who
    /// see it wait.
    pub fn relaxed_ends(&mut self, waited: bool, waits: bool) -> Epoch {
        self.in_flight = self.in_flight.without(Transactions::one(waited));
        self.exposed.change(waited, waits);
        let (epoch, one) = (Epoch(self.sent.0 + 1), Transactions::one(waits));
        match self.uncovered.back_mut() {
            Some((of, count)) if *of == epoch => *count = count.and(one),
            _ => self.uncovered.push_back((epoch, one)),
        }
        if waits { self.wait() } else { Epoch::AT_ONCE }
    }

    /// Its session is lost before it ended: the server may still commit it. It stays exposed
    /// until somebody knows that it has ended, and a barrier [inherits](Barrier::inherit) it.
    pub fn relaxed_strays(&mut self, waited: bool) {
        self.in_flight = self.in_flight.without(Transactions::one(waited));
    }

    /// It ended and wrote nothing: nothing of it can be taken back.
    pub fn relaxed_ends_unwritten(&mut self, waited: bool) {
        let one = Transactions::one(waited);
        self.in_flight = self.in_flight.without(one);
        self.exposed.remove(one);
    }

    /// Something waits for the first barrier that will be sent after now.
    pub fn wait(&mut self) -> Epoch {
        self.wanted = Epoch(self.sent.0 + 1);
        self.wanted
    }

    /// Whether somebody waits for a barrier and none is on its way.
    pub fn is_due(&self) -> bool {
        self.sent == self.returned && self.wanted > self.sent
    }

    /// Whether to send a barrier now. If so, it counts as sent.
    pub fn send(&mut self) -> bool {
        let send = self.is_due();
        if send {
            self.sent = Epoch(self.sent.0 + 1);
        }
        send
    }

    /// The barrier that was sent returned: answers up to its epoch may leave.
    pub fn returns(&mut self) -> Epoch {
        self.returned = self.sent;
        while let Some((_, count)) = self.uncovered.pop_front_if(|(of, _)| *of <= self.returned) {
            self.exposed.remove(count);
        }
        self.returned
    }

    /// Up to where answers may leave.
    pub fn returned(&self) -> Epoch {
        self.returned
    }

    /// Whether a barrier is on its way.
    pub fn is_out(&self) -> bool {
        self.sent > self.returned
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        let uncovered = self.leave();
        self.exposed.remove(uncovered.and(self.in_flight));
    }
}

#[cfg(test)]
pub(crate) mod tests_support {
    use super::Epoch;

    /// An epoch by its number.
    pub(crate) fn epoch(number: u64) -> Epoch {
        Epoch(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::{Barriers, Exposures, Level, Until};

    /// A server as far as durability goes: commits go into the WAL in order, a flush makes
    /// durable what is in it when it begins.
    #[derive(Clone, Default)]
    struct World {
        wal: usize,
        durable: usize,
        writers: Vec<Writer>,
        readers: Vec<Reader>,
        flush: Flush,
        steps: Vec<&'static str>,
    }

    #[derive(Clone, Copy, Default, PartialEq)]
    enum Writer {
        #[default]
        Idle,
        Sent,
        /// Committed up to this place of the WAL; its answer is on the way.
        Committed(usize),
        /// Its answer waits.
        Held(usize, Epoch),
        Released,
    }

    #[derive(Clone, Copy, Default, PartialEq)]
    enum Reader {
        #[default]
        Idle,
        Sent,
        /// It saw everything up to this place of the WAL.
        Saw(usize),
        Held(usize, Epoch),
        Released,
    }

    #[derive(Clone, Copy, Default, PartialEq)]
    enum Flush {
        #[default]
        None,
        Sent,
        /// The server flushed; its answer is on the way.
        Done,
    }

    /// What the machine decided, to be replayed: a `Barrier` cannot be cloned, since it counts.
    #[derive(Clone, Copy, PartialEq)]
    enum Event {
        Begin,
        End,
        Told,
        Send,
        Return,
    }

    fn replay(events: &[Event]) -> (Barriers, Option<Epoch>) {
        let mut barriers = Barriers::new(Exposures::default(), 1);
        let mut last = None;
        for event in events {
            if *event == Event::Told {
                last = Some(barriers.told(Some(Level::Local), None).epoch);
                continue;
            }
            let barrier = first(&mut barriers);
            last = match event {
                Event::Begin => {
                    barrier.relaxed_begins(true);
                    None
                }
                Event::End => Some(barrier.relaxed_ends(true, true)),
                Event::Told => None,
                Event::Send => {
                    assert!(barrier.send());
                    None
                }
                Event::Return => Some(barrier.returns()),
            };
        }
        (barriers, last)
    }

    fn first(barriers: &mut Barriers) -> &mut Barrier {
        barriers.get_mut(0).expect("a life has one")
    }

    fn returned(events: &[Event]) -> Epoch {
        first(&mut replay(events).0).returned()
    }

    /// Walks every order of events and checks each release.
    fn explore(world: &World, events: &[Event], checked: &mut usize) {
        let step = |name: &'static str, event: Option<Event>, world: World| {
            let mut world = world;
            world.steps.push(name);
            let mut events = events.to_vec();
            events.extend(event);
            (world, events)
        };
        let mut next = Vec::new();
        for at in 0..world.writers.len() {
            match world.writers[at] {
                Writer::Idle => {
                    let (mut after, events) = step("send", Some(Event::Begin), world.clone());
                    after.writers[at] = Writer::Sent;
                    next.push((after, events));
                }
                Writer::Sent => {
                    let (mut after, events) = step("commit", None, world.clone());
                    after.wal += 1;
                    after.writers[at] = Writer::Committed(after.wal);
                    next.push((after, events));
                }
                Writer::Committed(place) => {
                    let (mut after, events) = step("answer", Some(Event::End), world.clone());
                    let epoch = replay(&events).1.unwrap();
                    after.writers[at] = Writer::Held(place, epoch);
                    next.push((after, events));
                }
                Writer::Held(..) | Writer::Released => {}
            }
        }
        for at in 0..world.readers.len() {
            match world.readers[at] {
                Reader::Idle => {
                    let (mut after, events) = step("ask", None, world.clone());
                    after.readers[at] = Reader::Sent;
                    next.push((after, events));
                }
                Reader::Sent => {
                    let (mut after, events) = step("see", None, world.clone());
                    after.readers[at] = Reader::Saw(after.wal);
                    next.push((after, events));
                }
                Reader::Saw(place) => {
                    let (mut after, events) = step("tell", Some(Event::Told), world.clone());
                    let epoch = replay(&events).1.unwrap();
                    after.readers[at] = Reader::Held(place, epoch);
                    next.push((after, events));
                }
                Reader::Held(..) | Reader::Released => {}
            }
        }
        match world.flush {
            Flush::None => {
                if first(&mut replay(events).0).send() {
                    let (mut after, events) = step("barrier", Some(Event::Send), world.clone());
                    after.flush = Flush::Sent;
                    next.push((after, events));
                }
            }
            Flush::Sent => {
                let (mut after, events) = step("flush", None, world.clone());
                after.durable = after.wal;
                after.flush = Flush::Done;
                next.push((after, events));
            }
            Flush::Done => {
                let (mut after, events) = step("return", Some(Event::Return), world.clone());
                after.flush = Flush::None;
                next.push((after, events));
            }
        }
        if next.is_empty() {
            let free = |epoch| epoch <= returned(events);
            assert!(
                world.writers.iter().all(|w| matches!(w, Writer::Released))
                    && world.readers.iter().all(|r| matches!(r, Reader::Released)),
                "somebody waits for ever: {:?}, {}",
                world.steps,
                free(Epoch(1)),
            );
        }
        for (mut world, events) in next {
            let returned = returned(&events);
            let durable = world.durable;
            let mut check = |place: usize, epoch: Epoch, steps: &[&str]| {
                let free = epoch <= returned;
                if free {
                    *checked += 1;
                    assert!(place <= durable, "told too early: {steps:?}");
                }
                free
            };
            for at in 0..world.writers.len() {
                if let Writer::Held(place, epoch) = world.writers[at]
                    && check(place, epoch, &world.steps)
                {
                    world.writers[at] = Writer::Released;
                }
            }
            for at in 0..world.readers.len() {
                if let Reader::Held(place, epoch) = world.readers[at]
                    && check(place, epoch, &world.steps)
                {
                    world.readers[at] = Reader::Released;
                }
            }
            explore(&world, &events, checked);
        }
    }

    fn world(writers: usize, readers: usize) -> World {
        World {
            writers: vec![Writer::Idle; writers],
            readers: vec![Reader::Idle; readers],
            ..World::default()
        }
    }

    #[test]
    fn in_no_order_of_events_is_an_answer_told_before_it_is_durable_or_never() {
        for (writers, readers) in [(1, 1), (2, 0), (2, 1), (1, 2), (3, 0)] {
            let mut checked = 0;
            explore(&world(writers, readers), &[], &mut checked);
            assert!(checked > writers + readers);
        }
    }

    #[test]
    fn a_barrier_that_was_sent_before_an_answer_arrived_does_not_release_it() {
        let mut barrier = Barrier::new(Exposed::default());
        barrier.relaxed_begins(true);
        barrier.relaxed_begins(true);
        let first = barrier.relaxed_ends(true, true);
        assert!(barrier.send());
        let second = barrier.relaxed_ends(true, true);
        assert_eq!(barrier.returns(), first);
        assert!(second > barrier.returned());
        assert!(barrier.send());
        assert_eq!(barrier.returns(), second);
        assert!(!barrier.send(), "nobody waits");
    }

    #[test]
    fn readers_wait_only_while_something_is_exposed_anywhere() {
        let exposures = Exposures::default();
        let mut here = Barriers::new(exposures.clone(), 1);
        let mut there = Barriers::new(exposures.clone(), 1);
        let mut waits = || here.told(Some(Level::Local), None).epoch != Epoch::AT_ONCE;
        assert!(!waits());
        let cover = there.relaxed_begins(None);
        assert!(waits());
        there.relaxed_ends(cover, true);
        assert!(first(&mut there).send());
        assert!(waits());
        first(&mut there).returns();
        assert!(!waits());
        there.relaxed_begins(None);
        drop(there);
        assert!(!waits());
    }

    #[test]
    fn what_a_lost_life_left_uncovered_stays_exposed_until_the_next_has_flushed() {
        let exposed = Exposed::default();
        let mut lost = Barrier::new(exposed.clone());
        lost.relaxed_begins(true);
        lost.relaxed_begins(true);
        lost.relaxed_ends(true, true);
        lost.relaxed_strays(true);
        let left = lost.leave();
        drop(lost);
        assert_eq!(exposed.count().awaited, 2);
        let mut next = Barrier::new(exposed.clone());
        next.inherit(left);
        assert!(next.send(), "nobody has to ask for it");
        next.returns();
        assert_eq!(exposed.count().awaited, 1, "one may still be committed");
        next.inherit(Transactions::one(true));
        assert!(next.send());
        next.returns();
        assert_eq!(exposed.count(), Transactions::default());
    }

    /// Who does not wait for its own commits sees those of others that do.
    #[test]
    fn who_waits_for_nothing_waits_for_what_others_wait_for() {
        let exposures = Exposures::default();
        let mut here = Barriers::new(exposures.clone(), 1);
        let mut there = Barriers::new(exposures, 1);
        let mine = here.relaxed_begins(None);
        here.relaxed_ends(mine, false);
        assert_eq!(here.told(None, None), Until::AT_ONCE, "its own");
        assert_ne!(here.told(Some(Level::On), None), Until::AT_ONCE, "who waits sees it");
        let other = there.relaxed_begins(Some(Level::On));
        assert_ne!(here.told(None, None), Until::AT_ONCE);
        there.relaxed_ends(other, true);
        assert_ne!(here.told(None, None), Until::AT_ONCE);
        assert!(first(&mut there).send());
        first(&mut there).returns();
        assert_eq!(here.told(None, None), Until::AT_ONCE);
        // It asked to wait while its transaction was open.
        let late = there.relaxed_begins(None);
        assert_eq!(here.told(None, None), Until::AT_ONCE);
        there.relaxed_ends(late, true);
        assert_ne!(here.told(None, None), Until::AT_ONCE);
    }
}
