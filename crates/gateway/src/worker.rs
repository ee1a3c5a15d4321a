//! The event loop: clients on one side, server sessions on the other, the barrier between.

mod control;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rand::random;
use slab::Slab;
use walwright_wire::backend::{self, ErrorFields};
use walwright_wire::{ScramKeys, Stream, WireError};

use crate::admission::{Admission, admit};
use crate::barrier::Transactions;
use crate::census::{Census, Counted};
use crate::client::{Claim, Client, ClientStream, Opening, Phase, process_of, worker_of};
use crate::control::{Action, Ask, Control, Paused, is_console};
use crate::dial::{
    BARRIER_NAME, DIFFERENT, Dialled, Identity, Login, Opened, Purpose, Reply, SessionId, Stray,
    UNWANTED, dial,
};
use crate::gateway::Handle;
use crate::levels::{Barriers, Left};
use crate::lookup::Answers;
use crate::lookups::{Lookups, Names};
use crate::messages::{self, Refusal};
use crate::options::{Database, PoolMode, Pooling, Reads, Server};
use crate::pace::Pace;
use crate::prepared::Registry;
use crate::scram::{Exchange, Key, SCRAM, SCRAM_PLUS, Verifier};
use crate::session::{Event, Forgotten, Session, Slot};
use crate::settings::{Change, Settings};
use crate::statement::Need;
use crate::stats::{BarrierStats, Stats, micros};
use crate::tls::TlsStream;
use crate::unit::{End, LONGEST, Malformed, Part, Unit, frame_into};
use crate::users::{Credential, Stored, Verifiers};
use crate::{ClientId, Epoch, Exposures, Hold, Level, Options, Pin, SessionKind, Until};

const WAKE: Token = Token(0);
const PACE: Token = Token(usize::MAX);
const FIRST: usize = 1;
/// Bytes read from a socket at once.
const BUFFER: usize = 64 * 1024;
/// Bytes of one answer that are kept before their barrier is asked for.
const LONG_ANSWER: usize = 64 * 1024;
/// First byte of a client that begins with TLS at once.
const TLS_HANDSHAKE: u8 = 0x16;
/// Longest message of a client that has not proved who it is.
const MOST_OF_A_PROOF: usize = 4096;
/// Bytes of a client that are kept while it waits to be let in.
const MOST_AHEAD: usize = BUFFER;
/// How often a client is told that there is no encryption: of TLS and of GSSAPI.
const MOST_DECLINED: u8 = 2;
/// Connections that look for verifiers at a time.
const MOST_LOOKUPS: usize = 4;
/// Units of one client that are kept before no more of it is read.
const MOST_QUEUED: usize = 64;
/// Bytes that are kept for a client that does not read before no more of its session is read,
/// and for a session that does not before no more of its client is.
const MOST_UNREAD: usize = 1024 * 1024;
/// Bytes of prepared statements that a client may have.
const MOST_PREPARED: usize = 64 * 1024 * 1024;
/// Bytes of settings that follow a client: they are compared, and given, from session to session.
const MOST_SETTINGS: usize = 1024 * 1024;
/// How often one socket is read in a turn, so that a flood leaves others theirs.
const MOST_READS: usize = 16;
/// How long a client that does not read may keep others from answers on the same session.
const LONGEST_STALL: Duration = Duration::from_secs(10);
/// Bytes a second that such a client may read without being counted as one that does not.
const SLOWEST_READ: f64 = 100e3;
/// A statement that runs longer than this has none sent behind it.
const SLOW: Duration = Duration::from_millis(5);
/// How long what runs may keep those behind it before it is asked whether it waits for a lock.
const LINE: Duration = Duration::from_millis(100);
/// How long what runs may keep those behind it at all.
const LONGEST_LINE: Duration = Duration::from_secs(5);
/// How often that time doubles from one question to the next about the same.
const LINE_DOUBLES: u32 = 6;
/// Connections beyond twice the limit of clients, so that who is too many can be told.
const MOST_BEYOND: usize = 100;
/// Newest minor version of protocol 3 that is spoken.
const NEWEST_MINOR: u16 = 2;
/// Longer than anything lasts.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
/// What a client is told that does not read its answer, and so not this.
const UNREAD_ANSWER: &str = "57P05";
/// What a client is told whose statement it had cancelled, as the server says it.
const CANCELED: &str = "canceling statement due to user request";
/// Longest that a client which is told to leave may take to read why.
const LONGEST_GOODBYE: Duration = Duration::from_secs(10);
/// How often the server's settings are looked at where no barrier that somebody waits for does.
const SETTINGS: Duration = Duration::from_secs(5);
/// How often it is asked whether what ran on a lost session has ended.
const STRAYS_RETRY: Duration = Duration::from_millis(500);
/// Writes of one client in a row after which it counts as the only one that writes.
const LONE: u32 = 8;
/// Connections that did not reach the server of the barrier before their clients are told.
const MOST_STRAYS: u32 = 3;

/// How long closing a session takes that made room for another.
const SOON: Duration = Duration::from_millis(1);
/// How long another worker takes that was asked to make room.
const ASKED: Duration = Duration::from_millis(25);
/// Why a session cannot be opened where there are as many as may be.
const LIMIT: &str = "the limit of server sessions is reached";

/// What a worker is told from outside.
#[derive(Debug)]
pub enum Order {
    /// A client has connected.
    Client(ClientStream),
    /// What a client runs, by the number that it was told, is to be cancelled.
    Cancel(u32, Vec<u8>),
    /// Clients are let go as soon as they have nothing under way; then it is to end.
    Drain,
    /// It is to say how it is.
    Report(Ask),
    /// Something is to be done to pools or clients.
    Do(Action),
    /// A gateway that was there before has gone: what it left is to be covered.
    CoverOthers,
    /// A worker has no session for a database and a user, and a limit keeps it from opening one.
    MakeRoom(String, String),
    /// It is to end.
    End,
}

/// Whose sessions may be used by whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    /// Name of the database as the client gave it.
    database: String,
    user: String,
    parameters: Vec<(String, String)>,
}

/// Server sessions of one user and database.
#[derive(Debug)]
struct Pool {
    key: PoolKey,
    database: Database,
    upstream: usize,
    pooling: Pooling,
    /// Settings as the server reports them at login, once they are known.
    welcome: Option<Vec<(String, String)>>,
    /// How durable a commit is where a client does not say otherwise.
    level: Option<Level>,
    /// Whether a client has asked what a sequence gave to its session.
    asks_sequences: bool,
    /// Since when that is to be learnt again, from a session that is asked for later.
    relearns: Option<Instant>,
    /// When its sessions came to log in otherwise, in another database or as another user.
    moved: Option<Instant>,
    relaxed: Side,
    synchronous: Side,
    /// Clients that are let in as soon as `welcome` is known.
    arriving: Vec<ClientId>,
    /// Why the last attempt to open a session failed, and when the next is made.
    failed: Option<(String, Instant)>,
    /// The kind of session that is opened first once a limit leaves room: there is none of it.
    room_for: Option<SessionKind>,
    /// Whether its clients are made to wait.
    paused: bool,
    stats: Stats,
}

/// The sessions of one kind.
#[derive(Debug, Default)]
struct Side {
    sessions: Vec<usize>,
    /// Sessions that are being opened.
    opening: usize,
    /// Clients that wait for one.
    waiting: VecDeque<ClientId>,
}

impl Pool {
    fn side(&mut self, kind: SessionKind) -> &mut Side {
        match kind {
            SessionKind::Relaxed => &mut self.relaxed,
            SessionKind::Synchronous => &mut self.synchronous,
        }
    }
}

/// A server: one life of it at a time.
struct Upstream {
    server: Arc<Server>,
    exposures: Exposures,
    life: Option<Life>,
    /// Counts its lives, as far as this worker knew them.
    lives: u64,
    /// Whether its barrier sessions are being opened.
    opening: bool,
    /// When to try again after it could not be reached.
    retry: Option<Instant>,
    /// What earlier lives left uncovered.
    left: Left,
    /// What may still run on sessions that were lost, to be asked for.
    strayed: Vec<Stray>,
    /// How often the server is being asked for some of them.
    asks_of_strays: usize,
    /// Connections one after the other that reached another server than the barrier's.
    strays: u32,
    /// Why it could not be reached when that was tried last.
    trouble: Option<String>,
    /// Whether its barrier sessions are to be opened anew once nothing needs them.
    retires: bool,
    /// Until when its clients are made to wait for that.
    holds: Option<Instant>,
    /// Who has written last, and how often in a row.
    writer: (ClientId, u32),
    stats: BarrierStats,
}

/// One life of a server: its barrier sessions and what waits for them. A standby has none, and
/// no relaxed sessions either.
struct Life {
    identity: Identity,
    barriers: Barriers,
    flushers: Vec<Flusher>,
}

/// A session that flushes, and what waits for it.
struct Flusher {
    stream: Stream,
    /// Clients with answers that wait, in the order of their barriers, and since when.
    withheld: VecDeque<(Epoch, ClientId, Instant)>,
    /// When the barrier that is on its way was sent.
    sent: Instant,
    pace: Pace,
    /// When it read the server's configuration files, as it told last.
    configured: Vec<u8>,
    /// Bytes of an answer that is not whole.
    carry: Vec<u8>,
}

/// Something that is to be looked at when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Client {
        place: usize,
        serial: u32,
    },
    Session(usize),
    Pool(usize),
    Upstream(usize),
    Hold(usize),
    Strays(usize),
    /// A session on which statements stand behind others.
    Line {
        place: usize,
        serial: u32,
    },
    /// A server's settings, in one of its lives.
    Settings {
        upstream: usize,
        life: u64,
    },
}

/// What all workers of a gateway share.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Clients and server sessions, counted where they are limited.
    pub census: Arc<Census>,
    /// The servers, with what can still be taken back there.
    pub upstreams: Vec<(Arc<Server>, Exposures)>,
    /// The workers themselves, once they are there.
    pub workers: Arc<OnceLock<Vec<Handle>>>,
    /// Where the console's clients go.
    pub control: Control,
    /// How often objects of the servers were redefined, as far as keywords tell.
    pub redefined: Arc<AtomicU64>,
    /// Verifiers of passwords that are known in the clear.
    pub verifiers: Arc<Mutex<Verifiers>>,
    /// Makes up what stands for verifiers of names that nobody has: the same at every worker, as
    /// a name that somebody has would have.
    pub secret: Key,
}

/// One event loop with all that belongs to it.
pub struct Worker {
    options: Arc<Options>,
    shared: Shared,
    poll: Poll,
    waker: Arc<Waker>,
    orders: Receiver<Order>,
    dialled: Receiver<Dialled>,
    to_dialled: Sender<Dialled>,
    number: u32,
    serial: u32,
    clients: Slab<Client>,
    sessions: Slab<Session>,
    pools: Vec<Pool>,
    pool_of: HashMap<PoolKey, usize>,
    registry: Registry,
    /// What is logged in with, by server and user.
    credentials: HashMap<(usize, String), Credential>,
    /// Whose verifiers are still to be looked for, and how many connections look.
    lookups: Lookups,
    looking: usize,
    upstreams: Vec<Upstream>,
    timers: BinaryHeap<Reverse<(Instant, Timer)>>,
    /// When this turn began.
    now: Instant,
    /// Barrier sessions on which a barrier may have to be sent.
    to_flush: Vec<usize>,
    /// Barrier sessions whose barriers wait until the timer rings.
    paced: Vec<usize>,
    /// Sessions with bytes to send.
    to_send: Vec<usize>,
    /// Clients with answers to send.
    to_tell: Vec<ClientId>,
    /// Clients whose reading was put off until less of theirs waits.
    put_off: Vec<ClientId>,
    /// Sessions that are to be read in the next turn, though nothing announces it.
    to_read: Vec<usize>,
    /// Whether the next turn is to begin at once.
    hurries: bool,
    /// Clients that are gone, to be removed when no event of this turn can mean them.
    gone: Vec<ClientId>,
    lost: Vec<usize>,
    /// Whether transactions or idle clients are limited in time at all.
    limits_transactions: bool,
    limits_idle: bool,
    /// Wakes it when a barrier has waited long enough: polling is not as exact.
    pace_timer: TimerFd,
    /// What makes a barrier session flush.
    barrier_message: Vec<u8>,
    drains: bool,
    /// Whether it takes no new clients and ends when the last has gone.
    closes: bool,
    ends: bool,
    paused: Paused,
    /// Clients of the console, to be handed over when no event of this turn can mean them.
    for_console: Vec<ClientId>,
}

/// Clients, sessions and barrier sessions take turns in the numbers of tokens.
fn client_token(place: usize) -> Token {
    Token(FIRST + 3 * place)
}

fn session_token(place: usize) -> Token {
    Token(FIRST + 3 * place + 1)
}

fn barrier_token(upstream: usize, barrier: usize) -> Token {
    Token(FIRST + 3 * (upstream * Level::ALL.len() + barrier) + 2)
}

