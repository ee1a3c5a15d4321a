//! One server session: what was sent on it, and whose each answer is.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use thiserror::Error;
use walwright_wire::backend::{self, ErrorFields};
use walwright_wire::{CancelKey, ConnectOptions, Stream};

use crate::dial::{Opened, SessionId};
use crate::levels::Cover;
use crate::messages::columns_changed;
use crate::prepared::{Columns, Definitions, Known, OWN_PREFIX, OnSession, Prepared, Told};
use crate::settings::{Change, Settings};
use crate::statement::{Effects, Pin, contains_word};
use crate::unit::{End, LONGEST, Name, Naming, Part, Unit, frame_into, framed};
use crate::{ClientId, Hold, Level, SessionKind};

/// Most prepared statements that a session keeps.
const MOST_STATEMENTS: usize = 200;
/// The number that no statement has.
const NO_STATEMENT: u64 = 0;
/// A message at least this long is passed on before it has arrived whole.
const LONG: usize = 16 * 1024;

/// What a part of a unit is answered with.
#[derive(Debug, Clone)]
enum Expect {
    /// ParseComplete: told to the client under the name it gave, or kept from it.
    Parse(Arc<Prepared>, Option<Naming>),
    /// An error that says that the name is taken: a statement by its number, and what its client
    /// calls it.
    Taken(u64, Name),
    /// An error, where the client is told this one: its statement would not be what it was.
    Refused(Vec<u8>),
    /// EmptyQueryResponse, where the client is told that a statement is deallocated.
    Deallocate(Naming),
    /// BindComplete, for one of the gateway's own statements by its number.
    Bind(Option<u64>),
    /// RowDescription or NoData, for a statement after ParameterDescription.
    Describe(Option<Described>),
    /// CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// CloseComplete: told, or kept from the client where it is for one of the gateway's own
    /// statements.
    Close { own: Option<u64> },
    /// All that comes up to ReadyForQuery: a simple Query or a function call.
    Query,
    /// Nothing: the gateway answers with a message of this type.
    Synthesise(u8, Naming),
}

/// One of the gateway's own statements that is described.
#[derive(Debug, Clone)]
struct Described {
    /// Its number.
    id: u64,
    /// Which Parse message of the session prepared it.
    parse: u64,
    /// The client's whose it is.
    told: Option<Arc<Told>>,
}

/// One unit that was sent and has not been answered.
#[derive(Debug)]
pub struct Slot {
    /// Whose it is.
    pub client: ClientId,
    /// When it was sent.
    pub since: Instant,
    expects: VecDeque<Expect>,
    /// All that still comes is the answer of a simple Query or a function call.
    simple: bool,
    /// Its Sync, or its Query, was sent.
    synced: bool,
    /// A Sync was sent which the server reads past while it copies.
    read_past: bool,
    /// Whether an error came.
    pub failed: bool,
    /// The barrier that covers its transaction, if that is relaxed and its own.
    pub covers: Option<Cover>,
    /// What it was, where it may be sent once more: a cancel that was meant for another may
    /// hit it.
    pub again: Option<Box<Unit>>,
    /// Whether it was hit by such a cancel, so that its answer is not told.
    pub struck: bool,
    /// Whether all it did was taken back, unless something was [committed](Slot::committed).
    pub rolled_back: bool,
    /// The gateway's own question whether the transaction has written.
    asks: bool,
    /// The gateway's own question whether statements of its client are still what it was told.
    pub looks: bool,
    /// Commands that have completed.
    completed: usize,
    /// Whether a command has completed or there was none, or a function has returned.
    done: bool,
    /// Whether something may have been committed, although the unit goes on.
    pub committed: bool,
    /// Whether one of its statements may commit before it ends.
    commits_within: bool,
    /// Whether a ROLLBACK, or the COMMIT of what had failed, has ended the block in which the unit
    /// began.
    pub left_block: bool,
    /// What it does to the settings of its session, if it is run and all goes well.
    change: Option<Change>,
    /// What the client's statements are not called after all, in its order: an error came before.
    pub undone: Vec<Naming>,
}

/// Who may have changed, by what it called, how a session commits since that was set: no text tells
/// what a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    /// Nobody.
    Nobody,
    /// One client.
    By(ClientId),
    /// More than one.
    ByMany,
}

impl Slot {
    /// What it did to the settings of its session, where it was run: what was only bound is not.
    pub fn changed(&self) -> Option<&Change> {
        self.change.as_ref().filter(|_| !self.failed && self.completed > 0)
    }

    fn new(client: ClientId, simple: bool) -> Slot {
        Slot {
            client,
            since: Instant::now(),
            expects: VecDeque::new(),
            simple,
            synced: false,
            read_past: false,
            failed: false,
            covers: None,
            again: None,
            struck: false,
            rolled_back: false,
            asks: false,
            looks: false,
            completed: 0,
            done: false,
            committed: false,
            commits_within: false,
            left_block: false,
            change: None,
            undone: Vec::new(),
        }
    }
}