impl Worker {
    /// A worker, and how it is told something.
    pub fn new(
        number: usize,
        options: Arc<Options>,
        shared: Shared,
    ) -> io::Result<(Worker, Handle)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let pace_timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let fd = pace_timer.as_fd().as_raw_fd();
        SourceFd(&fd).register(poll.registry(), PACE, Interest::READABLE)?;
        let (to_orders, orders) = channel();
        let (to_dialled, dialled) = channel();
        let upstreams = shared.upstreams.iter().map(|(server, exposures)| Upstream {
            server: server.clone(),
            exposures: exposures.clone(),
            life: None,
            lives: 0,
            opening: false,
            retry: None,
            left: Left::default(),
            strayed: Vec::new(),
            asks_of_strays: 0,
            strays: 0,
            trouble: None,
            retires: false,
            holds: None,
            writer: (ClientId::NOBODY, 0),
            stats: BarrierStats::default(),
        });
        let upstreams = upstreams.collect();
        let mut barrier_message = Vec::new();
        let out = &mut barrier_message;
        frame_into(out, b'B', &[b"\0", BARRIER_NAME.as_bytes(), b"\0\0\0\0\0\0\0"]);
        frame_into(out, b'E', &[b"\0\0\0\0\0"]);
        frame_into(out, b'S', &[]);
        let mut worker = Worker {
            options,
            shared,
            poll,
            waker: waker.clone(),
            orders,
            dialled,
            to_dialled,
            number: number as u32,
            serial: 0,
            clients: Slab::new(),
            sessions: Slab::new(),
            pools: Vec::new(),
            pool_of: HashMap::new(),
            registry: Registry::default(),
            credentials: HashMap::new(),
            lookups: Lookups::default(),
            looking: 0,
            upstreams,
            timers: BinaryHeap::new(),
            now: Instant::now(),
            to_flush: Vec::new(),
            paced: Vec::new(),
            to_send: Vec::new(),
            to_tell: Vec::new(),
            put_off: Vec::new(),
            to_read: Vec::new(),
            hurries: false,
            gone: Vec::new(),
            lost: Vec::new(),
            limits_transactions: false,
            limits_idle: false,
            pace_timer,
            barrier_message,
            drains: false,
            closes: false,
            ends: false,
            paused: Paused::default(),
            for_console: Vec::new(),
        };
        worker.note_limits();
        Ok((worker, Handle { orders: to_orders, waker }))
    }

    fn note_limits(&mut self) {
        let limits = &self.options.limits;
        self.limits_transactions =
            limits.query_timeout.is_some() || limits.transaction_timeout.is_some();
        self.limits_idle =
            limits.idle_transaction_timeout.is_some() || limits.client_idle_timeout.is_some();
    }

    /// Serves clients until it is told to end.
    ///
    /// # Errors
    /// When the system refuses to wait.
    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; BUFFER];
        let mut heard = Vec::new();
        while !self.ends {
            let due = self.timers.peek().map(|Reverse((at, _))| {
                // A timer that is due a little later than the clock has it is not missed twice.
                at.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
            });
            if self.hurries {
                self.to_flush.append(&mut self.paced);
            }
            let wait = if self.hurries { Some(Duration::ZERO) } else { due };
            self.hurries = false;
            if let Err(error) = self.poll.poll(&mut events, wait)
                && error.kind() != ErrorKind::Interrupted
            {
                return Err(error);
            }
            self.now = Instant::now();
            for event in &events {
                match event.token() {
                    WAKE => self.take_orders(),
                    PACE => self.end_pace(),
                    Token(token) if (token - FIRST) % 3 == 2 => {
                        self.read_barrier((token - FIRST) / 3, &mut buffer);
                    }
                    Token(token) if (token - FIRST).is_multiple_of(3) => {
                        let place = (token - FIRST) / 3;
                        if event.is_writable()
                            && let Some(client) = self.clients.get_mut(place)
                        {
                            client.blocked = false;
                            let id = client.id;
                            self.will_tell(id);
                        }
                        if event.is_readable() {
                            self.read_client(place, event.is_read_closed(), &mut buffer);
                        }
                    }
                    Token(token) => {
                        let place = (token - FIRST) / 3;
                        if event.is_writable() {
                            self.to_send.push(place);
                        }
                        if event.is_readable() {
                            let closed = event.is_read_closed();
                            self.read_session(place, closed, &mut buffer, &mut heard);
                        }
                    }
                }
            }
            for place in std::mem::take(&mut self.to_read) {
                self.read_session(place, true, &mut buffer, &mut heard);
            }
            self.ring_timers();
            self.finish_turn(&mut buffer);
            if (self.drains || self.closes) && self.clients.is_empty() {
                // The next gateway is told that nothing of this one is under way any more.
                let quiet = self.sessions.iter().all(|(_, of)| of.ledger.is_empty())
                    && self
                        .upstreams
                        .iter()
                        .all(|of| of.strayed.is_empty() && of.asks_of_strays == 0);
                self.ends = !self.closes || quiet;
            }
        }
        Ok(())
    }

    /// Sends what this turn produced: first what makes servers work, then what clients are told.
    fn finish_turn(&mut self, buffer: &mut [u8]) {
        let mut first = true;
        loop {
            self.close_lost();
            for place in std::mem::take(&mut self.to_send) {
                self.send_session(place);
            }
            for place in std::mem::take(&mut self.to_flush) {
                self.send_barrier(place);
            }
            for id in std::mem::take(&mut self.to_tell) {
                self.tell(id);
            }
            for id in std::mem::take(&mut self.gone) {
                self.remove_client(id);
            }
            for id in std::mem::take(&mut self.for_console) {
                self.hand_to_console(id);
            }
            // Once in a turn: who always has more to say would keep it from its end.
            let put_off = if first { std::mem::take(&mut self.put_off) } else { Vec::new() };
            for id in put_off {
                if let Some(client) = self.client(id) {
                    client.put_off = false;
                    self.read_client(id.place, true, buffer);
                }
            }
            self.hurries |= !first && !self.put_off.is_empty();
            first = false;
            if self.to_send.is_empty()
                && self.to_tell.is_empty()
                && self.to_flush.is_empty()
                && self.lost.is_empty()
                && self.gone.is_empty()
                && !self.settle()
            {
                return;
            }
        }
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Client(stream) => self.add_client(stream),
                Order::Cancel(process, key) => self.cancel(process, &key),
                Order::Drain => self.drain(),
                Order::Report(ask) => self.report(ask),
                Order::Do(action) => self.act(action),
                Order::CoverOthers => self.cover_others(),
                Order::MakeRoom(database, user) => self.give_way(&database, &user),
                Order::End => self.ends = true,
            }
        }
        while let Ok(dialled) = self.dialled.try_recv() {
            self.take_dialled(dialled);
        }
    }

    // Clients.

    fn add_client(&mut self, mut stream: ClientStream) {
        if self.drains || self.closes {
            return;
        }
        self.serial = self.serial.wrapping_add(1);
        let entry = self.clients.vacant_entry();
        let id = ClientId { place: entry.key(), serial: self.serial };
        let token = client_token(id.place);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = stream.register(self.poll.registry(), token, interest) {
            tracing::warn!("a client cannot be served: {error}");
            return;
        }
        let client = entry.insert(Client::new(id, stream, random()));
        // Too many are told so when they have said who they are, but not without an end.
        let most = self.options.limits.max_clients;
        let count = self.shared.census.add_client();
        client.excess = count > most;
        if count > most.saturating_mul(2).saturating_add(MOST_BEYOND) {
            self.gone.push(id);
        }
        self.arm(id);
    }

    fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.place).filter(|client| client.id == id)
    }

    /// A client that is still answered: one that was told to leave, or said that it does, is told
    /// nothing more.
    fn listener(&mut self, id: ClientId) -> Option<&mut Client> {
        self.client(id).filter(|client| !client.deaf && !matches!(client.phase, Phase::Leaving))
    }

    /// A client sends nothing more. What it has sent is done all the same, as by the server itself;
    /// what it was about to copy in is not.
    fn end_client(&mut self, id: ClientId, deaf: bool) {
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        (client.ends, client.deaf) = (true, client.deaf || deaf);
        if !matches!(client.phase, Phase::Ready) {
            return self.gone.push(id);
        }
        self.remove_if_done(id);
    }

    /// Removes a client that sends nothing more and has been told all that it asked, or all that
    /// comes without more of it.
    fn remove_if_done(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(id.place).filter(|client| client.id == id) else {
            return;
        };
        let session = client.owned.and_then(|place| self.sessions.get(place));
        let is_told = client.deaf || client.answers.is_empty() && !client.blocked;
        if client.ends
            && client.queue.is_empty()
            && (client.in_flight == 0 || session.is_some_and(Session::awaits_its_client))
            && is_told
        {
            return self.gone.push(id);
        }
        if client.ends
            && client.queue.is_empty()
            && !client.hurried
            && let Some(place) = client.owned
            && let Some(session) = self.sessions.get_mut(place)
            && session.is_open()
            && !session.awaits_its_client()
        {
            session.ask_for_rest();
            self.clients[id.place].hurried = true;
            self.to_send.push(place);
        }
    }

    /// Reads what a client has sent: all there is, but for the last look that finds nothing,
    /// which is needed only where the other side is known to have closed.
    fn read_client(&mut self, place: usize, closed: bool, buffer: &mut [u8]) {
        for _ in 0..MOST_READS {
            let Some(client) = self.clients.get_mut(place) else { return };
            let id = client.id;
            if client.ends || matches!(client.phase, Phase::Leaving) {
                return;
            }
            if self.has_enough_of(id) {
                return self.put_off(id);
            }
            let Some(client) = self.clients.get_mut(place) else { return };
            match client.stream.read(buffer) {
                Ok(0) => return self.end_client(id, false),
                Ok(count) => {
                    if let Some(pool) = client.pool {
                        self.pools[pool].stats.received += count as u64;
                    }
                    self.hear_client(id, &buffer[..count]);
                    // TLS may hold more than the socket shows.
                    let encrypted =
                        self.client(id).is_some_and(|client| client.stream.tls().is_some());
                    if count < buffer.len() && !closed && !encrypted {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if client.stream.tls().is_some_and(TlsStream::wants_write) {
                        self.will_tell(id);
                    }
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.gone.push(id),
            }
        }
        self.hurries = true;
        if let Some(id) = self.clients.get(place).map(|client| client.id) {
            self.put_off(id);
        }
    }

    /// Whether so much of a client waits that no more of it is read.
    fn has_enough_of(&self, id: ClientId) -> bool {
        let Some(client) = self.clients.get(id.place) else { return false };
        let session = client.owned.and_then(|place| self.sessions.get(place));
        let queued: usize = client.queue.iter().map(|unit| unit.bytes).sum();
        client.queue.len() >= MOST_QUEUED
            || queued > MOST_UNREAD
            || client.answers.len() > MOST_UNREAD
            || session.is_some_and(|session| session.unsent() > MOST_UNREAD)
            || client.carry.len() > MOST_UNREAD && self.may_yet_copy_in(id)
    }

    /// A client is read again when something of it, or of its session, has gone on.
    fn put_off(&mut self, id: ClientId) {
        if let Some(client) = self.client(id)
            && !std::mem::replace(&mut client.put_off, true)
        {
            self.put_off.push(id);
        }
    }

    fn hear_client(&mut self, id: ClientId, bytes: &[u8]) {
        let Some(client) = self.client(id) else { return };
        if client.carry.is_empty() {
            let used = self.take_messages(id, bytes);
            if let Some(client) = self.client(id) {
                client.carry.extend_from_slice(&bytes[used..]);
            }
        } else {
            let mut whole = std::mem::take(&mut client.carry);
            whole.extend_from_slice(bytes);
            let used = self.take_messages(id, &whole);
            whole.drain(..used);
            if let Some(client) = self.client(id) {
                client.carry = whole;
            }
        }
        let Some(client) = self.client(id) else { return };
        let most = match client.phase {
            Phase::Claiming(_) => MOST_OF_A_PROOF,
            _ => MOST_AHEAD,
        };
        if client.waits_to_be_let_in() && client.carry.len() > most {
            client.carry = Vec::new();
            let what = "too much was sent before the connection was ready";
            self.refuse(id, &Refusal::fatal("08P01", what));
        }
    }

    /// Takes whole messages of a client; how many bytes they were.
    fn take_messages(&mut self, id: ClientId, input: &[u8]) -> usize {
        let mut at = 0;
        loop {
            let Some(client) = self.client(id) else { return at };
            match &client.phase {
                Phase::Leaving => return input.len(),
                Phase::Startup if input[at..].first() == Some(&TLS_HANDSHAKE) => {
                    self.encrypt(id, &input[at..], true);
                    return input.len();
                }
                Phase::Startup => match Opening::parse(&input[at..]) {
                    Ok(Some((Opening::Tls, length))) if at + length < input.len() => {
                        // Somebody in between may have put it there.
                        let what = "received unencrypted data after SSL request";
                        self.refuse(id, &Refusal::fatal("08P01", what));
                        return input.len();
                    }
                    Ok(Some((opening, length))) => {
                        at += length;
                        self.open(id, opening);
                    }
                    Ok(None) => return at,
                    Err(what) => {
                        self.refuse(id, &Refusal::fatal("08P01", what));
                        return input.len();
                    }
                },
                Phase::Arriving | Phase::Claiming(_) | Phase::Console(_) => return at,
                Phase::Ready | Phase::Proving(..) => {
                    let Some(&[tag, a, b, c, d]) = input[at..].first_chunk::<5>() else {
                        return at;
                    };
                    let length = u32::from_be_bytes([a, b, c, d]) as usize;
                    let proves = matches!(client.phase, Phase::Proving(..));
                    let most = if proves { MOST_OF_A_PROOF } else { longest_of(tag) };
                    let known = walwright_wire::frontend::TAGS.contains(tag);
                    if !known || !(4..=most).contains(&length) {
                        let what =
                            format!("invalid frontend message type {tag} or length {length}");
                        self.refuse(id, &Refusal::fatal("08P01", &what));
                        return input.len();
                    }
                    let Some(body) = input.get(at + 5..at + 1 + length) else { return at };
                    if matches!(tag, b'd' | b'c' | b'f') {
                        self.send_before_copy(id);
                        if self.may_yet_copy_in(id) {
                            return at;
                        }
                    }
                    at += 1 + length;
                    if proves {
                        self.take_proof(id, tag, body);
                    } else {
                        self.take_message(id, tag, body);
                    }
                }
            }
        }
    }

    /// What a client copies in comes before the Sync of its COPY.
    fn send_before_copy(&mut self, id: ClientId) {
        if let Some(client) = self.client(id)
            && let Some(unit) = client.gatherer.before_copy()
        {
            client.queue.push_back(unit);
            self.dispatch(id);
        }
    }

    /// Whether the answer that tells whether a client copies in is still to come. Drivers need
    /// not wait for it before they send what they copy.
    fn may_yet_copy_in(&self, id: ClientId) -> bool {
        let Some(client) = self.clients.get(id.place).filter(|client| client.id == id) else {
            return false;
        };
        let session = client.owned.and_then(|place| self.sessions.get(place));
        !client.queue.is_empty()
            || session.is_some_and(|session| {
                !session.copying_in && session.may_copy_in(id) || session.may_copy_in_again(id)
            })
    }

    /// Goes on with what a client sent before it was known what becomes of it.
    fn hear_rest(&mut self, id: ClientId) {
        if let Some(client) = self.client(id)
            && !client.carry.is_empty()
        {
            let carry = std::mem::take(&mut client.carry);
            self.hear_client(id, &carry);
        }
        self.remove_if_done(id);
    }

    fn open(&mut self, id: ClientId, opening: Opening) {
        if self.client(id).and_then(|client| client.stream.tls()).is_some_and(TlsStream::lacks_alpn)
        {
            return self.gone.push(id);
        }
        match opening {
            Opening::Noise => self.gone.push(id),
            Opening::Tls if self.can_encrypt(id) => {
                if let Some(client) = self.client(id)
                    && client.stream.write(b"S").is_ok_and(|count| count == 1)
                {
                    self.encrypt(id, &[], false);
                }
            }
            Opening::Tls | Opening::Gssapi => {
                if let Some(client) = self.client(id) {
                    client.declined += 1;
                    if client.declined > MOST_DECLINED {
                        let what = "encryption was asked for again and again";
                        return self.refuse(id, &Refusal::fatal("08P01", what));
                    }
                    client.answers.push(b"N");
                    client.answers.hold(Until::AT_ONCE);
                    self.will_tell(id);
                }
            }
            Opening::Cancel { process, key } => {
                self.pass_cancel(process, key);
                self.gone.push(id);
            }
            Opening::Startup { minor, parameters } => {
                if let Some(client) = self.client(id) {
                    client.minor = minor.min(NEWEST_MINOR);
                    let unknown = parameters.iter().map(|(name, _)| name.as_str());
                    let unknown: Vec<&str> =
                        unknown.filter(|name| name.starts_with("_pq_.")).collect();
                    if minor > NEWEST_MINOR || !unknown.is_empty() {
                        let out = client.answers.buffer();
                        messages::negotiate_protocol(out, client.minor, &unknown);
                        client.answers.hold(Until::AT_ONCE);
                    }
                }
                self.claim(id, parameters);
            }
        }
    }

    fn can_encrypt(&self, id: ClientId) -> bool {
        let client = self.clients.get(id.place).filter(|client| client.id == id);
        self.options.tls.is_some() && client.is_some_and(|client| client.stream.is_open())
    }

    /// Puts TLS on a client's socket.
    fn encrypt(&mut self, id: ClientId, early: &[u8], direct: bool) {
        let Some(tls) = self.options.tls.clone() else { return self.gone.push(id) };
        let Some(client) = self.client(id) else { return };
        if client.stream.encrypt(&tls, early, direct).is_err() {
            return self.gone.push(id);
        }
        self.will_tell(id);
        // What came with the first record is announced by nothing.
        self.put_off(id);
    }

    /// A client says who it is.
    fn claim(&mut self, id: ClientId, parameters: Vec<(String, String)>) {
        let user = parameters.iter().find(|(name, _)| name == "user");
        let Some(user) = user.map(|(_, user)| user.clone()).filter(|user| !user.is_empty()) else {
            let refusal =
                Refusal::fatal("28000", "no PostgreSQL user name specified in startup packet");
            return self.refuse(id, &refusal);
        };
        // Where none is named, and where an empty name is, it is that of the user.
        let database = parameters.iter().find(|(name, _)| name == "database");
        let database = database.map(|(_, name)| name.clone()).filter(|name| !name.is_empty());
        let database = database.unwrap_or_else(|| user.clone());
        let upstream = self.options.database(&database).and_then(|of| self.upstream_of(of));
        // Nobody is told before he is known that a database is not there.
        let upstream = upstream.unwrap_or_default();
        let claim = Claim { user, database, parameters, upstream, password: None };
        let excess = self.client(id).is_some_and(|client| client.excess);
        if excess && !self.is_for_console(&claim) {
            let what = "sorry, too many clients already";
            let refusal = Refusal::fatal("53300", what).hint("raise max_client_conn");
            return self.refuse(id, &refusal);
        }
        let Some(client) = self.clients.get(id.place).filter(|client| client.id == id) else {
            return;
        };
        let (authentication, tls) = (&self.options.authentication, self.options.tls.as_ref());
        let admission = admit(authentication, tls, &client.stream, (&claim.database, &claim.user));
        let users = authentication.users().cloned();
        let known = users.as_ref().and_then(|users| users.known.get(&claim.user)).cloned();
        match (admission, known) {
            (Err(denial), _) => {
                let refusal = denial.refusal();
                let (user, reason) = (&*claim.user, refusal.message);
                tracing::warn!(user, reason, "a client is not let in");
                self.refuse(id, &refusal);
            }
            (Ok(Admission::In), known) => {
                if let Some(Stored::Password(password)) = known {
                    let credential = Credential::Password(password);
                    self.credentials.insert((upstream, claim.user.clone()), credential);
                }
                self.arrive(id, claim);
            }
            (Ok(Admission::Prove), known) => {
                let asks = users.as_ref().is_some_and(|users| users.ask_server);
                match known.filter(|stored| !asks || !matches!(stored, Stored::Md5)) {
                    None if asks => {
                        self.lookups.push(upstream, &claim.user, id);
                        if let Some(client) = self.client(id) {
                            client.phase = Phase::Claiming(claim);
                        }
                        self.look_up();
                    }
                    stored => {
                        let rounds = users.and_then(|users| users.rounds());
                        self.ask_for_proof(id, claim, stored, rounds);
                    }
                }
            }
        }
    }

    /// The place of a database's server among those that are known.
    fn upstream_of(&self, database: &Database) -> Option<usize> {
        let mut all = self.shared.upstreams.iter();
        all.position(|(server, _)| server.is_same(&database.server))
    }

    /// Looks for verifiers that are waited for, by few connections at a time.
    fn look_up(&mut self) {
        while self.looking < MOST_LOOKUPS
            && let Some((upstream, mut names)) = self.lookups.take()
        {
            let Some(users) = self.options.authentication.users() else { continue };
            let question = users.question.clone();
            for (_, ids) in &mut names {
                ids.retain(|id| self.client(*id).is_some());
            }
            names.retain(|(_, ids)| !ids.is_empty());
            if names.is_empty() {
                continue;
            }
            self.looking += 1;
            self.dial(upstream, Purpose::Verifiers(names, Box::new(question)));
        }
    }

    fn dial(&self, upstream: usize, purpose: Purpose) {
        let of = &self.upstreams[upstream];
        // Databases of one server may differ in how it is connected to.
        let server = match &purpose {
            Purpose::Session(pool, ..) => &self.pools[*pool].database.server,
            _ => &of.server,
        };
        let (done, waker) = (self.to_dialled.clone(), self.waker.clone());
        dial((upstream, of.lives), server.clone(), purpose, done, waker);
    }

    /// It is known what is stored of a claim's password, or that nothing is.
    fn ask_for_proof(
        &mut self,
        id: ClientId,
        mut claim: Claim,
        stored: Option<Stored>,
        rounds: Option<NonZeroU32>,
    ) {
        let verifier = stored.as_ref().and_then(|of| {
            let verifiers = self.shared.verifiers.lock();
            verifiers.unwrap_or_else(PoisonError::into_inner).of(&claim.user, of)
        });
        if let Some(Stored::Md5) = stored {
            tracing::warn!(user = claim.user, "an MD5 hash alone is stored, which lets nobody in");
        }
        if let Some(Stored::Password(password)) = stored {
            claim.password = Some(password);
        }
        let is_known = verifier.is_some();
        let made_up = || Verifier::made_up(&self.shared.secret, &claim.user, rounds);
        let verifier = verifier.unwrap_or_else(made_up);
        let end_point = self.options.tls.as_ref().and_then(|tls| tls.end_point().cloned());
        let Some(client) = self.client(id) else { return };
        let end_point = end_point.filter(|_| client.stream.tls().is_some());
        let mechanisms: &[&str] = if end_point.is_some() { &[SCRAM_PLUS, SCRAM] } else { &[SCRAM] };
        messages::authentication_sasl(client.answers.buffer(), mechanisms);
        client.answers.hold(Until::AT_ONCE);
        let exchange = Exchange::new(verifier, is_known, end_point);
        client.phase = Phase::Proving(claim, Box::new(exchange));
        self.will_tell(id);
    }

    /// A message of a client that proves who it is.
    fn take_proof(&mut self, id: ClientId, tag: u8, body: &[u8]) {
        let Some(client) = self.client(id) else { return };
        let Phase::Proving(claim, exchange) = &mut client.phase else { return };
        if tag != b'p' {
            let what = "expected a SASL response";
            return self.refuse(id, &Refusal::fatal("08P01", what));
        }
        let proven = match initial_response(body) {
            Some((mechanism, message)) if !exchange.is_under_way() => {
                let nonce: String = random::<[u8; 18]>().map(|byte| format!("{byte:02x}")).concat();
                exchange.challenge(mechanism, message, &nonce).map(|challenge| {
                    messages::authentication_sasl_data(client.answers.buffer(), 11, &challenge);
                    None
                })
            }
            _ => exchange.finish(body).map(|proven| {
                messages::authentication_sasl_data(client.answers.buffer(), 12, &proven.answer);
                Some((claim.clone(), proven.client_key, exchange.server_key()))
            }),
        };
        client.answers.hold(Until::AT_ONCE);
        match proven {
            Ok(None) => self.will_tell(id),
            Ok(Some((claim, client, server))) => {
                let credential = match &claim.password {
                    Some(password) => Credential::Password(password.clone()),
                    None => Credential::Keys(ScramKeys { client, server }),
                };
                self.note_credential(&claim, credential);
                self.arrive(id, claim);
            }
            Err(error) => {
                tracing::warn!(user = claim.user, "a client is not let in: {error}");
                let what = format!("password authentication failed for user \"{}\"", claim.user);
                self.refuse(id, &Refusal::fatal("28P01", &what));
            }
        }
    }

    /// A client has proved itself. With another password than those before it may be another
    /// user of the same name, who does not get their sessions.
    fn note_credential(&mut self, claim: &Claim, credential: Credential) {
        let key = (claim.upstream, claim.user.clone());
        let before = self.credentials.insert(key, credential.clone());
        if before.is_some_and(|before| before != credential) {
            let is_of = |of: &Pool| of.upstream == claim.upstream && of.key.user == claim.user;
            let pools: Vec<bool> = self.pools.iter().map(is_of).collect();
            self.retire_sessions(|pool| pools[pool]);
        }
    }

    fn arrive(&mut self, id: ClientId, claim: Claim) {
        let take = |name: &str| {
            let parameters = &claim.parameters;
            parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        if claim.parameters.iter().any(|(name, value)| name == "replication" && value != "false") {
            let refusal = Refusal::fatal("0A000", "the gateway passes on no replication")
                .hint("connect to the server itself");
            return self.refuse(id, &refusal);
        }
        let name = claim.database.clone();
        if is_console(&name) {
            return self.arrive_at_console(id, claim);
        }
        if self.paused.disables(&name) {
            let what = format!("database \"{name}\" is disabled");
            return self.refuse(id, &Refusal::fatal("57P03", &what));
        }
        let Some(database) = self.options.database(&name) else {
            let what = format!("database \"{name}\" does not exist");
            return self.refuse(id, &Refusal::fatal("3D000", &what));
        };
        let own = |name: &str| {
            matches!(name, "user" | "database" | "application_name" | "replication")
                || name.starts_with("_pq_.")
        };
        let said = self.options.users.get(&claim.user);
        let counted = [
            (Counted::DatabaseClients(name.clone()), database.max_clients),
            (Counted::UserClients(claim.user.clone()), said.and_then(|user| user.max_clients)),
        ];
        if !self.shared.census.take(&counted) {
            let what =
                format!("too many clients of database \"{name}\" or user \"{}\"", claim.user);
            return self.refuse(id, &Refusal::fatal("53300", &what));
        }
        let application_name = take("application_name");
        let Claim { user, parameters, .. } = claim;
        let mut kept: Vec<_> = parameters.into_iter().filter(|(name, _)| !own(name)).collect();
        kept.sort();
        let key = PoolKey { database: name, user, parameters: kept };
        let place = match self.pool_of.get(&key) {
            Some(&place) => place,
            None => {
                let Some(upstream) = self.upstream_of(database) else { return };
                self.pools.push(Pool {
                    pooling: self.options.pooling_of(database, &key.user),
                    database: database.clone(),
                    upstream,
                    key: key.clone(),
                    welcome: None,
                    level: Some(Level::RemoteApply),
                    asks_sequences: false,
                    relearns: None,
                    moved: None,
                    relaxed: Side::default(),
                    synchronous: Side::default(),
                    arriving: Vec::new(),
                    failed: None,
                    room_for: None,
                    paused: self.paused.holds(&key.database),
                    stats: Stats::default(),
                });
                self.pool_of.insert(key, self.pools.len() - 1);
                self.pools.len() - 1
            }
        };
        if let Some(client) = self.client(id) {
            client.counted = counted.into_iter().map(|(what, _)| what).collect();
            client.application_name = application_name.map(String::into_boxed_str);
        }
        let Some(client) = self.client(id) else { return };
        client.pool = Some(place);
        client.phase = Phase::Arriving;
        let pool = &mut self.pools[place];
        if pool.welcome.is_some() {
            self.welcome(id);
        } else {
            pool.arriving.push(id);
            if pool.synchronous.opening == 0
                && pool.synchronous.sessions.is_empty()
                && pool.failed.is_none()
            {
                self.open_session(place, SessionKind::Synchronous);
            }
        }
    }

    /// Lets a client in.
    fn welcome(&mut self, id: ClientId) {
        let number = self.number;
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        if !matches!(client.phase, Phase::Arriving) {
            // It was told to leave while it waited.
            return;
        }
        let Some(pool) = client.pool.and_then(|place| self.pools.get(place)) else { return };
        let out = client.answers.buffer();
        messages::authentication_ok(out);
        for (name, value) in pool.welcome.iter().flatten() {
            let own = client.application_name.as_deref().filter(|_| name == "application_name");
            messages::parameter_status(out, name, own.unwrap_or(value));
        }
        let process = process_of(number, id);
        // Protocol 3.2 brought keys longer than four bytes.
        let length = if client.minor >= 2 { client.secret.len() } else { 4 };
        messages::backend_key_data(out, process, &client.secret[..length]);
        messages::ready_for_query(out, b'I');
        client.answers.hold(Until::AT_ONCE);
        client.phase = Phase::Ready;
        client.idle_since = self.now;
        self.note_login(id);
        self.will_tell(id);
        self.arm(id);
        self.let_go_if_drained(id);
        self.hear_rest(id);
    }

    fn take_message(&mut self, id: ClientId, tag: u8, body: &[u8]) {
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        let session = client.owned.and_then(|place| self.sessions.get(place));
        let copies_in = session.is_some_and(|session| session.copying_in && !session.copy_ends);
        match tag {
            _ if client.deaf => return,
            b'X' => return self.end_client(id, true),
            b'd' | b'c' | b'f' => {
                // Where nobody copies in, the server drops these, and so does the gateway.
                if let Some(place) = client.owned
                    && let Some(session) = self.sessions.get_mut(place)
                    && session.copying_in
                {
                    client.hurried = false;
                    session.copy_ends |= tag != b'd';
                    frame_into(&mut session.out, tag, &[body]);
                    self.to_send.push(place);
                }
                return;
            }
            // The server ignores both until the end of what is copied in.
            b'S' | b'H' if copies_in => return,
            _ if copies_in => return self.refuse(id, &within_copy()),
            _ => {}
        }
        let redefined = self.shared.redefined.load(Ordering::Relaxed);
        let settled = client.in_flight == 0 && client.queue.is_empty();
        let (statements, registry) = (&mut client.statements, &mut self.registry);
        let taken = client.gatherer.take(tag, body, statements, registry, redefined, settled);
        if client.statements.bytes() > MOST_PREPARED {
            let what = "the prepared statements of this connection take more than 64 MiB";
            let hint = Some("Deallocate those that are not used any more.");
            return self.refuse(id, &Refusal { hint, ..Refusal::fatal("53200", what) });
        }
        match taken {
            Ok(None) => {}
            Ok(Some(unit)) => {
                client.queue.push_back(unit);
                self.dispatch(id);
            }
            Err(Malformed(what)) => {
                let what = format!("invalid message format: {what}");
                self.refuse(id, &Refusal::fatal("08P01", &what));
            }
        }
    }

    /// Tells a client why it is not served, and closes.
    fn refuse(&mut self, id: ClientId, refusal: &Refusal<'_>) {
        self.note_refusal(id, refusal);
        let now = self.now;
        if let Some(client) = self.client(id) {
            // An error within a message would be read as a part of it.
            if client.answers.drop_unheld() {
                messages::error(client.answers.buffer(), refusal);
                client.answers.hold(Until::AT_ONCE);
            }
            client.phase = Phase::Leaving;
            client.idle_since = now;
            // What is still to come for it is dropped.
            self.end_stall(id);
            self.will_tell(id);
            self.arm(id);
        }
    }

    /// A client loses its connection: what became of its statement is not known.
    fn lose_client(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        client.answers.drop_held();
        client.lose_session();
        let refusal = Refusal::fatal(
            "08006",
            "the server was lost; whether a transaction that was not acknowledged is committed \
             is not known",
        );
        self.refuse(id, &refusal);
    }

    /// A client is told what the server said to it when it ended its session, after what is
    /// withheld from it.
    fn tell_last_words(&mut self, id: ClientId, said: &ErrorFields) {
        let Some(client) = self.client(id) else { return };
        client.lose_session();
        let hint = said.hint.as_deref();
        self.refuse(id, &Refusal { hint, ..Refusal::fatal(&said.code, &said.message) });
    }

    fn will_tell(&mut self, id: ClientId) {
        if let Some(client) = self.client(id)
            && !std::mem::replace(&mut client.dirty, true)
        {
            self.to_tell.push(id);
        }
    }

    /// Sends what a client may be told.
    fn tell(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        client.dirty = false;
        let mut read = 0;
        while !client.blocked && !client.answers.ready().is_empty() {
            match client.stream.write(client.answers.ready()) {
                Ok(count) => {
                    client.answers.advance(count);
                    read += count;
                    if let Some(pool) = client.pool {
                        self.pools[pool].stats.sent += count as u64;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => client.blocked = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.gone.push(id),
            }
        }
        let reads_on = client.stalls.is_some() && client.answers.len() <= MOST_UNREAD;
        if read > 0
            && let Some((_, since)) = &mut client.stalls
        {
            let allowed = Duration::from_secs_f64(read as f64 / SLOWEST_READ);
            *since = (*since + allowed).min(self.now);
            self.arm(id);
        }
        let Some(client) = self.clients.get_mut(id.place) else { return };
        match client.stream.flush() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => client.blocked = true,
            Err(_) => return self.gone.push(id),
        }
        if client.answers.is_empty() && !client.blocked {
            if matches!(client.phase, Phase::Leaving) {
                return self.gone.push(id);
            }
            self.remove_if_done(id);
            let Some(client) = self.clients.get_mut(id.place) else { return };
            if client.in_flight == 0 {
                client.answers.shrink();
                self.let_go_if_drained(id);
            }
        }
        if reads_on {
            self.end_stall(id);
        }
    }

    /// Forgets a client. What was sent for it goes on, and its answer is dropped.
    fn remove_client(&mut self, id: ClientId) {
        if self.client(id).is_none() {
            return;
        }
        self.end_stall(id);
        let mut client = self.clients.remove(id.place);
        self.note_leaving(&client);
        self.shared.census.remove_client();
        self.shared.census.give_back(&client.counted);
        // The socket is closed next in any case.
        let _ = client.stream.deregister(self.poll.registry());
        if let Some(place) = client.owned
            && let Some(session) = self.sessions.get_mut(place)
        {
            session.owner = None;
            let is_clean = !session.retires && !session.is_marked();
            if session.ledger.is_empty() && session.status == b'I' && is_clean {
                // What it left behind is state of the session alone.
                session.reset();
                self.to_send.push(place);
            } else {
                // Its transaction is open: the server ends it.
                self.lost.push(place);
                self.close_lost();
            }
        }
    }

    /// A cancel request goes to the worker whose client it is for.
    fn pass_cancel(&mut self, process: u32, key: Vec<u8>) {
        if worker_of(process) == Some(self.number) {
            return self.cancel(process, &key);
        }
        self.shared.control.cancel(process, key);
    }

    fn cancel(&mut self, process: u32, key: &[u8]) {
        let is_its = |client: &&Client| {
            let length = if client.minor >= 2 { client.secret.len() } else { 4 };
            process_of(self.number, client.id) == process && client.secret[..length] == *key
        };
        match self.clients.iter().map(|(_, client)| client).find(is_its) {
            Some(client) => self.cancel_statement(client.id),
            None => self.shared.control.cancel_before(process, key),
        }
    }

    /// Cancels what a client runs, or takes back what it waits to run.
    fn cancel_statement(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        if client.in_flight == 0 {
            // Only the first of its statements counts as running, and only as a whole.
            let whole = client.queue.front().is_some_and(|unit| unit.end != End::Flush);
            if client.waits
                && whole
                && let Some(unit) = client.queue.pop_front()
            {
                client.unprepare(&unit);
                client.fail(&Refusal::fatal("57014", CANCELED));
                client.answers.hold(Until::AT_ONCE);
                if client.queue.is_empty() {
                    self.stop_waiting(id);
                }
                self.will_tell(id);
            }
            return;
        }
        let runs =
            |session: &&Session| session.ledger.front().is_some_and(|slot| slot.client == id);
        let mut sessions = self.sessions.iter().map(|(_, session)| session);
        let Some(session) = sessions.find(runs).filter(|session| session.may_cancel(id)) else {
            // It waits behind another's on the same session, or that is being cancelled: it is
            // cancelled when it runs and the other cancel is over.
            if let Some(client) = self.client(id) {
                client.cancels = true;
            }
            return;
        };
        // What is behind it may be hit in its place, and is sent once more then.
        let harmless = |slot: &Slot| slot.client == id || slot.again.is_some();
        if !session.ledger.iter().all(harmless) {
            return;
        }
        let place = session.id.place;
        self.send_cancel(place, id);
    }

    fn stop_waiting(&mut self, id: ClientId) {
        if let Some(client) = self.client(id) {
            client.waits = false;
            client.waits_since = None;
            let pool = client.pool;
            if let Some(pool) = pool.and_then(|pool| self.pools.get_mut(pool)) {
                for side in [&mut pool.relaxed, &mut pool.synchronous] {
                    side.waiting.retain(|waiting| *waiting != id);
                }
            }
        }
    }

    // From clients to sessions.

    /// Sends what a client has waiting, as far as it can be sent now.
    fn dispatch(&mut self, id: ClientId) {
        let now = self.now;
        loop {
            let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id)
            else {
                return;
            };
            let Some(unit) = client.queue.front() else { return };
            if client.waits || !matches!(client.phase, Phase::Ready) {
                return;
            }
            let open = client
                .owned
                .and_then(|place| self.sessions.get(place))
                .is_some_and(Session::is_open);
            if client.in_flight > 0 && !open {
                return;
            }
            if client.owned.is_none() && is_local(unit) {
                if let Some(unit) = client.queue.pop_front() {
                    answer_locally(client, &unit);
                    self.will_tell(id);
                }
                continue;
            }
            let mut need = unit.need;
            let Some(pool) = client.pool else { return };
            let of = &self.pools[pool];
            if of.pooling.mode == PoolMode::Session && client.owned.is_none() {
                need = Need { session: SessionKind::Relaxed, hold: Hold::Pinned(Pin::Pooling) };
            }
            let upstream = &mut self.upstreams[of.upstream];
            let level = client.settings.level(of.level);
            if upstream.life.as_ref().is_some_and(Life::is_standby)
                || client.owned.is_none()
                    && upstream.is_lone(id, need, level)
                    && !unit.effects.opts_out
            {
                need.session = SessionKind::Synchronous;
            }
            let place = match client.owned {
                Some(place) => Some(place),
                None => {
                    let (settings, acts) = (client.settings.clone(), acts(unit, need));
                    self.choose(pool, need, &settings, acts.then_some(id))
                }
            };
            let Some(client) = self.client(id) else { return };
            let Some(place) = place else {
                client.waits = true;
                client.waits_since.get_or_insert(now);
                self.pools[pool].side(need.session).waiting.push_back(id);
                self.arm(id);
                return;
            };
            let session = self.sessions.get(place);
            let client = &mut self.clients[id.place];
            let Some(unit) = client.queue.front_mut() else { return };
            if session.is_some_and(|session| session.doubts(unit)) {
                if client.owned.is_none() && need.hold == Hold::Shared {
                    // Nobody waits behind the question.
                    unit.need.hold = Hold::Transaction;
                    continue;
                }
                return self.look(place, id, need);
            }
            let Some(unit) = client.queue.pop_front() else { return };
            let pinned = client.pinned;
            if let Hold::Pinned(pin) = need.hold {
                client.pinned = Some(pin);
            }
            if unit.change.is_some() && client.owned.is_some() && client.pinned.is_none() {
                // Within a transaction, whose end decides whether it stays.
                client.pinned = Some(Pin::Setting);
            }
            if need.hold != Hold::Shared {
                client.owned = Some(place);
            }
            client.hurried = false;
            let since = client.waits_since.take();
            let pin = client.pinned.filter(|_| pinned.is_none());
            if !open {
                client.in_flight += 1;
                client.sent_at = now;
            }
            self.pools[pool].stats.sends(&unit, since.map(|since| now - since), pin);
            self.send_unit(place, id, unit, need);
            if self.limits_transactions {
                self.arm(id);
            }
        }
    }

    /// Asks what statements of the unit that a client has waiting have come to give, before it is
    /// sent on this session.
    fn look(&mut self, place: usize, id: ClientId, need: Need) {
        self.give_session(place, id, need, true);
        let redefined = self.shared.redefined.load(Ordering::Relaxed);
        let Some(session) = self.sessions.get_mut(place) else { return };
        let Some(client) = self.clients.get_mut(id.place) else { return };
        let Some(unit) = client.queue.front() else { return };
        session.look(id, unit, redefined);
        client.owned = Some(place);
        client.waits_since = None;
        client.in_flight += 1;
        client.sent_at = self.now;
        self.to_send.push(place);
    }

    /// Makes a session ready for a client, and its own where it needs it alone.
    fn give_session(&mut self, place: usize, id: ClientId, need: Need, acts: bool) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        let Some(client) = self.clients.get(id.place) else { return };
        let is_as_set = session.settings.serve(&client.settings, session.kind)
            && (!acts || session.commits_as_set_for(id));
        if session.owner.is_none() && !is_as_set {
            session.take_settings(&client.settings);
        }
        // What a sequence gave to another client is forgotten before one that may ask has the
        // session alone; where nobody has asked before, when one does that has written nothing.
        let asks = matches!(need.hold, Hold::Pinned(Pin::Sequence | Pin::Session));
        let of_pool = &mut self.pools[session.pool].asks_sequences;
        *of_pool |= asks;
        let alone = need.hold != Hold::Shared;
        let is_new = session.owner.is_none() && alone && *of_pool;
        // A block that has failed takes no statement, and nothing goes between a Flush and its Sync.
        let takes = session.status != b'E' && !session.is_open();
        if is_new || asks && takes && !session.own_sequences {
            session.forget_sequences();
        }
        if need.hold != Hold::Shared {
            session.owner = Some(id);
        }
        session.used = self.now;
    }

    fn send_unit(&mut self, place: usize, id: ClientId, unit: Unit, need: Need) {
        self.give_session(place, id, need, acts(&unit, need));
        let Some(session) = self.sessions.get_mut(place) else { return };
        let Some(client) = self.clients.get(id.place) else { return };
        let pool = &self.pools[session.pool];
        // What is followed from session to session is known, and no commit.
        let follows = unit.change.is_some()
            && session.status == b'I'
            && !session.is_open()
            && client.pinned.is_none();
        let opts_out =
            !session.opted_out && session.owner.is_some() && !follows && unit.effects.opts_out;
        session.opted_out |= opts_out;
        let level = level_of(session, Some(client), pool);
        let opts_in = opts_out && session.kind == SessionKind::Relaxed;
        let opts_out = opts_out && session.kind == SessionKind::Synchronous;
        // One that was asked not to wait for flushes, or whose role was, commits as a relaxed
        // session does.
        let relaxed = session.kind == SessionKind::Relaxed
            || session.opted_out
            || level.is_none()
            || client.settings.level(session.level).is_none();
        let begins = relaxed && session.exposed.is_none() && (opts_out || !session.is_open());
        let mut covers = None;
        if opts_in
            && let Some(before) = session.exposed
            && let Some(life) = &mut self.upstreams[pool.upstream].life
        {
            // Nothing of its transaction is committed: another barrier is to cover it.
            session.exposed = Some(life.barriers.relaxed_begins(level));
            life.barriers.relaxed_ends_unwritten(before);
        }
        if begins
            && let Some(life) = &mut self.upstreams[pool.upstream].life
            && !life.is_standby()
        {
            let cover = life.barriers.relaxed_begins(level);
            if session.owner.is_some() {
                session.exposed = Some(cover);
            } else {
                covers = Some(cover);
            }
        }
        let of_ours = |slot: &Slot| slot.client == ClientId::NOBODY;
        if session.status == b'I' && session.ledger.iter().all(of_ours) {
            (session.writes, session.began) = (false, Some(self.now));
        }
        if session.exposed.is_some()
            && session.status == b'T'
            && session.ledger.is_empty()
            && !session.writes
            && unit.is_commit()
        {
            session.ask_whether_written();
        }
        session.writes |= unit.effects.writes;
        session.own_sequences |= session.owner.is_some() && unit.effects.may_call;
        session.send(id, unit, covers, self.shared.redefined.load(Ordering::Relaxed));
        self.to_send.push(place);
        self.watch_line(place);
    }

    /// A session on which statements stand behind one that runs is looked at after a while: one
    /// that waits for a lock could wait for whom it keeps waiting, and no server can see that.
    fn watch_line(&mut self, place: usize) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        if session.ledger.len() > 1
            && session.owner.is_none()
            && !std::mem::replace(&mut session.watched, true)
        {
            let SessionId { place, serial } = session.id;
            let at = look_due(session.front).max(self.now);
            self.timers.push(Reverse((at, Timer::Line { place, serial })));
        }
    }

    /// What a session runs with others behind it, if it can be sent once more.
    fn in_the_way(&self, id: SessionId) -> Option<&Slot> {
        let session = self.sessions.get(id.place).filter(|session| session.id == id)?;
        let slot = session.ledger.front()?;
        let part_told = self.clients.get(slot.client.place).is_some_and(|client| client.part_told);
        let may = session.ledger.len() > 1
            && session.may_cancel(ClientId::NOBODY)
            && !part_told
            && session.ledger.iter().all(|slot| slot.again.is_some());
        may.then_some(slot)
    }

    /// Asks whether what others stand behind waits for a lock, where it takes a while.
    fn look_at_line(&mut self, id: SessionId) {
        let front = self.in_the_way(id).map(|slot| slot.client);
        let Some(session) = self.sessions.get_mut(id.place).filter(|of| of.id == id) else {
            return;
        };
        let is_due = look_due(session.front) <= self.now;
        let is_long = self.now.saturating_duration_since(session.front.0) >= LONGEST_LINE;
        session.watched = false;
        // Less and less often: a statement may well take its time.
        session.front.1 += u32::from(is_due);
        match front.filter(|_| is_due) {
            Some(client) if is_long => self.clear_line(id, client, true),
            Some(client) => {
                session.watched = true;
                let (pool, process) = (session.pool, session.process);
                let upstream = self.pools[pool].upstream;
                self.dial(upstream, Purpose::Waits(id, client, process));
            }
            None => self.watch_line(id.place),
        }
    }

    /// What waits for a lock, or runs for long, makes way for those behind it: it is cancelled, which proves that
    /// nothing of it stays, and is run once more on a session of its own.
    fn clear_line(&mut self, id: SessionId, client: ClientId, waits: bool) {
        if waits && self.in_the_way(id).is_some_and(|slot| slot.client == client) {
            self.send_cancel(id.place, ClientId::NOBODY);
        }
        if let Some(session) = self.sessions.get_mut(id.place).filter(|of| of.id == id) {
            session.watched = false;
            self.watch_line(id.place);
        }
    }

    /// Cancels what a session runs, for a client; for nobody where all that it may hit is run once
    /// more.
    fn send_cancel(&mut self, place: usize, client: ClientId) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        if let Some(request) = session.cancels.clone() {
            (session.cancelling, session.cancel_sent) = (Some(client), false);
            let (to, upstream) = (session.id, self.pools[session.pool].upstream);
            self.dial(upstream, Purpose::Cancel(to, request));
        }
    }

    /// Whether sessions that commit by themselves wait for standbys then.
    fn waits_for_standbys(&self, pool: usize) -> bool {
        let life = self.upstreams[self.pools[pool].upstream].life.as_ref();
        life.is_some_and(|life| life.flushers.len() > 1)
    }

    /// The session for a statement; `None` where it has to wait for one. `acts` is who sends it, if
    /// it may write.
    fn choose(
        &mut self,
        pool: usize,
        need: Need,
        settings: &Settings,
        acts: Option<ClientId>,
    ) -> Option<usize> {
        if self.holds(pool) {
            return None;
        }
        let (spread, depth) = (self.options.spread, self.options.depth);
        let most = self.pools[pool].pooling.size;
        let kind = need.session;
        let side = match kind {
            SessionKind::Relaxed => &self.pools[pool].relaxed,
            SessionKind::Synchronous => &self.pools[pool].synchronous,
        };
        let room = side.sessions.len() + side.opening < most;
        let now = self.now;
        // What waits for standbys by itself could not be told from what is cancelled behind it.
        let alone = kind == SessionKind::Synchronous && self.waits_for_standbys(pool);
        // By how many are before it, and whether it has the settings.
        let mut best: Option<(usize, (usize, bool))> = None;
        let mut slow = 0;
        // That with the fewest before it of those that would have to be set otherwise first.
        let mut other: Option<(usize, usize)> = None;
        let mut one_runs_dry = false;
        for &place in &side.sessions {
            let Some(session) = self.sessions.get(place) else { continue };
            let front = session.ledger.front();
            let is_slow =
                front.is_some_and(|slot| now.saturating_duration_since(slot.since) > SLOW);
            one_runs_dry |= session.reserved && !session.retires && !is_slow;
            if session.owner.is_some()
                || session.status != b'I'
                || session.last_words.is_some()
                || session.reserved
                || session.retires
                || session.spoilt
                || session.cancelling.is_some()
                || alone && session.length() > 0
            {
                continue;
            }
            if is_slow {
                slow += 1;
                continue;
            }
            let length = session.length();
            let differs = !session.settings.serve(settings, kind)
                || acts.is_some_and(|id| !session.commits_as_set_for(id));
            // Settings change only where nothing runs.
            if length > 0 && differs {
                if other.is_none_or(|(_, shortest)| length < shortest) {
                    other = Some((place, length));
                }
                continue;
            }
            if best.is_none_or(|(_, shortest)| (length, differs) < shortest) {
                best = Some((place, (length, differs)));
            }
        }
        let shared = need.hold == Hold::Shared;
        let usable =
            best.filter(|(_, (length, _))| if shared { *length < depth } else { *length == 0 });
        // Few sessions are worth more than many: they carry several statements at once.
        let wanting = match best {
            Some((_, (length, _))) if shared => {
                length > 0 && side.sessions.len() + side.opening < spread + slow
            }
            Some(_) => usable.is_none(),
            None => side.opening == 0 || !shared,
        };
        if wanting && room {
            self.open_session(pool, kind);
        }
        let room = room && self.pools[pool].failed.is_none();
        let best = best.map(|(place, _)| place);
        let dry = best.or(other.map(|(place, _)| place)).filter(|_| !shared || best.is_none());
        if usable.is_none()
            && !room
            && !one_runs_dry
            && let Some(place) = dry
            && let Some(session) = self.sessions.get_mut(place)
        {
            // It is left to run dry for a client that needs one alone, or otherwise set.
            session.reserved = true;
        }
        usable.map(|(place, _)| place)
    }

    /// Lets clients that wait for a session of a kind go on.
    fn serve_waiting(&mut self, pool: usize, kind: SessionKind) {
        loop {
            let Some(&id) = self.pools[pool].side(kind).waiting.front() else { return };
            let Some(client) = self.client(id) else {
                self.pools[pool].side(kind).waiting.pop_front();
                continue;
            };
            let front = client.queue.front();
            let mut hold = front.map_or(Hold::Shared, |unit| unit.need.hold);
            let settings = client.settings.clone();
            let writes = front.is_some_and(|unit| unit.effects.acts);
            if self.pools[pool].pooling.mode == PoolMode::Session {
                hold = Hold::Pinned(Pin::Pooling);
            }
            let acts = (writes || hold != Hold::Shared).then_some(id);
            if self.choose(pool, Need { session: kind, hold }, &settings, acts).is_none() {
                return;
            }
            self.pools[pool].side(kind).waiting.pop_front();
            if let Some(client) = self.client(id) {
                client.waits = false;
            }
            self.dispatch(id);
            self.remove_if_done(id);
        }
    }

    // Sessions.

    fn open_session(&mut self, pool: usize, kind: SessionKind) {
        let of = &self.pools[pool];
        let upstream = of.upstream;
        let gives_way = of.room_for.is_some_and(|first| first != kind && self.lacks(pool, first));
        if self.holds(pool) || of.failed.is_some() || gives_way {
            // Nothing is asked for until the time that was given it is over.
            return;
        }
        if self.upstreams[upstream].life.is_none() {
            // The barrier is there before anything is to be covered by it.
            return self.open_life(upstream);
        }
        if !self.shared.census.take(&self.counted_sessions(pool)) {
            return self.make_room(pool, kind);
        }
        let of = &mut self.pools[pool];
        of.room_for = None;
        let forced = of.database.server.addresses.first().filter(|_| of.database.forced_user);
        let user = forced.map_or(&of.key.user, |address| &address.user).clone();
        let password = forced.and_then(|address| address.password.clone());
        let mut login = Login {
            dbname: of.database.dbname.clone().unwrap_or_else(|| of.key.database.clone()),
            parameters: of.key.parameters.clone(),
            user,
            password,
            keys: None,
        };
        if forced.is_none() {
            match self.credentials.get(&(upstream, of.key.user.clone())) {
                Some(Credential::Password(password)) => login.password = Some(password.clone()),
                Some(Credential::Keys(keys)) => login.keys = Some(keys.clone()),
                None => {}
            }
        }
        of.side(kind).opening += 1;
        self.dial(upstream, Purpose::Session(pool, kind, Box::new(login)));
    }

    /// What a session of a pool counts as, with the limits.
    fn counted_sessions(&self, pool: usize) -> [(Counted, Option<usize>); 2] {
        let (of, limits) = (&self.pools[pool], &self.options.limits);
        let said = self.options.users.get(&of.key.user);
        let user = said.and_then(|user| user.max_connections).or(limits.max_user_connections);
        let database = of.database.max_connections.or(limits.max_database_connections);
        [
            (Counted::DatabaseSessions(of.key.database.clone()), database),
            (Counted::UserSessions(of.key.user.clone()), user),
        ]
    }

    fn uncount_session(&self, pool: usize) {
        let counted = self.counted_sessions(pool);
        self.shared.census.give_back(counted.iter().map(|(what, _)| what));
    }

    /// A limit of sessions is reached: one that nobody needs makes room, whoever had it. Where a
    /// pool has none of a kind, one of its other kind makes room as soon as it is free.
    fn make_room(&mut self, pool: usize, kind: SessionKind) {
        let of = &self.pools[pool];
        let (database, user) = (of.key.database.clone(), of.key.user.clone());
        let comes_free = |(_, session): (usize, &Session)| {
            session.pool == pool && !session.retires && !self.is_pinned(session)
        };
        let has_none = !self.sessions.iter().any(comes_free);
        if self.has_none_of(pool, kind) {
            self.pools[pool].room_for = Some(kind);
        }
        if self.give_room(&database, &user, Some((pool, kind))) {
            return self.try_again(pool, LIMIT, self.now + SOON);
        }
        if has_none {
            self.shared.control.make_room(self.number as usize, &database, &user);
            return self.try_again(pool, LIMIT, self.now + ASKED);
        }
        // Sessions of others come free; whoever waits is served when one of its own does, or asks
        // again.
        self.try_again(pool, LIMIT, self.now + self.options.limits.server_login_retry);
    }

    /// Closes a session of a database or a user that nobody waits for; whether there is one. Where
    /// there is none, and whoever needs one has none at all, one is closed when it is free.
    fn give_room(&mut self, database: &str, user: &str, to: Option<(usize, SessionKind)>) -> bool {
        let shares = |session: &Session| {
            let of = &self.pools[session.pool].key;
            of.database == database || of.user == user
        };
        let is_other = |session: &Session| to != Some((session.pool, session.kind));
        let is_needed = |session: &Session| {
            let of = &self.pools[session.pool];
            let is_same = to.is_some_and(|(pool, _)| session.pool == pool);
            let (of_its, of_other) = match session.kind {
                SessionKind::Relaxed => (&of.relaxed, &of.synchronous),
                SessionKind::Synchronous => (&of.synchronous, &of.relaxed),
            };
            !of_its.waiting.is_empty() || !is_same && !of_other.waiting.is_empty()
        };
        let others =
            || self.sessions.iter().filter(|(_, session)| shares(session) && is_other(session));
        let idle = others()
            .find(|(_, session)| session.is_idle() && !session.retires && !is_needed(session));
        let idle = idle.map(|(place, _)| place);
        let has_none = to.is_none_or(|(pool, kind)| self.pools[pool].room_for == Some(kind));
        let is_its = |session: &Session| to.is_none_or(|(pool, _)| session.pool == pool);
        let free_some_day = |session: &Session| is_its(session) && !self.is_pinned(session);
        let is_on_its_way = self
            .sessions
            .iter()
            .any(|(_, session)| session.retires && shares(session) && free_some_day(session));
        let busy = others().find(|(_, session)| free_some_day(session));
        let busy = busy.map(|(place, _)| place).filter(|_| has_none && !is_on_its_way);
        if let Some(session) = idle.or(busy).and_then(|place| self.sessions.get_mut(place)) {
            session.retires = true;
            self.lost.extend(session.is_idle().then_some(session.id.place));
        }
        idle.is_some()
    }

    /// Whether a pool has no session of a kind that comes free, and none on its way.
    fn has_none_of(&self, pool: usize, kind: SessionKind) -> bool {
        let side = match kind {
            SessionKind::Relaxed => &self.pools[pool].relaxed,
            SessionKind::Synchronous => &self.pools[pool].synchronous,
        };
        let comes_free = |place: &usize| {
            let session = self.sessions.get(*place);
            session.is_some_and(|session| !session.retires && !self.is_pinned(session))
        };
        side.opening == 0 && !side.sessions.iter().any(comes_free)
    }

    /// Whether it has none, and somebody needs one.
    fn lacks(&self, pool: usize, kind: SessionKind) -> bool {
        let of = &self.pools[pool];
        let is_needed = match kind {
            SessionKind::Relaxed => !of.relaxed.waiting.is_empty(),
            SessionKind::Synchronous => {
                !of.synchronous.waiting.is_empty() || !of.arriving.is_empty()
            }
        };
        is_needed && self.has_none_of(pool, kind)
    }

    /// Whether its client keeps a session until it leaves.
    fn is_pinned(&self, session: &Session) -> bool {
        let owner = session.owner.and_then(|id| self.clients.get(id.place));
        owner.is_some_and(|client| client.pinned.is_some())
    }

    /// Another worker has no session for a database and a user: one is closed for it, and none
    /// opened until it has had time to open its own.
    fn give_way(&mut self, database: &str, user: &str) {
        self.give_room(database, user, None);
        for pool in 0..self.pools.len() {
            let of = &self.pools[pool];
            let shares = of.key.database == database || of.key.user == user;
            if shares && of.failed.is_none() {
                self.try_again(pool, LIMIT, self.now + 4 * ASKED);
            }
        }
    }

    /// A pool asks for a session again at a time.
    fn try_again(&mut self, pool: usize, why: &str, at: Instant) {
        self.pools[pool].failed = Some((why.to_owned(), at));
        self.timers.push(Reverse((at, Timer::Pool(pool))));
    }

    fn open_life(&mut self, upstream: usize) {
        let of = &mut self.upstreams[upstream];
        if of.retry.is_none() && !std::mem::replace(&mut of.opening, true) {
            self.dial(upstream, Purpose::Barriers);
        }
    }

    fn take_dialled(&mut self, dialled: Dialled) {
        let Dialled { upstream, purpose, life, since, result } = dialled;
        match (purpose, result) {
            (Purpose::Barriers, Ok(Reply::Barriers(identity, opened))) => {
                self.upstreams[upstream].opening = false;
                self.begin_life(upstream, identity, opened);
            }
            (Purpose::Barriers, Err(error)) => {
                self.upstreams[upstream].opening = false;
                self.fail_upstream(upstream, &error);
            }
            (Purpose::Verifiers(names, _), result) => {
                self.looking = self.looking.saturating_sub(1);
                self.take_verifiers(upstream, names, result);
                self.look_up();
            }
            (Purpose::Session(pool, kind, _), result) => {
                let side = self.pools[pool].side(kind);
                side.opening = side.opening.saturating_sub(1);
                match result {
                    Ok(Reply::Session(opened)) => {
                        self.add_session(pool, kind, (life, since), *opened);
                    }
                    Ok(_) => self.uncount_session(pool),
                    Err(error) => {
                        self.uncount_session(pool);
                        self.fail_pool(pool, &error);
                    }
                }
            }
            (Purpose::Waits(id, client, _), result) => {
                let waits = matches!(result, Ok(Reply::Waits(true)));
                self.clear_line(id, client, waits);
            }
            (Purpose::Cancel(id, _), result) => {
                if let Err(error) = &result {
                    tracing::warn!("a statement could not be cancelled: {error}");
                }
                if let Some(session) = self.sessions.get_mut(id.place)
                    && session.id == id
                {
                    // What was sent before the request may still be hit by it; one of which it is
                    // not known whether it arrived may hit what comes later.
                    session.cancel_sent = true;
                    if result.is_err() {
                        self.retire_session(id.place);
                    }
                    self.end_cancel(id.place);
                    self.cancel_again(id.place);
                }
            }
            (Purpose::Strays(asked), result) => {
                let life = self.upstreams[upstream].life.as_ref();
                let is_it = |of: &Identity| life.is_some_and(|life| life.identity == *of);
                let running = match result {
                    Ok(Reply::Strays(reached, running)) if is_it(&reached) => running,
                    // It is not known, or of another server, so they are taken to run.
                    _ => asked.clone(),
                };
                self.end_strays(upstream, &asked, running);
            }
            (Purpose::Barriers, Ok(_)) => self.upstreams[upstream].opening = false,
        }
    }

    /// A cancel is over when it was sent and all that it could hit has answered.
    fn end_cancel(&mut self, place: usize) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        if session.cancel_sent && session.ledger.is_empty() {
            (session.cancelling, session.cancel_sent) = (None, false);
            let (pool, kind) = (session.pool, session.kind);
            self.serve_waiting(pool, kind);
        }
    }

    /// A verifier was looked for.
    fn take_verifiers(
        &mut self,
        upstream: usize,
        mut names: Names,
        result: Result<Reply, WireError>,
    ) {
        let Answers { stored, rounds } = match result {
            Ok(Reply::Verifiers(answers)) => answers,
            Ok(_) => return,
            Err(error) => {
                let clients = names
                    .into_iter()
                    .flat_map(|(user, ids)| ids.into_iter().map(move |id| (user.clone(), id)));
                clients.for_each(|(user, id)| self.take_verifier(id, &user, Err(&error), None));
                return;
            }
        };
        let later = names.split_off(stored.len().min(names.len()));
        self.lookups.put_back(upstream, later);
        for ((user, ids), stored) in names.into_iter().zip(stored) {
            for id in ids {
                self.take_verifier(id, &user, stored.as_ref(), rounds);
            }
        }
    }

    /// What is stored of the password of a user that a client claims to be.
    fn take_verifier(
        &mut self,
        id: ClientId,
        user: &str,
        stored: Result<&Option<String>, &WireError>,
        rounds: Option<NonZeroU32>,
    ) {
        let Some(client) = self.client(id) else { return };
        let Phase::Claiming(claim) = &client.phase else { return };
        let claim = claim.clone();
        match stored {
            Ok(text) => {
                let stored = text.clone().and_then(|text| Stored::parse(text).ok()?);
                self.ask_for_proof(id, claim, stored, rounds);
                self.hear_rest(id);
            }
            Err(error) => {
                tracing::error!(user, "a password could not be looked up: {error}");
                let refusal = Refusal::fatal("08001", "the server could not be asked who you are");
                self.refuse(id, &refusal);
            }
        }
    }

    /// Barrier sessions are there: relaxed sessions may be opened beside them.
    fn begin_life(&mut self, upstream: usize, identity: Identity, opened: Vec<Opened>) {
        let mut flushers = Vec::new();
        for (place, opened) in opened.into_iter().enumerate() {
            let fd = opened.stream.as_raw_fd();
            let token = barrier_token(upstream, place);
            if let Err(error) =
                SourceFd(&fd).register(self.poll.registry(), token, Interest::READABLE)
            {
                return self.fail_upstream(upstream, &error.into());
            }
            let (withheld, carry) = (VecDeque::new(), Vec::new());
            let (sent, pace) = (self.now, Pace::default());
            let Opened { stream, configured, .. } = opened;
            flushers.push(Flusher { stream, withheld, carry, sent, pace, configured });
        }
        let of = &mut self.upstreams[upstream];
        of.trouble = None;
        let barriers = Barriers::new(of.exposures.clone(), flushers.len());
        let life = Life { identity, barriers, flushers };
        if life.is_standby() {
            // It gets no relaxed sessions, so nobody is left waiting for one.
            for pool in self.pools.iter_mut().filter(|pool| pool.upstream == upstream) {
                pool.synchronous.waiting.append(&mut pool.relaxed.waiting);
            }
        }
        let timer = Timer::Settings { upstream, life: of.lives };
        self.timers.push(Reverse((self.now + SETTINGS, timer)));
        of.life = Some(life);
        self.inherit(upstream, Left::default());
        self.serve_pools(upstream);
    }

    /// Lets go on whoever waits for sessions of a server.
    fn serve_pools(&mut self, upstream: usize) {
        for pool in 0..self.pools.len() {
            let of = &self.pools[pool];
            if of.upstream != upstream {
                continue;
            }
            if !of.arriving.is_empty()
                && of.synchronous.opening == 0
                && of.synchronous.sessions.is_empty()
            {
                self.open_session(pool, SessionKind::Synchronous);
            }
            self.serve_waiting(pool, SessionKind::Relaxed);
            self.serve_waiting(pool, SessionKind::Synchronous);
        }
    }

    fn add_session(
        &mut self,
        pool: usize,
        kind: SessionKind,
        (life, asked): (u64, Instant),
        opened: Opened,
    ) {
        let upstream = self.pools[pool].upstream;
        let of = &self.upstreams[upstream];
        let known = of.life.as_ref().filter(|_| of.lives == life);
        let is_one = known.is_some_and(|known| known.identity == opened.identity);
        let unwanted = kind == SessionKind::Relaxed && known.is_some_and(Life::is_standby);
        let is_old = self.pools[pool].moved.is_some_and(|moved| asked < moved);
        if known.is_none() || unwanted || is_old {
            // The server went away meanwhile, or became a standby; or it is another database.
            self.uncount_session(pool);
            return self.serve_pools(upstream);
        }
        if !is_one {
            // It was restarted, or another one has taken its place; or a balancer is in between.
            self.uncount_session(pool);
            let of = &mut self.upstreams[upstream];
            of.strays += 1;
            if of.strays >= MOST_STRAYS {
                return self.fail_pool(pool, &WireError::Refused(DIFFERENT.to_owned()));
            }
            self.end_life(upstream);
            return self.open_life(upstream);
        }
        self.upstreams[upstream].strays = 0;
        self.serial = self.serial.wrapping_add(1);
        let entry = self.sessions.vacant_entry();
        let (place, fd) = (entry.key(), opened.stream.as_raw_fd());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = session_token(place);
        if let Err(error) = SourceFd(&fd).register(self.poll.registry(), token, interest) {
            self.uncount_session(pool);
            return self.fail_pool(pool, &error.into());
        }
        let (level, parameters) = (opened.level, opened.parameters.clone());
        let id = SessionId { place, serial: self.serial };
        entry.insert(Session::new(id, pool, kind, opened));
        let of = &mut self.pools[pool];
        let process = self.sessions[place].process;
        tracing::debug!("a session for {} in {}: process {process}", of.key.user, of.key.database);
        of.failed = None;
        of.side(kind).sessions.push(place);
        if kind == SessionKind::Synchronous {
            let outdated = std::mem::replace(&mut of.level, level) != level;
            if of.welcome.is_none() {
                of.welcome = Some(parameters);
            }
            for id in std::mem::take(&mut of.arriving) {
                self.welcome(id);
            }
            let of = &mut self.pools[pool];
            of.relearns = of.relearns.filter(|since| asked < *since);
            if of.relearns.is_some() {
                // It may have begun before the server had read its configuration.
                self.retire_session(place);
            }
            if outdated {
                self.retire_older(pool, level);
            }
        }
        if self.holds(pool) {
            // Its pool was paused while it was opened.
            return self.retire_session(place);
        }
        self.arm_session(place);
        self.serve_waiting(pool, kind);
    }

    /// A role commits otherwise than before: sessions that begin as they were are not used any
    /// more.
    fn retire_older(&mut self, pool: usize, level: Option<Level>) {
        let sessions = self.pools[pool].synchronous.sessions.clone();
        let differs = |place: &usize| self.sessions[*place].level != level;
        let outdated: Vec<usize> = sessions.into_iter().filter(differs).collect();
        outdated.into_iter().for_each(|place| self.retire_session(place));
    }

    /// The server has read its configuration files again: how its roles commit is learnt again,
    /// from sessions that are new.
    fn learn_levels(&mut self, upstream: usize) {
        for pool in 0..self.pools.len() {
            let of = &mut self.pools[pool];
            if of.upstream != upstream || of.welcome.is_none() {
                continue;
            }
            of.relearns = Some(self.now);
            let sessions = of.synchronous.sessions.clone();
            sessions.into_iter().for_each(|place| self.retire_session(place));
            self.learn_level(pool);
        }
    }

    /// Opens the session that tells how the roles of a pool commit, where that is to be learnt.
    fn learn_level(&mut self, pool: usize) {
        let of = &self.pools[pool];
        if of.relearns.is_some() && of.synchronous.opening == 0 {
            self.open_session(pool, SessionKind::Synchronous);
        }
    }

    /// Where clients wait for no flush, none tells that the server's settings have changed; and
    /// what could not be learnt then is tried again.
    fn look_at_settings(&mut self, upstream: usize, life: u64) {
        let of = &mut self.upstreams[upstream];
        let Some(known) = of.life.as_mut().filter(|_| of.lives == life) else { return };
        let mut pools = self.pools.iter().filter(|pool| pool.upstream == upstream);
        if pools.any(|pool| pool.level.is_none()) && !known.is_standby() {
            known.barriers.wait(0);
            self.to_flush.push(upstream * Level::ALL.len());
        }
        for pool in 0..self.pools.len() {
            if self.pools[pool].upstream == upstream {
                self.learn_level(pool);
            }
        }
        self.timers.push(Reverse((self.now + SETTINGS, Timer::Settings { upstream, life })));
    }

    /// No session can be had: those who wait for one are told, or go on waiting where it may be
    /// a matter of time.
    fn fail_pool(&mut self, pool: usize, error: &WireError) {
        tracing::warn!("a server session could not be opened: {error}");
        if may_pass(error) {
            let at = self.now + self.options.limits.server_login_retry;
            return self.try_again(pool, &error.to_string(), at);
        }
        let of = &mut self.pools[pool];
        let mut waiting = std::mem::take(&mut of.arriving);
        for kind in [SessionKind::Relaxed, SessionKind::Synchronous] {
            let side = of.side(kind);
            if side.sessions.is_empty() && side.opening == 0 {
                waiting.extend(side.waiting.drain(..));
            }
        }
        for id in waiting {
            self.refuse_by(id, error);
        }
    }

    fn refuse_by(&mut self, id: ClientId, error: &WireError) {
        match error.server_error() {
            Some(said) => {
                let hint = said.hint.as_deref();
                self.refuse(id, &Refusal { hint, ..Refusal::fatal(&said.code, &said.message) });
            }
            None => {
                let what = format!("no server session could be opened: {error}");
                self.refuse(id, &Refusal::fatal("08001", &what));
            }
        }
    }

    /// A server cannot be reached.
    fn fail_upstream(&mut self, upstream: usize, error: &WireError) {
        self.upstreams[upstream].trouble = Some(error.to_string());
        let at = self.now + self.options.limits.server_login_retry;
        self.timers.push(Reverse((at, Timer::Upstream(upstream))));
        if may_pass(error) {
            tracing::warn!("the server cannot be reached: {error}");
            self.upstreams[upstream].retry = Some(at);
            let why = error.to_string();
            for pool in self.pools.iter_mut().filter(|pool| pool.upstream == upstream) {
                pool.failed = Some((why.clone(), at));
            }
            return;
        }
        for pool in 0..self.pools.len() {
            if self.pools[pool].upstream == upstream {
                self.fail_pool(pool, error);
            }
        }
    }

    fn send_session(&mut self, place: usize) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        while session.out_sent < session.out.len() {
            match session.stream.write(&session.out[session.out_sent..]) {
                Ok(count) => session.out_sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.lost.push(place),
            }
        }
        session.out.clear();
        session.out.shrink_to(BUFFER);
        session.out_sent = 0;
        // What TLS has taken is not sent yet.
        match session.stream.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => self.lost.push(place),
            _ => {}
        }
    }

    /// The same for what a server has sent.
    fn read_session(
        &mut self,
        place: usize,
        closed: bool,
        buffer: &mut [u8],
        events: &mut Vec<Event>,
    ) {
        for _ in 0..MOST_READS {
            if self.is_stalled(place) {
                return;
            }
            let Some(session) = self.sessions.get_mut(place) else { return };
            let (pool, kind) = (session.pool, session.kind);
            let count = match session.stream.read(buffer) {
                Ok(0) => return self.lost.push(place),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.lost.push(place),
            };
            let upstream = self.pools[pool].upstream;
            let life = self.upstreams[upstream].life.as_ref();
            if life.is_some_and(|life| life.barriers.are_outdated()) {
                // What came may tell of commits that nothing of this life covers.
                return self.end_life(upstream);
            }
            let Some(session) = self.sessions.get_mut(place) else { return };
            let bytes = session.whole(&buffer[..count]);
            let heard = session.receive(&bytes, events);
            for event in events.drain(..) {
                if self.sessions.get(place).is_some_and(|session| session.spoilt) {
                    self.lose_answer(place, event);
                } else {
                    self.take_event(place, event, &bytes);
                }
            }
            if let Err(mismatch) = heard {
                tracing::error!("a server session is closed: {mismatch}");
                return self.lost.push(place);
            }
            if self.sessions.get(place).is_some_and(|session| session.last_words.is_some()) {
                return self.lost.push(place);
            }
            // It was kept for who waits, not for who had it.
            if let Some(session) = self.sessions.get_mut(place).filter(|of| of.ledger.is_empty()) {
                session.reserved = false;
            }
            self.serve_waiting(pool, kind);
            // What TLS has read ahead no event announces.
            let ahead = self.sessions.get(place).is_some_and(|of| of.stream.reads_ahead());
            if count < buffer.len() && !closed && !ahead {
                return;
            }
        }
        self.read_next(place);
    }

    /// A session is read in the next turn, which begins at once.
    fn read_next(&mut self, place: usize) {
        self.to_read.push(place);
        self.hurries = true;
    }

    /// The session that a client kept from being read is read again.
    fn end_stall(&mut self, id: ClientId) {
        let now = self.now;
        if let Some(client) = self.client(id)
            && let Some((place, since)) = client.stalls.take()
        {
            client.stalled = now.saturating_duration_since(since);
            self.read_next(place);
        }
    }

    fn has_too_many_settings(&self, id: ClientId) -> bool {
        let client = self.clients.get(id.place).filter(|client| client.id == id);
        client.is_some_and(|client| client.settings.bytes() > MOST_SETTINGS)
    }

    /// Whether a session is not read until the client whose answer comes has read what it has.
    fn is_stalled(&mut self, place: usize) -> bool {
        let now = self.now;
        let Some(session) = self.sessions.get(place) else { return false };
        // Its owner is told of notifications while nothing of it runs.
        let front = session.ledger.front().map(|slot| slot.client).or(session.owner);
        let Some(id) = front else { return false };
        let Some(client) = self.listener(id) else { return false };
        if client.answers.len() <= MOST_UNREAD {
            return false;
        }
        let before = now.checked_sub(client.stalled).unwrap_or(now);
        let (_, since) = client.stalls.get_or_insert((place, before));
        if !client.blocked && client.answers.ready().is_empty() {
            // It has read what it may be told.
            *since = now;
        }
        self.arm(id);
        true
    }

    fn take_event(&mut self, place: usize, event: Event, bytes: &[u8]) {
        match event {
            Event::Answer(id, range) => {
                // What has ended already is held as a whole, by the event that says so.
                let front = self.sessions.get(place).and_then(|session| session.ledger.front());
                let goes_on = front.is_some_and(|slot| slot.client == id);
                if let Some(client) = self.listener(id) {
                    client.answers.push(&bytes[range]);
                    if client.answers.len() > LONG_ANSWER && goes_on {
                        self.hold_part(place, id);
                    }
                }
            }
            Event::OwnNotification(id, range) => {
                // Clients tell by the process what they sent themselves.
                let process = process_of(self.number, id).to_be_bytes();
                if let Some(client) = self.listener(id) {
                    let (before, rest) = bytes[range].split_at(5);
                    client.answers.push(&[before, &process, &rest[4..]].concat());
                }
            }
            Event::Said(id, message) => {
                if let Some(client) = self.listener(id) {
                    client.answers.push(&message);
                }
            }
            Event::Synthesise(id, tag) => {
                if let Some(client) = self.listener(id) {
                    messages::bare(client.answers.buffer(), tag);
                }
            }
            Event::Open(id) => {
                self.hold_within(place, id);
                // After an error what was sent as a unit of its own may belong to this one.
                let Some(session) = self.sessions.get(place) else { return };
                if !session.copying_in {
                    self.dispatch(id);
                } else if !session.copy_ends
                    && let Some(client) = self.client(id)
                {
                    // What was sent before the server asked for what is copied in comes to it in
                    // the middle of that: it reads past a Sync, and ends at anything else.
                    client.queue.retain(|unit| !unit.is_sync());
                    let may_copy = client.queue.is_empty() && client.gatherer.is_empty();
                    if !may_copy {
                        return self.refuse(id, &within_copy());
                    }
                }
                self.hear_rest(id);
            }
            Event::Noticed(id) => self.hold_part(place, id),
            Event::Ended(slot, status) => {
                let id = slot.client;
                self.end_unit(place, slot, status);
                self.hear_rest(id);
            }
            Event::Forgotten(id, forgotten, alone) => {
                let session = self.sessions.get(place);
                let stays = session.is_some_and(|session| session.is_marked());
                if let Some(client) = self.client(id) {
                    client.statements.clear();
                    if forgotten == Forgotten::Everything {
                        // What came with it may need the session again, and some of what was done
                        // stays.
                        client.pinned = client.pinned.filter(|_| !alone || stays);
                        client.settings = Settings::default();
                    }
                }
                if forgotten == Forgotten::Everything
                    && let Some(session) = self.sessions.get_mut(place)
                {
                    session.settings = Settings::default();
                }
            }
            Event::Fatal => {
                let session = self.sessions.get(place);
                if let Some(said) = session.and_then(|session| session.last_words.as_ref()) {
                    tracing::warn!("the server ends a session: {said}");
                }
            }
        }
    }

    /// What was sent behind a statement of the gateway that failed may have run with the settings
    /// of another client: its own is not told what it did.
    fn lose_answer(&mut self, place: usize, event: Event) {
        let Event::Ended(slot, _) = event else { return };
        let Some(session) = self.sessions.get_mut(place) else { return };
        let upstream = self.pools[session.pool].upstream;
        let is_of_owner = session.owner == Some(slot.client);
        let covers = session.exposed.take_if(|_| is_of_owner).or(slot.covers);
        if let (Some(covers), Some(life)) = (covers, &mut self.upstreams[upstream].life) {
            life.barriers.relaxed_ends(covers, false);
        }
        session.unsettled = session.unsettled.saturating_sub(1);
        if std::mem::take(&mut session.redefines) {
            self.shared.redefined.fetch_add(1, Ordering::Relaxed);
        }
        if slot.client != ClientId::NOBODY {
            self.lose_client(slot.client);
        }
    }

    /// A part of a long answer: what it tells was committed before it arrived, so a barrier sent
    /// from now on covers it.
    fn hold_part(&mut self, place: usize, id: ClientId) {
        if let Some(client) = self.client(id) {
            client.part_told = true;
        }
        let in_block = |session: &Session| session.exposed.is_some() && session.is_in_block();
        if self.sessions.get(place).is_some_and(in_block) {
            return self.hold_within(place, id);
        }
        let until = self.told(place, id);
        self.hold(id, until, self.is_torn(place, id));
    }

    /// Whether a message of a client's answer has been passed on in part.
    fn is_torn(&self, place: usize, id: ClientId) -> bool {
        self.sessions.get(place).is_some_and(|session| session.is_passing_to(id))
    }

    /// What a client is told before its unit has ended. Nothing read in a block is confirmed before
    /// its COMMIT, so it waits only where every read is to, or where a COMMIT was among what it
    /// sent.
    fn hold_within(&mut self, place: usize, id: ClientId) {
        let waits = |session: &Session| {
            !session.is_in_block()
                || session.may_have_committed(id)
                || self.pools[session.pool].pooling.reads == Reads::Strict
        };
        let waits = self.sessions.get(place).is_some_and(waits);
        let until = if waits { self.told(place, id) } else { Until::AT_ONCE };
        self.hold(id, until, self.is_torn(place, id));
    }

    /// What an answer waits for that may tell of what others committed, or of what its own
    /// client did before the unit ends.
    fn told(&mut self, place: usize, id: ClientId) -> Until {
        let Some(session) = self.sessions.get(place) else { return Until::AT_ONCE };
        let pool = &self.pools[session.pool];
        let client = self.clients.get(id.place).filter(|client| client.id == id);
        let level = level_of(session, client, pool);
        let Some(life) = &mut self.upstreams[pool.upstream].life else { return Until::AT_ONCE };
        // Outside of a block a procedure commits as it goes.
        let commits = session.may_have_committed(id) || session.commits_within();
        match (pool.pooling.reads, session.covers(id)) {
            (Reads::Off, Some(covers)) if commits && level.is_some() => {
                life.barriers.wait(covers.barrier)
            }
            (Reads::Off, _) => Until::AT_ONCE,
            (_, covers) => life.barriers.told(level, covers.filter(|_| !commits)),
        }
    }

    /// What a client was sent until now waits for a barrier.
    fn hold(&mut self, id: ClientId, until: Until, is_torn: bool) {
        let Some(client) = self.listener(id) else { return };
        client.answers.hold_torn(until, is_torn);
        let upstream = client.pool.map(|pool| self.pools[pool].upstream);
        let life = upstream.and_then(|upstream| self.upstreams[upstream].life.as_mut());
        if let (Some(upstream), Some(life)) = (upstream, life)
            && until != Until::AT_ONCE
        {
            // A barrier that answers are made to wait for has not been sent yet.
            life.flushers[until.barrier].withheld.push_back((until.epoch, id, self.now));
            let place = upstream * Level::ALL.len() + until.barrier;
            if !self.to_flush.contains(&place) {
                self.to_flush.push(place);
            }
        } else {
            self.will_tell(id);
        }
    }

    /// A unit was answered: what it was for is done, and what was sent behind it runs.
    fn end_unit(&mut self, place: usize, slot: Slot, status: u8) {
        self.settle_unit(place, slot, status);
        let Some(session) = self.sessions.get(place) else { return };
        if session.retires && session.is_idle() && !self.lost.contains(&place) {
            self.lost.push(place);
        }
        self.cancel_front(place);
    }

    /// Cancels what a session runs, where its client has asked for that and nothing was sent yet.
    fn cancel_front(&mut self, place: usize) {
        let Some(session) = self.sessions.get(place) else { return };
        let Some(front) = session.ledger.front().map(|slot| slot.client) else { return };
        if session.cancelling != Some(front) && self.client(front).is_some_and(|of| of.cancels) {
            self.cancel_statement(front);
        }
    }

    /// A cancel was sent. Its client may have asked for another meanwhile, of what came next.
    fn cancel_again(&mut self, place: usize) {
        let Some(session) = self.sessions.get(place) else { return };
        let Some(front) = session.ledger.front().map(|slot| slot.client) else { return };
        let own = session.cancelling == Some(front);
        if own && self.client(front).is_some_and(|of| std::mem::take(&mut of.cancels)) {
            return self.cancel_statement(front);
        }
        self.cancel_front(place);
    }

    fn settle_unit(&mut self, place: usize, slot: Slot, status: u8) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        let id = slot.client;
        if session.cancelling.is_some() && session.ledger.is_empty() {
            self.end_cancel(place);
        }
        let Some(session) = self.sessions.get_mut(place) else { return };
        if id == ClientId::NOBODY || slot.looks {
            session.unsettled = session.unsettled.saturating_sub(1);
        }
        if id == ClientId::NOBODY {
            if slot.failed {
                tracing::error!("a server session did not take a statement of the gateway");
                session.spoilt = true;
                self.lost.push(place);
            }
            return;
        }
        if slot.looks {
            if let Some(client) = self.client(id) {
                client.in_flight = client.in_flight.saturating_sub(1);
            }
            return self.dispatch(id);
        }
        let ended = status == b'I';
        if session.redefines {
            self.shared.redefined.fetch_add(1, Ordering::Relaxed);
            session.redefines = !ended;
        }
        let pool = &self.pools[session.pool];
        let client = self.clients.get(id.place).filter(|client| client.id == id);
        let level = level_of(session, client, pool);
        // Before a setting that keeps its session there may have been what tells something.
        let tells_nothing = slot.changed().is_some_and(Change::tells_nothing)
            && client.is_some_and(|of| of.pinned.is_none());
        // AND CHAIN, or a BEGIN behind the end of another: what comes is another transaction.
        let leaves = slot.committed || slot.left_block;
        let chained = !ended && leaves && session.exposed.is_some();
        let is_of_owner = session.owner == Some(id) && (ended || chained);
        let exposed = session.exposed.take_if(|_| is_of_owner);
        let life = &mut self.upstreams[pool.upstream].life;
        let mut until = None;
        if let (Some(covers), Some(life)) = (exposed.or(slot.covers), life) {
            let rolled_back = slot.rolled_back && !slot.committed;
            if slot.struck || rolled_back || session.unwritten {
                life.barriers.relaxed_ends_unwritten(covers);
            } else {
                let ends = life.barriers.relaxed_ends(covers, level.is_some());
                // Who does not wait for it is still told of nothing that others wait for.
                until = Some(ends).filter(|_| level.is_some());
            }
            if chained {
                session.exposed = Some(life.barriers.relaxed_begins(level));
            }
        }
        session.unwritten = false;
        // From here on the session may be given to another.
        session.unsettled = session.unsettled.saturating_sub(1);
        if slot.struck {
            return self.send_again(place, slot);
        }
        if !ended && self.pools[session.pool].pooling.mode == PoolMode::Statement {
            return self.refuse_transaction(place, id);
        }
        let until = match until {
            Some(until) => until,
            None if tells_nothing => Until::AT_ONCE,
            // The COMMIT of a chain confirms what was read before it, as any COMMIT does.
            None if ended || slot.committed => self.told(place, id),
            None => {
                self.hold_within(place, id);
                Until::AT_ONCE
            }
        };
        self.hold(id, until, false);
        let Some(session) = self.sessions.get_mut(place) else { return };
        let execution = self.now.saturating_duration_since(slot.since);
        let xact = session.began.filter(|_| session.owner.is_some());
        let xact = xact.map_or(execution, |began| self.now.saturating_duration_since(began));
        self.pools[session.pool].stats.answered(execution, ended.then_some(xact));
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            if !ended && session.owner.is_none() {
                // A transaction that nobody saw begin, and nobody is there to end.
                self.lost.push(place);
            }
            return;
        };
        (client.part_told, client.cancels) = (false, false);
        client.stalled = Duration::ZERO;
        client.idle_since = self.now;
        for naming in slot.undone.iter().rev() {
            client.statements.undo(naming.clone());
        }
        if let Some(change) = slot.changed().filter(|_| ended)
            && client.pinned.is_none()
        {
            client.settings.apply(change);
            session.settings.apply(change);
        }
        client.in_flight = client.in_flight.saturating_sub(1);
        if ended && client.owned == Some(place) && client.pinned.is_none() {
            client.owned = None;
            (session.owner, session.opted_out) = (None, false);
            session.own_sequences = false;
        } else if !ended && client.owned.is_none() {
            // A transaction that nobody saw begin.
            client.owned = Some(place);
            session.owner = Some(id);
            if session.kind == SessionKind::Relaxed {
                let pool = &self.pools[session.pool];
                if let Some(life) = &mut self.upstreams[pool.upstream].life {
                    session.exposed = Some(life.barriers.relaxed_begins(level));
                }
            }
        }
        if slot.changed().is_some() && self.has_too_many_settings(id) {
            let what = "the settings of this connection take more than 1 MiB";
            let hint = Some("Reset those that are not used any more.");
            return self.refuse(id, &Refusal { hint, ..Refusal::fatal("53200", what) });
        }
        if self.limits_idle {
            self.arm(id);
        }
        // Who waits comes before what this client has sent besides.
        if let Some(session) = self.sessions.get(place).filter(|session| session.is_idle()) {
            let (pool, kind) = (session.pool, session.kind);
            self.serve_waiting(pool, kind);
        }
        self.dispatch(id);
        self.let_go_if_drained(id);
    }

    /// A statement began a transaction where none may go on. It ends with its session, and its
    /// client is told why, in place of what the statement answered.
    fn refuse_transaction(&mut self, place: usize, id: ClientId) {
        if let Some(session) = self.sessions.get_mut(place) {
            session.owner = None;
        }
        self.lost.push(place);
        if let Some(client) = self.client(id) {
            client.owned = None;
            client.in_flight = client.in_flight.saturating_sub(1);
            client.answers.drop_unheld();
        }
        let what = "transaction blocks not allowed in statement pooling mode";
        self.refuse(id, &Refusal::fatal("08P01", what));
    }

    /// A statement was hit by a cancel that was meant for another: the server took it back.
    fn send_again(&mut self, place: usize, slot: Slot) {
        let id = slot.client;
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        client.in_flight = client.in_flight.saturating_sub(1);
        if client.part_told || client.cancels {
            let refusal = match client.cancels {
                true => Refusal::fatal("57014", CANCELED),
                // Drivers run again what fails so.
                false => Refusal::fatal("40001", "canceled to let others go on; run it once more"),
            };
            if !client.part_told {
                client.answers.drop_unheld();
                slot.again.iter().for_each(|unit| client.unprepare(unit));
            }
            (client.part_told, client.cancels) = (false, false);
            client.fail(&refusal);
            let until = self.told(place, id);
            self.hold(id, until, false);
        } else if let Some(mut unit) = slot.again {
            client.answers.drop_unheld();
            // Nobody is to stand behind it another time.
            unit.need.hold = unit.need.hold.max(Hold::Transaction);
            client.queue.push_front(*unit);
        }
        self.dispatch(id);
    }

    /// A statement that was sent and has not begun is sent on another session; whether it can be.
    fn put_back(&mut self, id: ClientId, unit: Unit) -> bool {
        let is_served =
            |client: &&mut Client| !client.cancels && !matches!(client.phase, Phase::Leaving);
        let Some(client) = self.client(id).filter(is_served) else { return false };
        client.in_flight = client.in_flight.saturating_sub(1);
        client.queue.push_front(unit);
        self.dispatch(id);
        true
    }

    /// Closes sessions that are lost, and tells those whose answers are lost with them.
    fn close_lost(&mut self) {
        while let Some(place) = self.lost.pop() {
            self.let_stray(place);
            let Some(mut session) = self.sessions.try_remove(place) else { continue };
            let fd = session.stream.as_raw_fd();
            // The socket is closed next in any case.
            let _ = SourceFd(&fd).deregister(self.poll.registry());
            session.stream.terminate();
            let pool = &mut self.pools[session.pool];
            pool.side(session.kind).sessions.retain(|&of| of != place);
            pool.stats.server_parses += session.parses;
            self.uncount_session(session.pool);
            let (pool, kind, owner) = (session.pool, session.kind, session.owner);
            let mut slots = session.ledger.into_iter();
            let mut told = None;
            if let Some(said) = &session.last_words {
                // They are for what ran.
                let runs = slots.find(|slot| slot.client != ClientId::NOBODY);
                told = runs.map(|slot| slot.client).or(owner);
                if let Some(id) = told {
                    self.tell_last_words(id, said);
                }
            }
            let mut lost = Vec::new();
            for slot in slots {
                // Behind that nothing had begun.
                let (id, again) = (slot.client, slot.again.filter(|_| told.is_some()));
                if !again.is_some_and(|unit| self.put_back(id, *unit)) {
                    lost.push(id);
                }
            }
            lost.extend(owner);
            lost.dedup();
            for id in lost.into_iter().filter(|id| Some(*id) != told) {
                self.lose_client(id);
            }
            if self.pools[pool].room_for.is_some() {
                self.try_again(pool, LIMIT, self.now + SOON);
            } else if !self.pools[pool].side(kind).waiting.is_empty() {
                self.serve_waiting(pool, kind);
            }
        }
    }

    /// A session is about to be closed: what runs on it the server may still commit, and others
    /// may see it then. What is open and runs nothing is rolled back.
    fn let_stray(&mut self, place: usize) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        let upstream = self.pools[session.pool].upstream;
        let Upstream { life: Some(life), strayed, .. } = &mut self.upstreams[upstream] else {
            return;
        };
        let runs = !session.ledger.is_empty();
        let covers = session.ledger.iter_mut().filter_map(|slot| slot.covers.take());
        for covers in covers.chain(session.exposed.take()) {
            if runs {
                life.barriers.relaxed_strays(covers);
                if strayed.is_empty() {
                    self.timers.push(Reverse((self.now, Timer::Strays(upstream))));
                }
                strayed.push(Stray { process: session.process, covers });
            } else {
                life.barriers.relaxed_ends_unwritten(covers);
            }
        }
    }

    /// Asks whether what ran on lost sessions has ended.
    fn look_for_strays(&mut self, upstream: usize) {
        let strayed = std::mem::take(&mut self.upstreams[upstream].strayed);
        if !strayed.is_empty() {
            self.upstreams[upstream].asks_of_strays += 1;
            self.dial(upstream, Purpose::Strays(strayed));
        }
    }

    /// Strays that do not run any more are covered by the next barrier.
    fn end_strays(&mut self, upstream: usize, asked: &[Stray], running: Vec<Stray>) {
        self.upstreams[upstream].asks_of_strays -= 1;
        let mut left = Left::default();
        for stray in asked.iter().filter(|stray| !running.contains(stray)) {
            let left = &mut left[stray.covers.barrier];
            *left = left.and(Transactions::one(stray.covers.waits));
        }
        self.inherit(upstream, left);
        if !running.is_empty() {
            self.upstreams[upstream].strayed.extend(running);
            let at = self.now + STRAYS_RETRY;
            self.timers.push(Reverse((at, Timer::Strays(upstream))));
        }
    }

    // The barriers.

    /// What nothing covers yet is covered by the next barriers, now or in the next life.
    fn inherit(&mut self, upstream: usize, left: Left) {
        let of = &mut self.upstreams[upstream];
        for (all, more) in of.left.iter_mut().zip(left) {
            *all = all.and(more);
        }
        if let Some(life) = &mut of.life
            && !life.is_standby()
        {
            life.barriers.inherit(std::mem::take(&mut of.left));
            let first = upstream * Level::ALL.len();
            self.to_flush.extend(first..first + life.flushers.len());
        }
    }

    fn send_barrier(&mut self, place: usize) {
        let (upstream, barrier) = (place / Level::ALL.len(), place % Level::ALL.len());
        let Some(life) = &mut self.upstreams[upstream].life else { return };
        let Some(of) = life.barriers.get_mut(barrier) else { return };
        let flusher = &mut life.flushers[barrier];
        if !of.is_due() {
            return;
        }
        if !flusher.pace.may_send(self.now, flusher.withheld.len()) {
            return self.set_pace(place);
        }
        of.send();
        flusher.sent = self.now;
        // One barrier is out at a time: a socket that cannot take these bytes is lost.
        match flusher.stream.write(&self.barrier_message) {
            Ok(count) if count == self.barrier_message.len() && !flusher.stream.has_unsent() => {}
            _ => self.end_life(upstream),
        }
    }

    /// Has a barrier looked at again when it has waited long enough.
    fn set_pace(&mut self, place: usize) {
        let life = self.upstreams[place / Level::ALL.len()].life.as_ref();
        let flusher = life.and_then(|life| life.flushers.get(place % Level::ALL.len()));
        let Some(due) = flusher.and_then(|of| of.pace.due()) else { return };
        if self.paced.is_empty() {
            let wait = due.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
            let once = Expiration::OneShot(TimeSpec::from_duration(wait));
            if let Err(error) = self.pace_timer.set(once, TimerSetTimeFlags::empty()) {
                tracing::error!("a timer cannot be set: {error}");
                self.hurries = true;
            }
        }
        if !self.paced.contains(&place) {
            self.paced.push(place);
        }
    }

    /// Barriers that waited are looked at again.
    fn end_pace(&mut self) {
        // What it counts is of no use.
        let _ = self.pace_timer.wait();
        self.now = Instant::now();
        self.to_flush.append(&mut self.paced);
    }

    fn read_barrier(&mut self, place: usize, buffer: &mut [u8]) {
        let (upstream, barrier) = (place / Level::ALL.len(), place % Level::ALL.len());
        loop {
            let Upstream { life, stats, .. } = &mut self.upstreams[upstream];
            let Some(life) = life else { return };
            let Some(flusher) = life.flushers.get_mut(barrier) else { return };
            match flusher.stream.read(buffer) {
                Ok(0) => return self.end_life(upstream),
                Ok(count) => {
                    flusher.carry.extend_from_slice(&buffer[..count]);
                    let Some(of) = life.barriers.get_mut(barrier) else { return };
                    match barrier_returned(&mut flusher.carry) {
                        Ok(Some(configured)) if of.is_out() => {
                            let returned = of.returns();
                            let mut free = Vec::new();
                            while let Some((_, id, since)) =
                                flusher.withheld.pop_front_if(|(of, ..)| *of <= returned)
                            {
                                free.push((id, since));
                            }
                            stats.clients.record(free.len() as u64);
                            let took = self.now.saturating_duration_since(flusher.sent);
                            stats.time.record(micros(took));
                            let waiting = flusher.withheld.len();
                            flusher.pace.returned(self.now, took, free.len(), waiting);
                            // Now, while there is the life that proves it.
                            for (id, since) in &free {
                                let client = self.clients.get_mut(id.place);
                                if let Some(client) = client.filter(|client| client.id == *id) {
                                    let returned = |until| life.barriers.has_returned(until);
                                    client.answers.release(returned);
                                    if let Some(pool) = client.pool {
                                        let withheld = &mut self.pools[pool].stats.withheld;
                                        withheld.record(micros(self.now - *since));
                                    }
                                }
                            }
                            let before = std::mem::replace(&mut flusher.configured, configured);
                            let is_other = flusher.configured != before;
                            for (id, _) in free {
                                self.will_tell(id);
                            }
                            self.to_flush.push(place);
                            if is_other {
                                self.learn_levels(upstream);
                            }
                        }
                        Ok(None) => {}
                        Ok(Some(_)) | Err(()) => return self.end_life(upstream),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.end_life(upstream),
            }
        }
    }

    /// A barrier session is lost, or proves nothing any more: nothing tells whether what is
    /// withheld is durable.
    fn end_life(&mut self, upstream: usize) {
        let of_it = |session: &Session| self.pools[session.pool].upstream == upstream;
        let sessions = self.sessions.iter().filter(|(_, session)| of_it(session));
        let sessions: Vec<usize> = sessions.map(|(place, _)| place).collect();
        for place in &sessions {
            self.let_stray(*place);
        }
        let of = &mut self.upstreams[upstream];
        let Some(life) = of.life.take() else { return };
        if !of.retires {
            tracing::warn!("the barrier session was lost");
            of.stats.lost += 1;
            of.trouble = Some("its barrier session was lost".to_owned());
        }
        (of.retires, of.holds) = (false, None);
        of.lives += 1;
        for flusher in &life.flushers {
            let fd = flusher.stream.as_raw_fd();
            // The socket is closed next in any case.
            let _ = SourceFd(&fd).deregister(self.poll.registry());
        }
        for (left, more) in of.left.iter_mut().zip(life.barriers.leave()) {
            *left = left.and(more);
        }
        for flusher in life.flushers {
            for (_, id, _) in flusher.withheld {
                self.lose_client(id);
            }
        }
        self.lost.extend(sessions);
        self.close_lost();
        self.serve_pools(upstream);
        self.look_for_server(upstream);
    }

    // Time.

    /// Sets the clock for a client, where something of it is limited.
    fn arm(&mut self, id: ClientId) {
        let due = self.client_due(id);
        if let Some(client) = self.client(id)
            && let Some((at, _)) = due
            && client.timer.is_none_or(|timer| at < timer)
        {
            client.timer = Some(at);
            let timer = Timer::Client { place: id.place, serial: id.serial };
            self.timers.push(Reverse((at, timer)));
        }
    }

    /// When a client's time is over, and what for.
    fn client_due(&self, id: ClientId) -> Option<(Instant, Limit)> {
        let client = self.clients.get(id.place).filter(|client| client.id == id)?;
        let limits = &self.options.limits;
        let paused = client.pool.is_some_and(|pool| self.pools[pool].paused);
        let after = |since: Instant, limit: Option<Duration>, what: Limit| {
            limit.map(|limit| (since + limit, what))
        };
        match client.phase {
            Phase::Leaving => Some((client.idle_since + LONGEST_GOODBYE, Limit::Goodbye)),
            Phase::Ready => {
                let stalls = client.stalls.filter(|_| client.blocked).filter(|(place, _)| {
                    let session = self.sessions.get(*place);
                    session.is_some_and(|of| of.ledger.iter().any(|slot| slot.client != client.id))
                });
                let session = client.owned.and_then(|place| self.sessions.get(place));
                let open = session.filter(|session| session.status != b'I');
                let idle = client.in_flight == 0 && client.queue.is_empty();
                let began = open.and_then(|session| session.began);
                [
                    stalls.map(|(_, since)| (since + LONGEST_STALL, Limit::Stall)),
                    client.waits_since.filter(|_| !paused).and_then(|since| {
                        after(since, limits.query_wait_timeout, Limit::QueryWait)
                    }),
                    (client.in_flight > 0)
                        .then(|| after(client.sent_at, limits.query_timeout, Limit::Query))
                        .flatten(),
                    began.and_then(|began| {
                        after(began, limits.transaction_timeout, Limit::Transaction)
                    }),
                    (idle && open.is_some())
                        .then(|| {
                            let limit = limits.idle_transaction_timeout;
                            after(client.idle_since, limit, Limit::IdleTransaction)
                        })
                        .flatten(),
                    (idle && open.is_none())
                        .then(|| after(client.idle_since, limits.client_idle_timeout, Limit::Idle))
                        .flatten(),
                ]
                .into_iter()
                .flatten()
                .min_by_key(|(at, _)| *at)
            }
            Phase::Arriving if paused => None,
            _ => after(client.since, limits.login_timeout, Limit::Login),
        }
    }

    fn arm_session(&mut self, place: usize) {
        let due = self.session_due(place);
        if let Some(session) = self.sessions.get_mut(place)
            && let Some(at) = due
            && session.timer.is_none_or(|timer| at < timer)
        {
            session.timer = Some(at);
            self.timers.push(Reverse((at, Timer::Session(place))));
        }
    }

    /// When a session is to be looked at.
    fn session_due(&self, place: usize) -> Option<Instant> {
        let session = self.sessions.get(place)?;
        let limits = &self.options.limits;
        let ages = limits.server_lifetime.filter(|_| !session.retires);
        let ages = ages.map(|limit| session.since + limit);
        let idles = limits.server_idle_timeout.map(|limit| session.used + limit);
        ages.into_iter().chain(idles).min()
    }

    fn ring_timers(&mut self) {
        while let Some(Reverse((at, timer))) = self.timers.peek().copied()
            && at <= self.now
        {
            self.timers.pop();
            match timer {
                Timer::Client { place, serial } => {
                    let id = ClientId { place, serial };
                    let Some(client) = self.client(id).filter(|client| client.timer == Some(at))
                    else {
                        continue;
                    };
                    client.timer = None;
                    match self.client_due(id) {
                        Some((due, what)) if due <= self.now => self.time_out(id, what),
                        _ => self.arm(id),
                    }
                }
                Timer::Session(place) => {
                    let Some(session) = self.sessions.get_mut(place) else { continue };
                    if session.timer != Some(at) {
                        continue;
                    }
                    session.timer = None;
                    self.age_session(place);
                }
                Timer::Pool(pool) => {
                    let of = &mut self.pools[pool];
                    let waited = of.failed.take_if(|(_, until)| *until <= at).is_some();
                    // A session of the other kind that came meanwhile is no reason to wait on.
                    if waited || of.room_for.is_some() {
                        self.serve_pools(self.pools[pool].upstream);
                    }
                }
                Timer::Upstream(upstream) => {
                    self.upstreams[upstream].retry = None;
                    for pool in self.pools.iter_mut().filter(|pool| pool.upstream == upstream) {
                        pool.failed = None;
                    }
                    self.serve_pools(upstream);
                    self.look_for_server(upstream);
                }
                Timer::Hold(upstream) => self.end_hold(upstream),
                Timer::Strays(upstream) => self.look_for_strays(upstream),
                Timer::Line { place, serial } => self.look_at_line(SessionId { place, serial }),
                Timer::Settings { upstream, life } => self.look_at_settings(upstream, life),
            }
        }
    }

    fn age_session(&mut self, place: usize) {
        let limits = &self.options.limits;
        let Some(session) = self.sessions.get_mut(place) else { return };
        let over = |since: Instant, limit: Option<Duration>| {
            limit.is_some_and(|limit| since + limit <= self.now)
        };
        session.retires |= over(session.since, limits.server_lifetime);
        if session.is_idle() && (session.retires || over(session.used, limits.server_idle_timeout))
        {
            self.lost.push(place);
            return;
        }
        // One that is kept by its client is looked at once more when it may be idle again.
        session.used = if session.is_idle() { session.used } else { self.now };
        self.arm_session(place);
    }

    fn time_out(&mut self, id: ClientId, what: Limit) {
        let failed = self.client(id).and_then(|client| client.pool);
        let failed = failed.and_then(|pool| self.pools[pool].failed.clone());
        let why = failed.map(|(why, _)| why);
        match what {
            Limit::Goodbye => self.gone.push(id),
            Limit::Login => {
                let what = match why {
                    Some(why) => format!("no server session could be opened in time: {why}"),
                    None => "canceling authentication due to timeout".to_owned(),
                };
                self.refuse(id, &Refusal::fatal("08006", &what));
            }
            Limit::QueryWait => {
                let what = match why {
                    Some(why) => format!("no server session could be had in time: {why}"),
                    None => "no server session became free in time".to_owned(),
                };
                self.stop_waiting(id);
                if let Some(client) = self.client(id) {
                    client.queue.clear();
                }
                let hint = "query_wait_timeout limits how long a statement waits for one";
                self.refuse(id, &Refusal::fatal("53300", &what).hint(hint));
            }
            Limit::Query => {
                self.cancel_statement(id);
                let never = self.now + YEAR;
                if let Some(client) = self.client(id) {
                    // Once for a statement.
                    client.sent_at = never;
                }
            }
            Limit::Stall => {
                self.dismiss(
                    id,
                    UNREAD_ANSWER,
                    "an answer that it does not read, which keeps others from theirs",
                );
            }
            Limit::Transaction => self.dismiss(id, "25P04", "transaction timeout"),
            Limit::IdleTransaction => self.dismiss(id, "25P03", "idle-in-transaction timeout"),
            Limit::Idle => {
                let what = "terminating connection due to idle-session timeout";
                self.refuse(id, &Refusal::fatal("57P05", what));
            }
        }
    }

    /// Ends a client with what it keeps and what it waits for.
    fn dismiss(&mut self, id: ClientId, code: &'static str, what: &str) {
        let owned = self.client(id).and_then(|client| client.owned.take());
        if let Some(session) = owned.and_then(|place| self.sessions.get_mut(place)) {
            session.owner = None;
            self.lost.extend(owned);
        }
        self.stop_waiting(id);
        let Some(client) = self.client(id) else { return };
        client.queue.clear();
        // What the server runs it may still commit: no code is told that drivers take for the
        // proof of a rollback.
        let (code, rest) = match client.in_flight > 0 && code != UNREAD_ANSWER {
            true => ("08006", "; whether what ran was committed is not known"),
            false => (code, ""),
        };
        let what = format!("terminating connection due to {what}{rest}");
        self.refuse(id, &Refusal::fatal(code, &what));
    }

    // The end.

    fn drain(&mut self) {
        self.drains = true;
        let all: Vec<ClientId> = self.clients.iter().map(|(_, client)| client.id).collect();
        for id in all {
            self.let_go_if_drained(id);
        }
    }

    /// A client that has nothing under way is let go while the gateway drains.
    fn let_go_if_drained(&mut self, id: ClientId) {
        if !self.drains {
            return;
        }
        let Some(client) = self.clients.get(id.place).filter(|client| client.id == id) else {
            return;
        };
        match client.phase {
            Phase::Leaving => return,
            // It has not asked for anything yet.
            Phase::Startup => return self.gone.push(id),
            _ => {}
        }
        let session = client.owned.and_then(|place| self.sessions.get(place));
        let open = session.is_some_and(|session| session.status != b'I');
        // What it has been promised it is told first: what is withheld, and what it has not read.
        let is_told = client.answers.is_empty() && !client.blocked;
        if client.in_flight == 0 && client.queue.is_empty() && !open && is_told {
            let what = "terminating connection due to administrator command";
            self.refuse(id, &Refusal::fatal("57P01", what));
        }
    }
}

/// Whether a unit may write, or what comes behind it on a session of its own.
fn acts(unit: &Unit, need: Need) -> bool {
    unit.effects.acts || need.hold != Hold::Shared
}

/// What a client is told that sends something else while it copies in.
fn within_copy() -> Refusal<'static> {
    Refusal::fatal("08P01", "unexpected message during COPY from stdin")
}

/// When the server is asked whether what is in front of a ledger waits for a lock, since when it
/// is there and how often that was asked.
fn look_due((since, asked): (Instant, u32)) -> Instant {
    let doubled = asked.min(LINE_DOUBLES);
    since + LINE * ((2 << doubled) - 1 + ((asked - doubled) << LINE_DOUBLES))
}

/// How durable a commit on a session has to be before its client is told. Where the client may
/// have changed that for a session which waits for nothing by itself, it is no less than its role
/// has: `RESET` there gives what the session began with.
fn level_of(session: &Session, client: Option<&Client>, pool: &Pool) -> Option<Level> {
    let asks = session.kind == SessionKind::Relaxed && session.opted_out;
    let own = client.map_or(pool.level, |client| client.settings.level(pool.level));
    if asks { own.max(pool.level) } else { own }
}

/// What a client's time is limited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Login,
    Stall,
    QueryWait,
    Query,
    Transaction,
    IdleTransaction,
    Idle,
    Goodbye,
}

impl Upstream {
    /// Whether a client that is about to write is the only one that does: with nobody to share
    /// a barrier with, a commit that flushes by itself saves a round trip. Its locks are kept
    /// meanwhile, but nobody is there to wait for them.
    fn is_lone(&mut self, id: ClientId, need: Need, level: Option<Level>) -> bool {
        if need.session != SessionKind::Relaxed || matches!(need.hold, Hold::Pinned(_)) {
            return false;
        }
        let (writer, times) = &mut self.writer;
        *times = if *writer == id { times.saturating_add(1) } else { 0 };
        *writer = id;
        *times >= LONE && level.is_some() && self.exposures.count() == 0
    }
}