/// What arrived.
#[derive(Debug)]
pub enum Event {
    /// Bytes of an answer, as a range of the input.
    Answer(ClientId, Range<usize>),
    /// A NotificationResponse, a range of the input, for what the client sent itself.
    OwnNotification(ClientId, Range<usize>),
    /// A whole message that is told in place of the server's.
    Said(ClientId, Vec<u8>),
    /// A message without a body that belongs into an answer.
    Synthesise(ClientId, u8),
    /// What a client was sent may leave now: it goes on only after that.
    Open(ClientId),
    /// The server has told a client something before its statement ends.
    Noticed(ClientId),
    /// A unit was answered, with the state of the transaction.
    Ended(Slot, u8),
    /// The server has forgotten the prepared statements of the session, and with DISCARD ALL
    /// everything else; whether that is all that its unit does.
    Forgotten(ClientId, Forgotten, bool),
    /// The server says why it ends the session.
    Fatal,
}

/// What a server session has forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// Its prepared statements.
    Statements,
    /// All.
    Everything,
}

/// The server said what does not belong to what was sent. Nothing more on this session can be
/// told to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the server sent message '{}' where it has no place", char::from(*.0))]
pub struct Mismatch(pub u8);

/// One server session.
#[derive(Debug)]
pub struct Session {
    /// Its connection.
    pub stream: Stream,
    /// Its pool.
    pub pool: usize,
    /// Which session it is.
    pub id: SessionId,
    /// Its kind.
    pub kind: SessionKind,
    /// `synchronous_commit` as it had it when it was opened.
    pub level: Option<Level>,
    /// The server's process.
    pub process: u32,
    /// Where it leads to and what cancels on it.
    pub cancels: Option<Box<(ConnectOptions, CancelKey)>>,
    /// When it was opened, and when something was sent on it last.
    pub since: Instant,
    /// When something was sent on it last.
    pub used: Instant,
    /// When it is to be looked at whether it has served long enough.
    pub timer: Option<Instant>,
    /// Whether it is closed as soon as nobody needs it.
    pub retires: bool,
    /// The client whose statement is being cancelled: nothing more is sent until that is over.
    pub cancelling: Option<ClientId>,
    /// Whether the server has taken the request.
    pub cancel_sent: bool,
    /// State of its transaction as ReadyForQuery told last: `I`, `T` or `E`.
    pub status: u8,
    /// When its transaction began.
    pub began: Option<Instant>,
    /// Whether its transaction has sent a statement that writes, as far as keywords tell.
    pub writes: bool,
    /// Whether the server said that its transaction has written nothing.
    pub unwritten: bool,
    /// Bytes to send, and how many of them were.
    pub out: Vec<u8>,
    /// How many bytes of `out` were sent.
    pub out_sent: usize,
    /// What was sent and not answered, in order.
    pub ledger: VecDeque<Slot>,
    /// The client that keeps it.
    pub owner: Option<ClientId>,
    /// Whether nothing more is sent on it until it is idle, since somebody needs it alone.
    pub reserved: bool,
    /// Who may have changed how it commits.
    pub touched: Touched,
    /// Units that have ended and of which the worker has not heard yet: one read may end several.
    pub unsettled: usize,
    /// The barrier that covers a transaction that is open on it.
    pub exposed: Option<Cover>,
    /// Whether its client may have changed how long it waits when it commits.
    pub opted_out: bool,
    /// Since when what is in front of the ledger is there, and how often the server was asked
    /// whether that waits for a lock.
    pub front: (Instant, u32),
    /// Whether it is looked at after a while, since statements stand behind others on it.
    pub watched: bool,
    /// Whether what sequences gave last may be of its owner: the rest is forgotten, or the owner
    /// may have taken numbers since.
    pub own_sequences: bool,
    /// Whether it did not take a statement of the gateway: what was sent behind that ran without.
    pub spoilt: bool,
    /// Whether its client may have left something on it that DISCARD ALL does not undo.
    marked: bool,
    /// Whether the server reads what a client copies in.
    pub copying_in: bool,
    /// Whether the end of that was sent.
    pub copy_ends: bool,
    /// Why the server ends it, as it said.
    pub last_words: Option<Box<ErrorFields>>,
    /// Settings of clients that it has.
    pub settings: Settings,
    /// Parse messages that were sent on it.
    pub parses: u64,
    /// Whether its transaction may have changed what statements mean.
    pub redefines: bool,
    statements: OnSession,
    /// What they mean now.
    definitions: Definitions,
    /// Statements that the server is to close before the next is prepared: their columns have
    /// changed, or an error had it skip their Close.
    stale: Vec<u64>,
    /// Statements that the unit which is sent next must not run, and what its client is told.
    refused: Vec<(u64, Vec<u8>)>,
    /// Whether a notice came that was not [told of](Event::Noticed).
    noticed: bool,
    carry: Vec<u8>,
    /// Bytes of a long message that are still to come, and whose they are.
    passing: usize,
}

impl Session {
    /// A session that has just logged in.
    pub fn new(id: SessionId, pool: usize, kind: SessionKind, opened: Opened) -> Session {
        let now = Instant::now();
        let address = opened.address;
        Session {
            stream: opened.stream,
            pool,
            id,
            kind,
            level: opened.level,
            process: opened.process,
            cancels: opened.key.map(|key| Box::new((address, key))),
            since: now,
            used: now,
            timer: None,
            retires: false,
            cancelling: None,
            cancel_sent: false,
            status: b'I',
            began: None,
            writes: false,
            unwritten: false,
            out: Vec::new(),
            out_sent: 0,
            ledger: VecDeque::new(),
            owner: None,
            reserved: false,
            touched: Touched::Nobody,
            unsettled: 0,
            exposed: None,
            opted_out: false,
            front: (Instant::now(), 0),
            watched: false,
            own_sequences: false,
            spoilt: false,
            marked: false,
            copying_in: false,
            copy_ends: false,
            last_words: None,
            settings: Settings::default(),
            parses: 0,
            redefines: false,
            statements: OnSession::default(),
            definitions: (0, 0),
            stale: Vec::new(),
            refused: Vec::new(),
            noticed: false,
            carry: Vec::new(),
            passing: 0,
        }
    }

    /// Whether nobody needs it now.
    pub fn is_idle(&self) -> bool {
        self.length() == 0 && self.owner.is_none()
    }

    /// How many units are before one that is sent now.
    pub fn length(&self) -> usize {
        self.ledger.len() + self.unsettled
    }

    /// Whether a message of an answer to a client has been passed on in part.
    pub fn is_passing_to(&self, client: ClientId) -> bool {
        self.passing > 0 && self.ledger.front().is_some_and(|slot| slot.client == client)
    }

    /// Bytes that its server has not taken yet.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_sent
    }

    /// Statements that are prepared on it.
    pub fn prepared(&self) -> usize {
        self.statements.len()
    }

    /// Whether the unit that was sent last goes on.
    pub fn is_open(&self) -> bool {
        self.ledger.back().is_some_and(|slot| !slot.synced)
    }

    /// Whether nothing more comes of it before its client sends more: what is copied in, or what
    /// ends the unit that has been answered as far as it came.
    pub fn awaits_its_client(&self) -> bool {
        let is_told = |slot: &Slot| !slot.synced && (slot.failed || slot.expects.is_empty());
        let front = self.ledger.len() == 1;
        self.copying_in && !self.copy_ends || front && self.ledger.back().is_some_and(is_told)
    }

    /// Has the server say what it keeps until the end of a unit that does not come.
    pub fn ask_for_rest(&mut self) {
        if let Some(mut slot) = self.ledger.pop_back() {
            self.send_part(&mut slot, Part::Plain(b'H', framed(b'H', b"")));
            self.ledger.push_back(slot);
        }
    }

    /// Whether another COPY of the same unit may come behind the one that a client has ended.
    pub fn may_copy_in_again(&self, client: ClientId) -> bool {
        let front = self.ledger.front().filter(|slot| slot.client == client);
        self.copying_in
            && self.copy_ends
            && front.is_some_and(|slot| slot.simple || slot.expects.len() > 1)
    }

    /// Whether what runs on it for a client may have committed something that the client has not
    /// been told of: a transaction that was open when its unit was sent commits at its end alone.
    pub fn may_have_committed(&self, client: ClientId) -> bool {
        let front = self.ledger.front().filter(|slot| slot.client == client);
        front.is_some_and(|slot| slot.committed)
    }

    /// Whether the statement that runs on it now may have committed something.
    pub fn commits_within(&self) -> bool {
        // The last command of a Query completes once it has committed.
        let may = |slot: &Slot| slot.commits_within || slot.simple && slot.completed > 0;
        !self.is_in_block() && self.ledger.front().is_some_and(may)
    }

    /// Whether what runs on it now runs in a transaction block.
    pub fn is_in_block(&self) -> bool {
        self.status != b'I' && !self.ledger.front().is_some_and(|slot| slot.left_block)
    }

    /// The barrier that covers what runs on it for a client, if that is relaxed.
    pub fn covers(&self, client: ClientId) -> Option<Cover> {
        let front = self.ledger.front().filter(|slot| slot.client == client);
        self.exposed.or(front.and_then(|slot| slot.covers))
    }

    /// Whether something of a client is unanswered that may turn out to copy in.
    pub fn may_copy_in(&self, client: ClientId) -> bool {
        let may = |slot: &Slot| !slot.failed && (slot.simple || !slot.expects.is_empty());
        self.ledger.iter().any(|slot| slot.client == client && may(slot))
    }

    /// Gives it the settings of a client, by statements of the gateway's own.
    pub fn take_settings(&mut self, settings: &Settings) {
        let settings = settings.given_to(self.kind);
        let anew = self.kind == SessionKind::Synchronous && self.touched != Touched::Nobody;
        self.touched = Touched::Nobody;
        let sql = self.settings.towards(&settings, anew);
        if !sql.is_empty() {
            self.definitions.1 += u64::from(contains_word(sql.as_bytes(), "search_path"));
            self.send_own(&sql, false);
        }
        self.settings = settings;
    }

    /// Asks whether the transaction that is open has written anything: it has where it was
    /// given a transaction id.
    pub fn ask_whether_written(&mut self) {
        // A cursor that outlives it is run to its end by the COMMIT, and may write then.
        let sql = "SELECT pg_catalog.pg_current_xact_id_if_assigned() IS NULL \
                   AND NOT EXISTS (SELECT FROM pg_catalog.pg_cursors WHERE is_holdable)";
        self.send_own(sql, true);
    }

    /// Has it forget what sequences gave to other clients, so that none is told of it.
    pub fn forget_sequences(&mut self) {
        self.own_sequences = true;
        self.send_own("DISCARD SEQUENCES", false);
    }

    /// Whether it commits for a client as that client has it, as far as that depends on what others
    /// have called: a session that flushes by itself may have been told not to.
    pub fn commits_as_set_for(&self, client: ClientId) -> bool {
        self.kind == SessionKind::Relaxed
            || matches!(self.touched, Touched::Nobody)
            || self.touched == Touched::By(client)
    }

    /// Whether a cancel may be sent for a client: none is on its way, and what the last was meant
    /// for has answered, or asks again because it hit nothing.
    pub fn may_cancel(&self, id: ClientId) -> bool {
        let is_left = |target| self.ledger.iter().any(|slot| slot.client == target);
        self.cancelling.is_none_or(|target| {
            let is_over = target == ClientId::NOBODY || target == id || !is_left(target);
            self.cancel_sent && is_over
        })
    }

    /// Whether something may be on it that [`reset`](Session::reset) does not undo.
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// Makes the session as it was when it logged in.
    pub fn reset(&mut self) {
        self.send_own("DISCARD ALL", false);
        (self.opted_out, self.own_sequences) = (false, false);
        self.touched = Touched::Nobody;
        self.settings = Settings::default();
        self.statements.clear();
        self.stale.clear();
        self.refused.clear();
    }

    /// Something was sent that is to be answered.
    fn queue(&mut self, slot: Slot) {
        if self.ledger.is_empty() {
            self.front = (slot.since, 0);
        }
        self.ledger.push_back(slot);
    }

    fn send_own(&mut self, sql: &str, asks: bool) {
        frame_into(&mut self.out, b'Q', &[sql.as_bytes(), b"\0"]);
        let slot = Slot { synced: true, asks, ..Slot::new(ClientId::NOBODY, true) };
        self.queue(slot);
    }

    /// Statements of a unit of which it is not known whether they still give the columns that
    /// their client was told of, which it expects without asking.
    fn doubtful<'u>(&self, unit: &'u Unit) -> Vec<(&'u Arc<Prepared>, &'u Arc<Told>)> {
        let mut all: Vec<(&Arc<Prepared>, &Arc<Told>)> = Vec::new();
        for part in &unit.parts {
            let Part::Bind { statement, told: Some(told), .. } = part else { continue };
            if self.refused.iter().any(|(id, _)| *id == statement.id) {
                // What is behind it is not run.
                break;
            }
            let Some(expected) = told.columns() else { continue };
            let same = self.statements.columns(statement.id) == Some(expected)
                && self.statements.takes(statement.id, told);
            if !same && !all.iter().any(|(of, _)| of.id == statement.id) {
                all.push((statement, told));
            }
        }
        all
    }

    /// Whether it has to [look](Session::look) before a unit is sent. Between a Flush and its
    /// Sync it cannot.
    pub fn doubts(&self, unit: &Unit) -> bool {
        !self.is_open() && !self.doubtful(unit).is_empty()
    }

    /// Asks the server what statements of a unit give now, in a unit of the gateway's own.
    pub fn look(&mut self, client: ClientId, unit: &Unit, redefined: u64) {
        self.definitions.0 = redefined;
        let mut slot = Slot { looks: true, synced: true, ..Slot::new(client, false) };
        for (statement, told) in self.doubtful(unit) {
            if self.statements.columns(statement.id).is_some_and(|of| of != Columns::UNKNOWN)
                && self.statements.forget(statement.id)
            {
                // It is of other definitions.
                self.stale.push(statement.id);
            }
            self.describe(&mut slot, statement, Some(told.clone()));
        }
        frame_into(&mut self.out, b'S', &[]);
        self.queue(slot);
    }

    /// Puts a unit into the bytes to send, and into the ledger. `redefined` counts how often the
    /// objects of the server were.
    pub fn send(&mut self, client: ClientId, unit: Unit, covers: Option<Cover>, redefined: u64) {
        self.definitions.0 = redefined;
        let Effects { redefines, forgets, commits_within, .. } = unit.effects;
        let shared = unit.need.hold == Hold::Shared && self.owner.is_none();
        // What is sent behind another can be hit by what is meant for that, and what another is
        // sent behind may have to make way.
        let again = shared.then(|| Box::new(unit.clone()));
        self.marked |= unit.need.hold == Hold::Pinned(Pin::Session);
        if unit.effects.may_call {
            self.touched = match self.touched {
                Touched::Nobody => Touched::By(client),
                Touched::By(other) if other == client => Touched::By(client),
                _ => Touched::ByMany,
            };
        }
        let open = self.ledger.pop_back_if(|slot| !slot.synced);
        let mut slot = open.unwrap_or_else(|| Slot::new(client, false));
        slot.covers = slot.covers.or(covers);
        // No unit that shares its session does.
        slot.commits_within |= self.owner.is_some() && commits_within;
        slot.again = again;
        slot.change = unit.change;
        for part in unit.parts {
            let forgets = forgets && matches!(part, Part::Plain(b'Q', _) | Part::Bind { .. });
            match part {
                // After an error the server skips all up to the Sync.
                Part::Parse(_, naming) | Part::CloseStatement(naming) if slot.failed => {
                    slot.undone.push(naming);
                }
                Part::Deallocate(naming) if slot.failed => slot.undone.push(naming),
                Part::Plain(b'S', _) => self.send_part(&mut slot, part),
                _ if slot.failed => {}
                part => self.send_part(&mut slot, part),
            }
            if forgets {
                // What comes is sent before the server tells of it. A Close hurts none.
                self.stale.extend(self.statements.drain());
            }
        }
        // After an error the server skips a Query too.
        slot.synced = match unit.end {
            End::Query => !slot.failed,
            End::Sync => true,
            End::Flush => false,
        };
        self.queue(slot);
        self.refused.clear();
        if redefines {
            self.redefines = true;
            self.definitions.1 += 1;
        }
    }

    fn send_part(&mut self, slot: &mut Slot, part: Part) {
        match part {
            Part::Plain(tag, message) => {
                if tag == b'H' && matches!(slot.expects.back(), Some(Expect::Synthesise(..))) {
                    // What the gateway answers is told where the server's answers come in: this
                    // has it say something.
                    let name = format!("S{OWN_PREFIX}{NO_STATEMENT}\0");
                    frame_into(&mut self.out, b'C', &[name.as_bytes()]);
                    slot.expects.push_back(Expect::Close { own: Some(NO_STATEMENT) });
                }
                self.out.extend_from_slice(&message);
                slot.expects.extend(match tag {
                    b'B' => Some(Expect::Bind(None)),
                    b'D' => Some(Expect::Describe(None)),
                    b'E' => Some(Expect::Execute),
                    b'C' => Some(Expect::Close { own: None }),
                    b'Q' | b'F' => Some(Expect::Query),
                    _ => None,
                });
            }
            Part::Parse(statement, naming) => {
                match self.statements.prepare(statement.id, self.definitions) {
                    Known::Yes => {
                        let said = Expect::Synthesise(backend::PARSE_COMPLETE, naming);
                        slot.expects.push_back(said);
                        return;
                    }
                    Known::Before => self.stale.push(statement.id),
                    Known::No => {}
                }
                self.parse(slot, &statement, Some(naming), None);
            }
            Part::ParseAgain { taken, name, rest } => {
                self.ensure(slot, &taken, None);
                frame_into(&mut self.out, b'P', &[taken.name().as_bytes(), b"\0", &rest]);
                slot.expects.push_back(Expect::Taken(taken.id, name));
            }
            Part::Deallocate(naming) => {
                frame_into(&mut self.out, b'Q', &[b"\0"]);
                slot.expects.push_back(Expect::Deallocate(naming));
            }
            Part::Bind { statement, told, portal, rest } => {
                let refused = self.refused.iter().position(|(id, _)| *id == statement.id);
                if let Some(place) = refused {
                    // The server has to refuse something, so that its transaction ends as well.
                    let name = format!("{OWN_PREFIX}{NO_STATEMENT}");
                    frame_into(
                        &mut self.out,
                        b'B',
                        &[&portal, b"\0", name.as_bytes(), b"\0", &rest],
                    );
                    let (_, said) = self.refused.swap_remove(place);
                    slot.expects.push_back(Expect::Refused(said));
                    return;
                }
                self.ensure(slot, &statement, told.as_deref());
                let name = statement.name();
                frame_into(&mut self.out, b'B', &[&portal, b"\0", name.as_bytes(), b"\0", &rest]);
                slot.expects.push_back(Expect::Bind(Some(statement.id)));
            }
            Part::DescribeStatement(statement, told) => self.describe(slot, &statement, told),
            Part::DescribePortal { statement, told, portal } => {
                frame_into(&mut self.out, b'D', &[b"P", &portal, b"\0"]);
                let (id, parse) = (statement.id, self.statements.parse_of(statement.id));
                let described = Described { id, parse, told: Some(told) };
                slot.expects.push_back(Expect::Describe(Some(described)));
            }
            Part::CloseStatement(naming) => {
                slot.expects.push_back(Expect::Synthesise(backend::CLOSE_COMPLETE, naming));
            }
        }
    }

    /// Prepares a statement if the session has it not, or with parameters of other types than
    /// its client was told.
    fn ensure(&mut self, slot: &mut Slot, statement: &Arc<Prepared>, told: Option<&Told>) {
        let known = self.statements.touch(statement.id, self.definitions);
        let is_described = |told: &&Told| told.parameters().is_some() || told.columns().is_some();
        let takes = match told.filter(is_described) {
            Some(told) => self.statements.takes(statement.id, told),
            // Nobody has said what its parameters are: those that they would be now.
            None => self.statements.is_of(statement.id, self.definitions),
        };
        if known && !takes {
            self.stale.push(statement.id);
        }
        if !known || !takes {
            self.parse(slot, statement, None, told.and_then(Told::parameters));
        }
    }

    fn describe(&mut self, slot: &mut Slot, of: &Arc<Prepared>, told: Option<Arc<Told>>) {
        self.ensure(slot, of, told.as_deref());
        frame_into(&mut self.out, b'D', &[b"S", of.name().as_bytes(), b"\0"]);
        let described = Described { id: of.id, parse: self.statements.parse_of(of.id), told };
        slot.expects.push_back(Expect::Describe(Some(described)));
    }

    /// Prepares a statement, for a client under the name it gave or as it was before, with
    /// parameters of these types.
    fn parse(
        &mut self,
        slot: &mut Slot,
        statement: &Arc<Prepared>,
        naming: Option<Naming>,
        parameters: Option<&[u8]>,
    ) {
        // What a unit is looked at for is there when it is sent, however much that is.
        let most = if slot.looks { usize::MAX } else { MOST_STATEMENTS };
        let excess = self.statements.excess(most);
        for old in self.stale.drain(..).chain(excess) {
            let name = format!("S{OWN_PREFIX}{old}\0");
            frame_into(&mut self.out, b'C', &[name.as_bytes()]);
            slot.expects.push_back(Expect::Close { own: Some(old) });
        }
        self.parses += 1;
        self.statements.parsed(statement.id, self.parses, self.definitions, parameters);
        let name_there = statement.name();
        let front = [name_there.as_bytes(), b"\0"];
        match parameters {
            Some(types) => {
                let pieces = [front[0], front[1], statement.text(), b"\0", types];
                frame_into(&mut self.out, b'P', &pieces);
            }
            None => frame_into(&mut self.out, b'P', &[front[0], front[1], &statement.body]),
        }
        slot.expects.push_back(Expect::Parse(statement.clone(), naming));
    }

    /// What arrived now, with what was left of a message before it.
    pub fn whole<'i>(&mut self, input: &'i [u8]) -> Cow<'i, [u8]> {
        if self.carry.is_empty() {
            return Cow::Borrowed(input);
        }
        self.carry.extend_from_slice(input);
        if let Some(&[tag, a, b, c, d]) = self.carry.first_chunk() {
            let whole = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
            if self.carry.len() < whole && whole <= LONGEST && !passes(tag, whole) {
                // What is long is not looked at again and again.
                return Cow::Borrowed(&[]);
            }
        }
        Cow::Owned(std::mem::take(&mut self.carry))
    }

    /// Reads messages of what is [whole](Session::whole); `events` tells of ranges of it.
    ///
    /// # Errors
    /// When they do not belong to what was sent.
    pub fn receive(&mut self, input: &[u8], events: &mut Vec<Event>) -> Result<(), Mismatch> {
        let used = self.relay(input, events)?;
        self.carry.extend_from_slice(&input[used..]);
        Ok(())
    }

    /// Reads messages; how many bytes of the input are done with.
    fn relay(&mut self, input: &[u8], events: &mut Vec<Event>) -> Result<usize, Mismatch> {
        let mut at = 0;
        if self.passing > 0 {
            let take = self.passing.min(input.len());
            if let Some(slot) = self.ledger.front() {
                answer(events, slot.client, 0..take);
            }
            self.passing -= take;
            at = take;
        }
        while let Some(&[tag, a, b, c, d]) = input[at..].first_chunk::<5>() {
            let length = u32::from_be_bytes([a, b, c, d]) as usize;
            if !(4..=LONGEST).contains(&length) || !backend::TAGS.contains(tag) {
                return Err(Mismatch(tag));
            }
            let whole = 1 + length;
            let here = input.len() - at;
            if here < whole {
                if passes(tag, whole)
                    && let Some(slot) = self.ledger.front_mut()
                {
                    synthesise(slot, events);
                    answer(events, slot.client, at..input.len());
                    self.passing = whole - here;
                    at = input.len();
                }
                break;
            }
            self.take(tag, at..at + whole, input, events)?;
            at += whole;
        }
        let noticed = std::mem::take(&mut self.noticed);
        if let Some(front) = self.ledger.front() {
            if noticed {
                events.push(Event::Noticed(front.client));
            }
            if !front.synced || self.copying_in {
                events.push(Event::Open(front.client));
            }
        }
        Ok(at)
    }

    /// Takes one whole message.
    fn take(
        &mut self,
        tag: u8,
        range: Range<usize>,
        input: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Mismatch> {
        let body = &input[range.start + 5..range.end];
        match tag {
            backend::PARAMETER_STATUS => {
                if let Some(slot) = self.ledger.front() {
                    answer(events, slot.client, range);
                }
                return Ok(());
            }
            backend::NOTICE_RESPONSE | backend::NOTIFICATION_RESPONSE => {
                let to = self.ledger.front().map(|slot| slot.client).or(self.owner);
                if let Some(client) = to {
                    let is_own = tag == backend::NOTIFICATION_RESPONSE
                        && self.owner == to
                        && body.starts_with(&self.process.to_be_bytes());
                    if is_own {
                        events.push(Event::OwnNotification(client, range));
                    } else {
                        answer(events, client, range);
                    }
                    if self.ledger.is_empty() {
                        events.push(Event::Noticed(client));
                    }
                    self.noticed = true;
                }
                return Ok(());
            }
            _ => {}
        }
        if tag == backend::ERROR_RESPONSE
            && let Ok(said) = ErrorFields::parse(body)
            && (self.ledger.is_empty() || said.is_fatal())
        {
            // A server that ends a session says why before it closes.
            self.last_words = Some(Box::new(said));
            events.push(Event::Fatal);
            return Ok(());
        }
        let status = self.status;
        let Some(slot) = self.ledger.front_mut() else { return Err(Mismatch(tag)) };
        let client = slot.client;
        let in_block = status != b'I' && !slot.left_block;
        // A procedure may have committed before it failed, or before it gave a row.
        let halts = matches!(tag, backend::ERROR_RESPONSE | backend::PORTAL_SUSPENDED);
        slot.committed |= halts && !in_block;
        synthesise(slot, events);
        let queries = slot.expects.pop_front_if(|expect| matches!(expect, Expect::Query));
        slot.simple |= queries.is_some();
        if tag == backend::COMMAND_COMPLETE
            && client != ClientId::NOBODY
            && let Some(forgotten) = Forgotten::by_tag(body)
        {
            // Some may have been prepared before it was run, and after it was sent.
            self.stale.extend(self.statements.drain());
            let alone = slot.completed == 0
                && slot.synced
                && (slot.simple || matches!(slot.expects.make_contiguous(), [Expect::Execute]));
            events.push(Event::Forgotten(client, forgotten, alone));
        }
        // The last is FunctionCallResponse.
        slot.done |=
            matches!(tag, backend::COMMAND_COMPLETE | backend::EMPTY_QUERY_RESPONSE | b'V');
        if tag == backend::COMMAND_COMPLETE {
            // Only where that is all: what comes before it may have committed.
            slot.completed += 1;
            slot.committed |= may_commit(body, in_block);
            let rolls_back = body == b"ROLLBACK\0";
            slot.left_block |= rolls_back;
            slot.rolled_back = slot.completed == 1 && rolls_back;
        }
        match tag {
            backend::READY_FOR_QUERY => {
                let &[status] = body else { return Err(Mismatch(tag)) };
                self.status = status;
                // It failed before it read past the Sync.
                let is_synced = slot.synced || slot.failed && slot.read_past;
                // One that nobody waited for ends no Query.
                let is_done = slot.failed || slot.done || !slot.simple;
                if !is_synced || !is_done || !slot.failed && !slot.expects.is_empty() {
                    return Err(Mismatch(tag));
                }
                // A COPY failed with two Syncs sent: whether it had read past the first is not
                // known, and so whether another of these comes.
                self.retires |= slot.failed && slot.read_past && slot.synced;
                if !slot.struck && !slot.looks {
                    answer(events, client, range);
                }
                self.copying_in = false;
                let Some(slot) = self.ledger.pop_front() else { return Err(Mismatch(tag)) };
                self.front = (Instant::now(), 0);
                // What was sent behind it ran inside a transaction that is not its own. A
                // question of the gateway is asked inside that of the client behind it.
                let stranger = client != ClientId::NOBODY
                    && self.ledger.front().is_some_and(|next| next.client != client);
                self.unsettled += 1;
                events.push(Event::Ended(slot, status));
                if status != b'I' && stranger {
                    return Err(Mismatch(tag));
                }
                return Ok(());
            }
            backend::ERROR_RESPONSE => {
                slot.failed = true;
                self.copying_in = false;
                if self.cancelling.is_some_and(|target| target != client)
                    && slot.again.is_some()
                    && is_canceled(body)
                {
                    // The error proves that nothing of it stays, so it can be sent once more.
                    slot.struck = true;
                    for expect in slot.expects.drain(..) {
                        match expect {
                            Expect::Parse(statement, _) => {
                                self.statements.forget(statement.id);
                            }
                            Expect::Close { own: Some(id) } if id != NO_STATEMENT => {
                                self.stale.push(id)
                            }
                            _ => {}
                        }
                    }
                    return Ok(());
                }
                let of = match slot.expects.front() {
                    Some(Expect::Bind(Some(id))) => Some(*id),
                    Some(Expect::Describe(Some(of))) => Some(of.id),
                    Some(Expect::Parse(statement, _)) => Some(statement.id),
                    _ => None,
                };
                let stale = of.is_some() && is_of_stale_plan(body);
                if stale {
                    // Something was redefined by whom nobody saw.
                    self.redefines = true;
                }
                if let Some(id) = of.filter(|_| stale)
                    && self.statements.forget(id)
                {
                    self.stale.push(id);
                }
                if slot.looks && (!stale || self.status != b'I') {
                    let said = framed(backend::ERROR_RESPONSE, body);
                    self.refused.extend(of.map(|id| (id, said)));
                }
                let said = match slot.expects.front_mut() {
                    Some(Expect::Taken(id, name)) => Some(of_client(body, *id, name)),
                    Some(Expect::Refused(said)) => Some(std::mem::take(said)),
                    _ => None,
                };
                for expect in slot.expects.drain(..) {
                    match expect {
                        Expect::Parse(statement, naming) => {
                            self.statements.forget(statement.id);
                            slot.undone.extend(naming);
                        }
                        Expect::Synthesise(_, naming) => slot.undone.push(naming),
                        // The server has skipped it.
                        Expect::Close { own: Some(id) } if id != NO_STATEMENT => {
                            self.stale.push(id)
                        }
                        Expect::Deallocate(naming) => {
                            slot.undone.push(naming);
                            slot.synced = false;
                        }
                        Expect::Query => slot.synced = false,
                        _ => {}
                    }
                }
                if let Some(said) = said {
                    events.push(Event::Said(client, said));
                    return Ok(());
                }
                if slot.looks {
                    return Ok(());
                }
            }
            backend::COPY_IN_RESPONSE => {
                (self.copying_in, self.copy_ends) = (true, false);
                // The server reads past a Sync while it copies: its answer comes with the next.
                if !slot.simple {
                    slot.read_past |= slot.synced;
                    slot.synced = false;
                }
            }
            backend::COPY_BOTH_RESPONSE => return Err(Mismatch(tag)),
            backend::DATA_ROW if slot.asks => {
                // One column of one byte.
                self.unwritten = body == b"\0\x01\0\0\0\x01t";
                return Ok(());
            }
            backend::COMMAND_COMPLETE if slot.simple => self.copying_in = false,
            _ if slot.simple => {}
            _ if slot.failed => return Err(Mismatch(tag)),
            backend::PARSE_COMPLETE => match slot.expects.pop_front() {
                Some(Expect::Parse(_, Some(_))) => {}
                Some(Expect::Parse(_, None)) => return Ok(()),
                _ => return Err(Mismatch(tag)),
            },
            backend::BIND_COMPLETE => match slot.expects.pop_front() {
                Some(Expect::Bind(_)) => {}
                _ => return Err(Mismatch(tag)),
            },
            backend::CLOSE_COMPLETE => match slot.expects.pop_front() {
                Some(Expect::Close { own: None }) => {}
                Some(Expect::Close { own: Some(_) }) => return Ok(()),
                _ => return Err(Mismatch(tag)),
            },
            backend::PARAMETER_DESCRIPTION => {
                if let Some(Expect::Describe(Some(of))) = slot.expects.front() {
                    self.statements.describe_parameters(of.id, of.parse, body);
                    if let Some(told) = of.told.as_ref().filter(|_| !slot.looks) {
                        told.tell_parameters(body);
                    }
                }
                if slot.looks {
                    return Ok(());
                }
            }
            backend::ROW_DESCRIPTION | backend::NO_DATA => match slot.expects.pop_front() {
                Some(Expect::Describe(None)) => {}
                Some(Expect::Describe(Some(of))) => {
                    let described = (tag == backend::ROW_DESCRIPTION).then_some(body);
                    let columns = self.statements.describe_columns(of.id, of.parse, described);
                    match &of.told {
                        Some(told) if slot.looks => {
                            if told.columns().is_some_and(|expected| expected != columns) {
                                let mut said = Vec::new();
                                columns_changed(&mut said);
                                self.refused.push((of.id, said));
                                self.redefines = true;
                            }
                            return Ok(());
                        }
                        Some(told) => told.tell_columns(columns),
                        None => {}
                    }
                }
                _ => return Err(Mismatch(tag)),
            },
            backend::COMMAND_COMPLETE
            | backend::EMPTY_QUERY_RESPONSE
            | backend::PORTAL_SUSPENDED => match slot.expects.pop_front() {
                Some(Expect::Execute) => self.copying_in = false,
                Some(Expect::Deallocate(_)) if tag == backend::EMPTY_QUERY_RESPONSE => {
                    let said = framed(backend::COMMAND_COMPLETE, b"DEALLOCATE\0");
                    events.push(Event::Said(client, said));
                    return Ok(());
                }
                _ => return Err(Mismatch(tag)),
            },
            _ => {}
        }
        answer(events, client, range);
        Ok(())
    }
}