impl Life {
    fn is_standby(&self) -> bool {
        self.flushers.is_empty()
    }
}

/// Whether an error may be one of the moment: the server is away, starts, or is full.
fn may_pass(error: &WireError) -> bool {
    match error {
        WireError::Server(said) => {
            said.code.starts_with("57P")
                || said.code.starts_with("53")
                || said.code.starts_with("08")
        }
        WireError::Connect { .. }
        | WireError::UnknownHost { .. }
        | WireError::Timeout { .. }
        | WireError::Io(_)
        | WireError::Closed
        | WireError::OldError { .. } => true,
        WireError::Refused(why) => why.starts_with(UNWANTED),
        _ => false,
    }
}

/// The longest message of a type that a server takes from a client that is let in, with place
/// for the names that the gateway gives. A server ends a session in which a longer one comes,
/// and with it what others have sent there.
fn longest_of(tag: u8) -> usize {
    match tag {
        b'B' | b'F' | b'P' | b'Q' | b'd' => LONGEST - 100,
        // Nobody is asked for a proof any more.
        b'p' => 0,
        _ => 10_000 - 1,
    }
}

/// Mechanism and message of a SASLInitialResponse.
fn initial_response(body: &[u8]) -> Option<(&str, &[u8])> {
    let end = body.iter().position(|&byte| byte == 0)?;
    let mechanism = std::str::from_utf8(&body[..end]).ok()?;
    let (length, message) = body[end + 1..].split_first_chunk::<4>()?;
    (u32::from_be_bytes(*length) as usize == message.len()).then_some((mechanism, message))
}