/// An ErrorResponse as the client is told it, with the name that it gave to a statement.
fn of_client(body: &[u8], id: u64, name: &[u8]) -> Vec<u8> {
    let own = format!("\"{OWN_PREFIX}{id}\"");
    let at = body.windows(own.len()).position(|part| part == own.as_bytes());
    framed(
        backend::ERROR_RESPONSE,
        &match at {
            Some(at) => [&body[..at], b"\"", name, b"\"", &body[at + own.len()..]].concat(),
            None => body.to_vec(),
        },
    )
}

/// Whether a message is passed on before it has arrived whole.
fn passes(tag: u8, whole: usize) -> bool {
    whole >= LONG && matches!(tag, backend::DATA_ROW | b'd' | b'V')
}

impl Forgotten {
    /// What the command with this tag makes a session forget.
    fn by_tag(tag: &[u8]) -> Option<Forgotten> {
        match tag {
            b"DISCARD ALL\0" => Some(Forgotten::Everything),
            b"DEALLOCATE ALL\0" => Some(Forgotten::Statements),
            _ => None,
        }
    }
}

/// Whether the command with this tag may have committed something before its unit ends. Within a
/// block only the end of that does. Outside, a COMMIT does where an implicit transaction has gone
/// before it, procedures do as they like, and some commands end their transaction by themselves
/// (`XACT_FLAGS_NEEDIMMEDIATECOMMIT`): what is not known not to is taken to.
fn may_commit(tag: &[u8], in_block: bool) -> bool {
    let words = tag.strip_suffix(b"\0").unwrap_or(tag);
    let first = words.split(|&byte| byte == b' ').next().unwrap_or_default();
    match first {
        b"COMMIT" => true,
        b"PREPARE" => words == b"PREPARE TRANSACTION",
        _ if in_block => false,
        b"SELECT" | b"INSERT" | b"UPDATE" | b"DELETE" | b"MERGE" | b"COPY" | b"BEGIN"
        | b"START" | b"ROLLBACK" | b"SAVEPOINT" | b"RELEASE" | b"SET" | b"RESET" | b"SHOW"
        | b"DECLARE" | b"FETCH" | b"MOVE" | b"CLOSE" | b"LOCK" | b"DEALLOCATE" | b"EXPLAIN" => {
            false
        }
        _ => true,
    }
}

/// Whether an ErrorResponse says that a statement was cancelled.
fn is_canceled(body: &[u8]) -> bool {
    ErrorFields::parse(body).is_ok_and(|fields| fields.code == "57014")
}

/// Whether an ErrorResponse says that a prepared statement would give other columns than it did:
/// a client that prepares it once more is to get the new ones.
fn is_of_stale_plan(body: &[u8]) -> bool {
    let routine = b"\0RRevalidateCachedQuery\0";
    body.windows(routine.len()).any(|part| part == routine)
}

/// Puts the gateway's own messages where they belong.
fn synthesise(slot: &mut Slot, events: &mut Vec<Event>) {
    while let Some(Expect::Synthesise(tag, _)) =
        slot.expects.pop_front_if(|expect| matches!(expect, Expect::Synthesise(..)))
    {
        events.push(Event::Synthesise(slot.client, tag));
    }
}

/// Adds bytes to an answer, in one piece with those before where they follow them.
fn answer(events: &mut Vec<Event>, client: ClientId, range: Range<usize>) {
    if let Some(Event::Answer(of, before)) = events.last_mut()
        && *of == client
        && before.end == range.start
    {
        before.end = range.end;
        return;
    }
    events.push(Event::Answer(client, range));
}