/// When its session read the configuration files, where a barrier's answer has arrived whole,
/// which is then removed.
///
/// # Errors
/// When the server says anything but that it flushed: a cancelled wait for standbys is a warning.
fn barrier_returned(input: &mut Vec<u8>) -> Result<Option<Vec<u8>>, ()> {
    let (mut at, mut configured, mut returned) = (0, Vec::new(), None);
    while let Some(&[tag, a, b, c, d]) = input[at..].first_chunk::<5>() {
        let whole = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
        if whole > BUFFER {
            return Err(());
        }
        if input.len() - at < whole {
            break;
        }
        match tag {
            backend::NOTICE_RESPONSE if is_harmless(&input[at..at + whole]) => {}
            backend::ERROR_RESPONSE | backend::NOTICE_RESPONSE => return Err(()),
            backend::DATA_ROW => {
                let mut columns = input.get(at + 7..at + whole).into_iter().flat_map(columns);
                // Standbys have to confirm commits by now, which it did not ask.
                if columns.next() != Some(b"f") {
                    return Err(());
                }
                configured = columns.next().unwrap_or_default().to_vec();
            }
            backend::READY_FOR_QUERY => returned = Some(std::mem::take(&mut configured)),
            _ => {}
        }
        at += whole;
    }
    if returned.is_some() {
        input.drain(..at);
    }
    Ok(returned)
}

/// Whether a notice is one of those that come with every transaction of a server which is short of
/// transaction ids, and say nothing of its commit.
fn is_harmless(notice: &[u8]) -> bool {
    let routine = b"\0RGetNewTransactionId\0";
    notice.windows(routine.len()).any(|part| part == routine)
}

/// The columns of a DataRow behind their number; NULL ends them.
fn columns(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (column, left) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rest = left;
        Some(column)
    })
}

/// Whether the gateway answers a unit without a server.
fn is_local(unit: &Unit) -> bool {
    unit.end == End::Sync
        && unit.parts.iter().all(|part| {
            matches!(part, Part::CloseStatement(_)) || matches!(part, Part::Plain(b'S', _))
        })
}

fn answer_locally(client: &mut Client, unit: &Unit) {
    let out = client.answers.buffer();
    for part in &unit.parts {
        match part {
            Part::CloseStatement(_) => messages::bare(out, backend::CLOSE_COMPLETE),
            _ => messages::ready_for_query(out, b'I'),
        }
    }
    client.answers.hold(Until::AT_ONCE);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FLUSHED: &[u8] = b"2\0\0\0\x04D\0\0\0\x17\0\x02\0\0\0\x01f\0\0\0\x0817000000\
                             C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

    #[test]
    fn the_same_front_is_asked_about_less_and_less_often() {
        let since = Instant::now();
        let due = |asked| (look_due((since, asked)) - since).as_millis() / LINE.as_millis();
        let dues: Vec<u128> = (0..9).map(due).collect();
        assert_eq!(dues, [1, 3, 7, 15, 31, 63, 127, 191, 255]);
    }

    #[test]
    fn a_barrier_that_waits_for_nobody_any_more_proves_nothing() {
        let said = |tag: &[u8]| [tag, b"\0\0\0\x0eSWARNING\0\0", FLUSHED].concat();
        assert_eq!(barrier_returned(&mut said(b"N")), Err(()));
        let short = [b"N\0\0\0\x23SWARNING\0RGetNewTransactionId\0\0", FLUSHED].concat();
        assert!(barrier_returned(&mut short.clone()).is_ok_and(|of| of.is_some()));
        let mut named = FLUSHED.to_vec();
        let news = named.iter().position(|&byte| byte == b'f').unwrap();
        named[news] = b't';
        assert_eq!(barrier_returned(&mut named), Err(()));
    }

    proptest! {
        #[test]
        fn a_barrier_returns_with_its_last_byte(cut in 0..FLUSHED.len()) {
            let mut input = FLUSHED[..cut].to_vec();
            prop_assert_eq!(barrier_returned(&mut input), Ok(None));
            input.extend_from_slice(&FLUSHED[cut..]);
            prop_assert_eq!(barrier_returned(&mut input), Ok(Some(b"17000000".to_vec())));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0..FLUSHED.len()) {
            let _ = initial_response(&bytes);
            let _ = barrier_returned(&mut [&FLUSHED[..at], &bytes].concat());
        }
    }
}
