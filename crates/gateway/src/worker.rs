//! The event loop: clients on one side, server sessions on the other, the barrier between.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rand::random;
use slab::Slab;
use walwright_wire::{ScramKeys, Stream, WireError, backend};

use crate::client::{Claim, Client, ClientStream, Opening, Phase};
use crate::dial::{BARRIER_NAME, Dialled, Identity, Opened, Purpose, dial};
use crate::messages::{self, Refusal};
use crate::prepared::Registry;
use crate::scram::{Exchange, SCRAM, SCRAM_PLUS, Verifier};
use crate::session::{Event, Forgotten, Session, Slot};
use crate::settings::Settings;
use crate::tls::{Tls, TlsStream};
use crate::unit::{End, LONGEST, Malformed, Part, Unit, frame_into};
use crate::users::{Authentication, Credential, Stored};
use crate::{Barrier, ClientId, Epoch, Exposed, Hold, Options, Pin, SessionKind};

const WAKE: Token = Token(0);
const BARRIER: Token = Token(1);
const FIRST: usize = 2;
/// Bytes read from a socket at once.
const BUFFER: usize = 64 * 1024;
/// Bytes of one answer that are kept before their barrier is asked for.
const LONG_ANSWER: usize = 64 * 1024;
/// First byte of a client that begins with TLS at once.
const TLS_HANDSHAKE: u8 = 0x16;
/// Longest message of a client that has not proved who it is.
const MOST_OF_A_PROOF: usize = 4096;
/// Verifiers that are looked for at a time: each takes a connection to the server.
const MOST_LOOKUPS: usize = 4;
/// Units of one client that are kept before no more of it is read.
const MOST_QUEUED: usize = 64;
/// A statement that runs longer than this has none sent behind it.
const SLOW: Duration = Duration::from_millis(5);

/// What a worker is told from outside.
#[derive(Debug)]
pub enum Order {
    /// A client has connected.
    Client(ClientStream),
    /// It is to end.
    End,
}

/// Whose sessions may be used by whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    database: String,
    user: String,
    parameters: Vec<(String, String)>,
}

/// Server sessions of one user and database.
#[derive(Debug)]
struct Pool {
    key: PoolKey,
    /// Settings as the server reports them at login, once they are known.
    welcome: Option<Vec<(String, String)>>,
    /// Whether commits wait for a flush where a client does not say otherwise.
    waits_for_flush: bool,
    relaxed: Side,
    synchronous: Side,
    /// Clients that are let in as soon as `welcome` is known.
    arriving: Vec<ClientId>,
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

/// The session that flushes, and what waits for it.
struct Flusher {
    stream: Stream,
    identity: Identity,
    barrier: Barrier,
    /// Clients with answers that wait, in the order of their barriers.
    withheld: VecDeque<(Epoch, ClientId)>,
    /// Bytes of an answer that is not whole.
    carry: Vec<u8>,
}

/// One event loop with all that belongs to it.
pub struct Worker {
    options: Options,
    exposed: Exposed,
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
    /// What is logged in with at the server, by user.
    credentials: HashMap<String, Credential>,
    /// Clients whose users' verifiers are still to be looked for, and how many are.
    lookups: VecDeque<(ClientId, String)>,
    looking: usize,
    /// Makes up what stands for verifiers of names that nobody has.
    secret: [u8; 32],
    flusher: Option<Flusher>,
    /// Counts the lives of the server that this worker knew.
    life: u64,
    opening_flusher: bool,
    /// Sessions with bytes to send.
    to_send: Vec<usize>,
    /// Clients with answers to send.
    to_tell: Vec<ClientId>,
    /// Clients whose reading was put off until fewer of their units wait.
    put_off: Vec<ClientId>,
    /// Clients that are gone, to be removed when no event of this turn can mean them.
    gone: Vec<ClientId>,
    lost: Vec<usize>,
    ends: bool,
}

/// Even tokens are clients, odd ones sessions.
fn client_token(place: usize) -> Token {
    Token(FIRST + 2 * place)
}

fn session_token(place: usize) -> Token {
    Token(FIRST + 2 * place + 1)
}

impl Worker {
    /// A worker, and how it is told something.
    pub fn new(
        number: usize,
        options: Options,
        exposed: Exposed,
    ) -> io::Result<(Worker, Sender<Order>, Arc<Waker>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let (to_orders, orders) = channel();
        let (to_dialled, dialled) = channel();
        let worker = Worker {
            options,
            exposed,
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
            lookups: VecDeque::new(),
            looking: 0,
            secret: random(),
            flusher: None,
            life: 0,
            opening_flusher: false,
            to_send: Vec::new(),
            to_tell: Vec::new(),
            put_off: Vec::new(),
            gone: Vec::new(),
            lost: Vec::new(),
            ends: false,
        };
        Ok((worker, to_orders, waker))
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
            if let Err(error) = self.poll.poll(&mut events, None)
                && error.kind() != ErrorKind::Interrupted
            {
                return Err(error);
            }
            for event in &events {
                match event.token() {
                    WAKE => self.take_orders(),
                    BARRIER => self.read_barrier(&mut buffer),
                    Token(token) if (token - FIRST).is_multiple_of(2) => {
                        let place = (token - FIRST) / 2;
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
                        let place = (token - FIRST) / 2;
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
            self.finish_turn(&mut buffer);
        }
        Ok(())
    }

    /// Sends what this turn produced: first what makes servers work, then what clients are told.
    fn finish_turn(&mut self, buffer: &mut [u8]) {
        loop {
            self.close_lost();
            for place in std::mem::take(&mut self.to_send) {
                self.send_session(place);
            }
            self.send_barrier();
            for id in std::mem::take(&mut self.to_tell) {
                self.tell(id);
            }
            for id in std::mem::take(&mut self.gone) {
                self.remove_client(id);
            }
            for id in std::mem::take(&mut self.put_off) {
                if self.client(id).is_some() {
                    self.read_client(id.place, true, buffer);
                }
            }
            if self.to_send.is_empty() && self.to_tell.is_empty() && self.lost.is_empty() {
                return;
            }
        }
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Client(stream) => self.add_client(stream),
                Order::End => self.ends = true,
            }
        }
        while let Ok(dialled) = self.dialled.try_recv() {
            self.take_dialled(dialled);
        }
    }

    // Clients.

    fn add_client(&mut self, mut stream: ClientStream) {
        self.serial = self.serial.wrapping_add(1);
        let entry = self.clients.vacant_entry();
        let id = ClientId { place: entry.key(), serial: self.serial };
        let token = client_token(id.place);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = stream.register(self.poll.registry(), token, interest) {
            tracing::warn!("a client cannot be served: {error}");
            return;
        }
        let secret = random::<[u8; 32]>().to_vec();
        entry.insert(Client::new(id, stream, secret));
    }

    fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.place).filter(|client| client.id == id)
    }

    /// Reads what a client has sent: all there is, but for the last look that finds nothing,
    /// which is needed only where the other side is known to have closed.
    fn read_client(&mut self, place: usize, closed: bool, buffer: &mut [u8]) {
        loop {
            let Some(client) = self.clients.get_mut(place) else { return };
            let id = client.id;
            if matches!(client.phase, Phase::Leaving) {
                return;
            }
            if client.queue.len() >= MOST_QUEUED {
                return self.put_off.push(id);
            }
            match client.stream.read(buffer) {
                Ok(0) => return self.gone.push(id),
                Ok(count) => {
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
                Phase::Arriving | Phase::Claiming(_) => return at,
                Phase::Ready | Phase::Proving(..) => {
                    let Some(&[tag, a, b, c, d]) = input[at..].first_chunk::<5>() else {
                        return at;
                    };
                    let length = u32::from_be_bytes([a, b, c, d]) as usize;
                    let known = walwright_wire::frontend::TAGS.contains(tag);
                    let most = match client.phase {
                        Phase::Proving(..) => MOST_OF_A_PROOF,
                        _ => LONGEST,
                    };
                    if !known || !(4..=most).contains(&length) {
                        let what =
                            format!("invalid frontend message type {tag} or length {length}");
                        self.refuse(id, &Refusal::fatal("08P01", &what));
                        return input.len();
                    }
                    let Some(body) = input.get(at + 5..at + 1 + length) else { return at };
                    at += 1 + length;
                    match &client.phase {
                        Phase::Proving(..) => self.take_proof(id, tag, body),
                        _ => self.take_message(id, tag, body),
                    }
                }
            }
        }
    }

    fn open(&mut self, id: ClientId, opening: Opening) {
        match opening {
            Opening::Tls if self.can_encrypt(id) => {
                if let Some(client) = self.client(id)
                    && client.stream.write(b"S").is_ok_and(|count| count == 1)
                {
                    self.encrypt(id, &[], false);
                }
            }
            Opening::Tls | Opening::Gssapi => {
                if let Some(client) = self.client(id) {
                    client.answers.push(b"N");
                    client.answers.hold(Epoch::AT_ONCE);
                    self.will_tell(id);
                }
            }
            Opening::Cancel { process, key } => {
                self.cancel(process, &key);
                self.gone.push(id);
            }
            Opening::Startup { minor: _, parameters } => self.claim(id, parameters),
        }
    }

    fn can_encrypt(&self, id: ClientId) -> bool {
        let client = self.clients.get(id.place).filter(|client| client.id == id);
        self.options.tls.is_some() && client.is_some_and(|client| client.stream.is_open())
    }

    /// Puts TLS on a client's socket. Who begins with it at once must name the protocol.
    fn encrypt(&mut self, id: ClientId, early: &[u8], direct: bool) {
        let Some(tls) = self.options.tls.clone() else { return self.gone.push(id) };
        let Some(client) = self.client(id) else { return };
        let begun = client.stream.encrypt(&tls, early);
        let alpn = client.stream.tls().is_some_and(|stream| stream.has_alpn());
        if begun.is_err() || direct && !alpn {
            return self.gone.push(id);
        }
        self.will_tell(id);
        // What came with the first record is announced by nothing.
        self.put_off.push(id);
    }

    /// A client says who it is.
    fn claim(&mut self, id: ClientId, parameters: Vec<(String, String)>) {
        let user = parameters.iter().find(|(name, _)| name == "user");
        let Some(user) = user.map(|(_, user)| user.clone()).filter(|user| !user.is_empty()) else {
            let refusal =
                Refusal::fatal("28000", "no PostgreSQL user name specified in startup packet");
            return self.refuse(id, &refusal);
        };
        let claim = Claim { user, parameters };
        let must = self.options.tls.as_ref().is_some_and(Tls::is_required);
        if must && self.client(id).is_some_and(|client| client.stream.is_open()) {
            let refusal = Refusal::fatal("28000", "the gateway lets nobody in without TLS")
                .hint("connect with sslmode=require or verify-full");
            return self.refuse(id, &refusal);
        }
        let users = match &self.options.authentication {
            Authentication::Trust => return self.arrive(id, claim),
            Authentication::Scram(users) => users.clone(),
        };
        match users.known.get(&claim.user) {
            Some(stored) => self.ask_for_proof(id, claim, stored.verifier().ok()),
            None if users.ask_server => {
                self.lookups.push_back((id, claim.user.clone()));
                if let Some(client) = self.client(id) {
                    client.phase = Phase::Claiming(claim);
                }
                self.look_up();
            }
            None => self.ask_for_proof(id, claim, None),
        }
    }

    /// Looks for verifiers that are waited for, few at a time.
    fn look_up(&mut self) {
        while self.looking < MOST_LOOKUPS
            && let Some((id, user)) = self.lookups.pop_front()
        {
            if self.client(id).is_none() {
                continue;
            }
            self.looking += 1;
            let options = self.options.databases[0].server.addresses[0].clone();
            let done = self.to_dialled.clone();
            dial(Purpose::Verifier(id, user), self.life, options, done, self.waker.clone());
        }
    }

    /// The verifier of a claim is known, or that there is none.
    fn ask_for_proof(&mut self, id: ClientId, claim: Claim, verifier: Option<Verifier>) {
        let is_known = verifier.is_some();
        let verifier = verifier.unwrap_or_else(|| Verifier::made_up(&self.secret, &claim.user));
        let end_point = self.options.tls.as_ref().and_then(|tls| tls.end_point().cloned());
        let Some(client) = self.client(id) else { return };
        let end_point = end_point.filter(|_| client.stream.tls().is_some());
        let mechanisms: &[&str] = if end_point.is_some() { &[SCRAM_PLUS, SCRAM] } else { &[SCRAM] };
        messages::authentication_sasl(client.answers.buffer(), mechanisms);
        client.answers.hold(Epoch::AT_ONCE);
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
        client.answers.hold(Epoch::AT_ONCE);
        match proven {
            Ok(None) => self.will_tell(id),
            Ok(Some((claim, client, server))) => {
                let stored = match &self.options.authentication {
                    Authentication::Scram(users) => users.known.get(&claim.user),
                    Authentication::Trust => None,
                };
                let credential = match stored {
                    Some(Stored::Password(password)) => Credential::Password(password.clone()),
                    _ => Credential::Keys(ScramKeys { client, server }),
                };
                self.credentials.insert(claim.user.clone(), credential);
                self.arrive(id, claim);
            }
            Err(error) => {
                tracing::warn!("a client is not let in as \"{}\": {error}", claim.user);
                let what = format!("password authentication failed for user \"{}\"", claim.user);
                self.refuse(id, &Refusal::fatal("28P01", &what));
            }
        }
    }

    fn arrive(&mut self, id: ClientId, claim: Claim) {
        let Claim { user, parameters } = claim;
        let take = |name: &str| {
            parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        if parameters.iter().any(|(name, value)| name == "replication" && value != "false") {
            let refusal = Refusal::fatal("0A000", "the gateway passes on no replication")
                .hint("connect to the server itself");
            return self.refuse(id, &refusal);
        }
        let database = take("database").unwrap_or_else(|| user.clone());
        let own = |name: &str| {
            matches!(name, "user" | "database" | "application_name" | "replication")
                || name.starts_with("_pq_.")
        };
        let mut kept: Vec<_> = parameters.into_iter().filter(|(name, _)| !own(name)).collect();
        kept.sort();
        let key = PoolKey { database, user, parameters: kept };
        let place = match self.pool_of.get(&key) {
            Some(&place) => place,
            None => {
                self.pools.push(Pool {
                    key: key.clone(),
                    welcome: None,
                    waits_for_flush: true,
                    relaxed: Side::default(),
                    synchronous: Side::default(),
                    arriving: Vec::new(),
                });
                self.pool_of.insert(key, self.pools.len() - 1);
                self.pools.len() - 1
            }
        };
        let Some(client) = self.client(id) else { return };
        client.pool = Some(place);
        client.phase = Phase::Arriving;
        let pool = &mut self.pools[place];
        if pool.welcome.is_some() {
            self.welcome(id);
        } else {
            pool.arriving.push(id);
            if pool.synchronous.opening == 0 && pool.synchronous.sessions.is_empty() {
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
        let Some(pool) = client.pool.and_then(|place| self.pools.get(place)) else { return };
        let out = client.answers.buffer();
        messages::authentication_ok(out);
        for (name, value) in pool.welcome.iter().flatten() {
            messages::parameter_status(out, name, value);
        }
        let process = number << 24 | id.place as u32 & 0x00ff_ffff;
        messages::backend_key_data(out, process, &client.secret[..4]);
        messages::ready_for_query(out, b'I');
        client.answers.hold(Epoch::AT_ONCE);
        client.phase = Phase::Ready;
        self.will_tell(id);
        if let Some(client) = self.client(id) {
            let carry = std::mem::take(&mut client.carry);
            self.hear_client(id, &carry);
        }
    }

    fn take_message(&mut self, id: ClientId, tag: u8, body: &[u8]) {
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        match tag {
            b'X' => return self.gone.push(id),
            b'd' | b'c' | b'f' => {
                // Where nobody copies in, the server drops these, and so does the gateway.
                if let Some(place) = client.owned
                    && let Some(session) = self.sessions.get_mut(place)
                    && session.copying_in
                {
                    frame_into(&mut session.out, tag, &[body]);
                    self.to_send.push(place);
                }
                return;
            }
            _ => {}
        }
        let taken = client.gatherer.take(tag, body, &mut client.statements, &mut self.registry);
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
        if let Some(client) = self.client(id) {
            messages::error(client.answers.buffer(), refusal);
            client.answers.hold(Epoch::AT_ONCE);
            client.phase = Phase::Leaving;
            self.will_tell(id);
        }
    }

    /// A client loses its connection: what became of its statement is not known.
    fn lose_client(&mut self, id: ClientId) {
        let Some(client) = self.client(id) else { return };
        client.answers = crate::Answers::default();
        client.queue.clear();
        client.in_flight = 0;
        client.owned = None;
        let refusal = Refusal::fatal(
            "08006",
            "the server was lost; whether a transaction that was not acknowledged is committed \
             is not known",
        );
        self.refuse(id, &refusal);
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
        let returned = self.flusher.as_ref().map(|flusher| flusher.barrier.returned());
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        client.dirty = false;
        if let Some(returned) = returned {
            client.answers.release(returned);
        }
        while !client.blocked && !client.answers.ready().is_empty() {
            match client.stream.write(client.answers.ready()) {
                Ok(count) => client.answers.advance(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => client.blocked = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.gone.push(id),
            }
        }
        match client.stream.flush() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => client.blocked = true,
            Err(_) => return self.gone.push(id),
        }
        if client.answers.is_empty() && !client.blocked {
            if matches!(client.phase, Phase::Leaving) {
                return self.gone.push(id);
            }
            if client.in_flight == 0 {
                client.answers.shrink();
            }
        }
    }

    /// Forgets a client. What was sent for it goes on, and its answer is dropped.
    fn remove_client(&mut self, id: ClientId) {
        if self.client(id).is_none() {
            return;
        }
        let mut client = self.clients.remove(id.place);
        // The socket is closed next in any case.
        let _ = client.stream.deregister(self.poll.registry());
        if let Some(place) = client.owned
            && let Some(session) = self.sessions.get_mut(place)
        {
            // Its transaction is open, or it has left state behind: the server ends both.
            session.owner = None;
            self.lost.push(place);
            self.close_lost();
        }
    }

    fn cancel(&mut self, process: u32, key: &[u8]) {
        let place = (process & 0x00ff_ffff) as usize;
        let Some(client) = self.clients.get(place) else { return };
        if !client.secret.starts_with(key) || key.is_empty() {
            return;
        }
        let id = client.id;
        let running = self
            .sessions
            .iter()
            .find(|(_, session)| session.ledger.front().is_some_and(|slot| slot.client == id));
        // What runs is cancelled only where nothing behind it can be hit.
        let Some((_, session)) = running.filter(|(_, session)| session.ledger.len() == 1) else {
            return;
        };
        if let Some(key) = session.key.clone() {
            let options = self.options.databases[0].server.addresses[0].clone();
            std::thread::spawn(move || {
                if let Ok(connector) = walwright_wire::Connector::new(options) {
                    // Nobody waits for what becomes of it.
                    let _ = walwright_wire::cancel(&connector, &key);
                }
            });
        }
    }

    // From clients to sessions.

    /// Sends what a client has waiting, as far as it can be sent now.
    fn dispatch(&mut self, id: ClientId) {
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
            let need = unit.need;
            let Some(pool) = client.pool else { return };
            let place = match client.owned {
                Some(place) => Some(place),
                None => {
                    let settings = client.settings.clone();
                    self.choose(pool, need.session, need.hold, &settings)
                }
            };
            let Some(client) = self.client(id) else { return };
            let Some(place) = place else {
                client.waits = true;
                self.pools[pool].side(need.session).waiting.push_back(id);
                return;
            };
            let Some(unit) = client.queue.pop_front() else { return };
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
            if !open {
                client.in_flight += 1;
            }
            self.send_unit(place, id, unit);
        }
    }

    fn send_unit(&mut self, place: usize, id: ClientId, unit: Unit) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        if session.owner.is_none()
            && let Some(client) = self.clients.get(id.place)
            && session.settings != client.settings
        {
            session.take_settings(&client.settings);
        }
        if unit.need.hold != Hold::Shared {
            session.owner = Some(id);
        }
        let relaxed = session.kind == SessionKind::Relaxed;
        let begins = relaxed && !session.exposed && !session.is_open();
        if relaxed && (session.owner.is_none() || begins) {
            session.exposed |= session.owner.is_some();
            if let Some(flusher) = &mut self.flusher {
                flusher.barrier.relaxed_begins();
            }
        }
        session.send(id, unit);
        self.to_send.push(place);
    }

    /// The session for a statement; `None` where it has to wait for one.
    fn choose(
        &mut self,
        pool: usize,
        kind: SessionKind,
        hold: Hold,
        settings: &Settings,
    ) -> Option<usize> {
        let (spread, depth, most) =
            (self.options.spread, self.options.depth, self.options.pooling.size);
        let side = match kind {
            SessionKind::Relaxed => &self.pools[pool].relaxed,
            SessionKind::Synchronous => &self.pools[pool].synchronous,
        };
        let room = side.sessions.len() + side.opening < most;
        let now = Instant::now();
        let mut best: Option<(usize, usize)> = None;
        let mut slow = 0;
        for &place in &side.sessions {
            let Some(session) = self.sessions.get(place) else { continue };
            if session.owner.is_some() || session.reserved {
                continue;
            }
            if session.ledger.front().is_some_and(|slot| now - slot.since > SLOW) {
                slow += 1;
                continue;
            }
            let length = session.ledger.len();
            // Settings change only where nothing runs.
            if length > 0 && session.settings != *settings {
                continue;
            }
            if best.is_none_or(|(_, shortest)| length < shortest) {
                best = Some((place, length));
            }
        }
        let shared = hold == Hold::Shared;
        let usable = best.filter(|(_, length)| if shared { *length < depth } else { *length == 0 });
        // Few sessions are worth more than many: they carry several statements at once.
        let wanting = match best {
            Some((_, length)) if shared => {
                length > 0 && side.sessions.len() + side.opening < spread + slow
            }
            Some(_) => usable.is_none(),
            None => side.opening == 0 || !shared,
        };
        if wanting && room {
            self.open_session(pool, kind);
        }
        if usable.is_none()
            && !shared
            && !room
            && let Some((place, _)) = best
            && let Some(session) = self.sessions.get_mut(place)
        {
            // It is left to run dry for a client that needs one alone.
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
            let hold = client.queue.front().map_or(Hold::Shared, |unit| unit.need.hold);
            let settings = client.settings.clone();
            if self.choose(pool, kind, hold, &settings).is_none() {
                return;
            }
            self.pools[pool].side(kind).waiting.pop_front();
            if let Some(client) = self.client(id) {
                client.waits = false;
            }
            self.dispatch(id);
        }
    }

    // Sessions.

    fn open_session(&mut self, pool: usize, kind: SessionKind) {
        if kind == SessionKind::Relaxed && self.flusher.is_none() {
            // The barrier is there before anything is to be covered by it.
            self.open_flusher();
            return;
        }
        let of = &mut self.pools[pool];
        let mut options = self.options.databases[0].server.addresses[0].clone();
        options.user.clone_from(&of.key.user);
        options.dbname.clone_from(&of.key.database);
        match self.credentials.get(&of.key.user) {
            Some(Credential::Password(password)) => options.password = Some(password.clone()),
            Some(Credential::Keys(keys)) => options.scram_keys = Some(keys.clone()),
            None => {}
        }
        options.parameters.extend(of.key.parameters.iter().cloned());
        of.side(kind).opening += 1;
        let purpose = Purpose::Session(pool, kind);
        dial(purpose, self.life, options, self.to_dialled.clone(), self.waker.clone());
    }

    fn open_flusher(&mut self) {
        if std::mem::replace(&mut self.opening_flusher, true) {
            return;
        }
        let mut options = self.options.databases[0].server.addresses[0].clone();
        options.application_name = "walwright barrier".to_owned();
        let done = self.to_dialled.clone();
        dial(Purpose::Barrier, self.life, options, done, self.waker.clone());
    }

    fn take_dialled(&mut self, dialled: Dialled) {
        match dialled.purpose {
            Purpose::Barrier => {
                self.opening_flusher = false;
                match dialled.result {
                    Ok(opened) => self.begin_life(opened),
                    Err(error) => self.fail_waiting(&error.to_string()),
                }
            }
            Purpose::Verifier(id, user) => {
                self.looking = self.looking.saturating_sub(1);
                self.take_verifier(id, &user, dialled.result);
                self.look_up();
            }
            Purpose::Session(pool, kind) => {
                let side = self.pools[pool].side(kind);
                side.opening = side.opening.saturating_sub(1);
                match dialled.result {
                    Ok(opened) => self.add_session(pool, kind, dialled.life, opened),
                    Err(error) => self.fail_pool(pool, &error.to_string()),
                }
            }
        }
    }

    /// A verifier was looked for.
    fn take_verifier(&mut self, id: ClientId, user: &str, found: Result<Opened, WireError>) {
        let Some(client) = self.client(id) else { return };
        let Phase::Claiming(claim) = &client.phase else { return };
        let claim = claim.clone();
        match found {
            Ok(opened) => {
                let verifier = opened.verifier.and_then(|text| Verifier::parse(&text).ok());
                self.ask_for_proof(id, claim, verifier);
                if let Some(client) = self.client(id) {
                    let carry = std::mem::take(&mut client.carry);
                    self.hear_client(id, &carry);
                }
            }
            Err(error) => {
                tracing::error!("the password of \"{user}\" could not be looked up: {error}");
                let refusal = Refusal::fatal("08001", "the server could not be asked who you are");
                self.refuse(id, &refusal);
            }
        }
    }

    /// A barrier session is there: relaxed sessions may be opened beside it.
    fn begin_life(&mut self, opened: Opened) {
        let fd = opened.stream.as_raw_fd();
        let readable = Interest::READABLE;
        if let Err(error) = SourceFd(&fd).register(self.poll.registry(), BARRIER, readable) {
            return self.fail_waiting(&error.to_string());
        }
        self.flusher = Some(Flusher {
            stream: opened.stream,
            identity: opened.identity,
            barrier: Barrier::new(self.exposed.clone()),
            withheld: VecDeque::new(),
            carry: Vec::new(),
        });
        for pool in 0..self.pools.len() {
            self.serve_waiting(pool, SessionKind::Relaxed);
        }
    }

    fn add_session(&mut self, pool: usize, kind: SessionKind, life: u64, opened: Opened) {
        if life != self.life || self.flusher.is_none() && kind == SessionKind::Relaxed {
            // The server went away meanwhile.
            return self.open_session(pool, kind);
        }
        if self.flusher.as_ref().is_some_and(|flusher| flusher.identity != opened.identity) {
            let why = "two connections to the server did not reach one and the same server";
            return self.fail_pool(pool, why);
        }
        let entry = self.sessions.vacant_entry();
        let (place, fd) = (entry.key(), opened.stream.as_raw_fd());
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = session_token(place);
        if let Err(error) = SourceFd(&fd).register(self.poll.registry(), token, interest) {
            return self.fail_pool(pool, &error.to_string());
        }
        entry.insert(Session::new(opened.stream, pool, kind, opened.key));
        let of = &mut self.pools[pool];
        of.side(kind).sessions.push(place);
        if kind == SessionKind::Synchronous {
            of.waits_for_flush = opened.level != "off";
            if of.welcome.is_none() {
                of.welcome = Some(opened.parameters);
            }
            for id in std::mem::take(&mut of.arriving) {
                self.welcome(id);
            }
        }
        self.serve_waiting(pool, kind);
    }

    /// No session can be had: those who wait for one are told.
    fn fail_pool(&mut self, pool: usize, why: &str) {
        tracing::warn!("a server session could not be opened: {why}");
        let of = &mut self.pools[pool];
        let mut waiting = std::mem::take(&mut of.arriving);
        for kind in [SessionKind::Relaxed, SessionKind::Synchronous] {
            let side = of.side(kind);
            if side.sessions.is_empty() && side.opening == 0 {
                waiting.extend(side.waiting.drain(..));
            }
        }
        for id in waiting {
            let what = format!("no server session could be opened: {why}");
            self.refuse(id, &Refusal::fatal("08001", &what));
        }
    }

    fn fail_waiting(&mut self, why: &str) {
        for pool in 0..self.pools.len() {
            self.fail_pool(pool, why);
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
    }

    /// The same for what a server has sent.
    fn read_session(
        &mut self,
        place: usize,
        closed: bool,
        buffer: &mut [u8],
        events: &mut Vec<Event>,
    ) {
        loop {
            let Some(session) = self.sessions.get_mut(place) else { return };
            let count = match session.stream.read(buffer) {
                Ok(0) => return self.lost.push(place),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.lost.push(place),
            };
            let bytes = session.whole(&buffer[..count]);
            let heard = session.receive(&bytes, events);
            let (pool, kind) = (session.pool, session.kind);
            for event in events.drain(..) {
                self.take_event(place, event, &bytes);
            }
            if let Err(mismatch) = heard {
                tracing::error!("a server session is closed: {mismatch}");
                return self.lost.push(place);
            }
            self.serve_waiting(pool, kind);
            if count < buffer.len() && !closed {
                return;
            }
        }
    }

    fn take_event(&mut self, place: usize, event: Event, bytes: &[u8]) {
        match event {
            Event::Answer(id, range) => {
                if let Some(client) = self.client(id) {
                    client.answers.push(&bytes[range]);
                    if client.answers.len() > LONG_ANSWER {
                        self.hold_part(place, id);
                    }
                }
            }
            Event::Synthesise(id, tag) => {
                if let Some(client) = self.client(id) {
                    messages::bare(client.answers.buffer(), tag);
                }
            }
            Event::Open(id) => {
                if let Some(client) = self.client(id) {
                    client.answers.hold(Epoch::AT_ONCE);
                    self.will_tell(id);
                }
            }
            Event::Ended(slot, status) => self.end_unit(place, slot, status),
            Event::Forgotten(id, forgotten) => {
                if let Some(client) = self.client(id) {
                    client.statements.clear();
                    if forgotten == Forgotten::Everything {
                        client.pinned = None;
                        client.settings = Settings::default();
                    }
                }
                if forgotten == Forgotten::Everything
                    && let Some(session) = self.sessions.get_mut(place)
                {
                    session.settings = Settings::default();
                }
            }
            Event::Fatal(range) => {
                let said = backend::ErrorFields::parse(&bytes[range.start + 5..range.end]);
                if let Ok(said) = said {
                    tracing::warn!("the server ends a session: {said}");
                }
            }
        }
    }

    /// A part of a long answer: what it tells was committed before it arrived, so a barrier sent
    /// from now on covers it.
    fn hold_part(&mut self, place: usize, id: ClientId) {
        let Some(session) = self.sessions.get(place) else { return };
        let in_transaction = session.exposed;
        let waits = self.pools[session.pool].waits_for_flush;
        let until = match &mut self.flusher {
            Some(flusher) if !in_transaction && waits => flusher.barrier.told(),
            _ => Epoch::AT_ONCE,
        };
        self.hold(id, until);
    }

    /// What a client was sent until now waits for a barrier.
    fn hold(&mut self, id: ClientId, until: Epoch) {
        let Some(client) = self.client(id) else { return };
        client.answers.hold(until);
        match &mut self.flusher {
            Some(flusher) if until > flusher.barrier.returned() => {
                flusher.withheld.push_back((until, id));
            }
            _ => self.will_tell(id),
        }
    }

    /// A unit was answered.
    fn end_unit(&mut self, place: usize, slot: Slot, status: u8) {
        let Some(session) = self.sessions.get_mut(place) else { return };
        let id = slot.client;
        if id == ClientId::NOBODY {
            if slot.failed {
                tracing::error!("a server session did not take the settings of a client");
                self.lost.push(place);
            }
            return;
        }
        let ended = status == b'I';
        let waits = self.pools[session.pool].waits_for_flush;
        let until = match (&mut self.flusher, session.kind) {
            (Some(flusher), SessionKind::Relaxed) if ended => {
                session.exposed = false;
                flusher.barrier.relaxed_ends(waits)
            }
            (Some(flusher), SessionKind::Synchronous) if ended && waits => flusher.barrier.told(),
            _ => Epoch::AT_ONCE,
        };
        if session.reserved && session.ledger.is_empty() {
            session.reserved = false;
        }
        self.hold(id, until);
        let Some(session) = self.sessions.get_mut(place) else { return };
        let Some(client) = self.clients.get_mut(id.place).filter(|client| client.id == id) else {
            return;
        };
        for (name, statement) in &slot.unprepared {
            client.statements.forget(name, statement);
        }
        if let Some(change) = slot.change.as_ref().filter(|_| ended && !slot.failed)
            && client.pinned.is_none()
        {
            client.settings.apply(change);
            session.settings.apply(change);
        }
        client.in_flight = client.in_flight.saturating_sub(1);
        if ended && client.owned == Some(place) && client.pinned.is_none() {
            client.owned = None;
            session.owner = None;
        } else if !ended && client.owned.is_none() {
            // A transaction that nobody saw begin.
            client.owned = Some(place);
            session.owner = Some(id);
            session.exposed = session.kind == SessionKind::Relaxed;
        }
        self.dispatch(id);
    }

    /// Closes sessions that are lost, and tells those whose answers are lost with them.
    fn close_lost(&mut self) {
        while let Some(place) = self.lost.pop() {
            let Some(mut session) = self.sessions.try_remove(place) else { continue };
            let fd = session.stream.as_raw_fd();
            // The socket is closed next in any case.
            let _ = SourceFd(&fd).deregister(self.poll.registry());
            session.stream.terminate();
            let side = self.pools[session.pool].side(session.kind);
            side.sessions.retain(|&of| of != place);
            if let Some(flusher) = &mut self.flusher
                && session.kind == SessionKind::Relaxed
            {
                let open = if session.exposed { 1 } else { session.ledger.len() };
                for _ in 0..open {
                    flusher.barrier.relaxed_ends(false);
                }
            }
            let owner = session.owner.into_iter();
            for id in session.ledger.iter().map(|slot| slot.client).chain(owner) {
                self.lose_client(id);
            }
            let (pool, kind) = (session.pool, session.kind);
            if !self.pools[pool].side(kind).waiting.is_empty() {
                self.serve_waiting(pool, kind);
            }
        }
    }

    // The barrier.

    fn send_barrier(&mut self) {
        let Some(flusher) = &mut self.flusher else { return };
        if !flusher.barrier.send() {
            return;
        }
        let mut out = Vec::new();
        frame_into(&mut out, b'B', &[b"\0", BARRIER_NAME.as_bytes(), b"\0\0\0\0\0\0\0"]);
        frame_into(&mut out, b'E', &[b"\0\0\0\0\0"]);
        frame_into(&mut out, b'S', &[]);
        // One barrier is out at a time: a socket that cannot take these bytes is lost.
        match flusher.stream.write(&out) {
            Ok(count) if count == out.len() => {}
            _ => self.end_life(),
        }
    }

    fn read_barrier(&mut self, buffer: &mut [u8]) {
        loop {
            let Some(flusher) = &mut self.flusher else { return };
            match flusher.stream.read(buffer) {
                Ok(0) => return self.end_life(),
                Ok(count) => {
                    flusher.carry.extend_from_slice(&buffer[..count]);
                    match barrier_returned(&mut flusher.carry) {
                        Ok(true) if flusher.barrier.is_out() => {
                            let returned = flusher.barrier.returns();
                            let mut free = Vec::new();
                            while let Some((_, id)) =
                                flusher.withheld.pop_front_if(|(of, _)| *of <= returned)
                            {
                                free.push(id);
                            }
                            for id in free {
                                self.will_tell(id);
                            }
                        }
                        Ok(false) => {}
                        Ok(true) | Err(()) => return self.end_life(),
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.end_life(),
            }
        }
    }

    /// The barrier session is lost: nothing proves any more that what is withheld is durable.
    fn end_life(&mut self) {
        let Some(flusher) = self.flusher.take() else { return };
        tracing::warn!("the barrier session was lost");
        let fd = flusher.stream.as_raw_fd();
        // The socket is closed next in any case.
        let _ = SourceFd(&fd).deregister(self.poll.registry());
        self.life += 1;
        for (_, id) in &flusher.withheld {
            self.lose_client(*id);
        }
        drop(flusher);
        self.lost.extend(self.sessions.iter().map(|(place, _)| place));
        self.close_lost();
    }
}

/// Mechanism and message of a SASLInitialResponse.
fn initial_response(body: &[u8]) -> Option<(&str, &[u8])> {
    let end = body.iter().position(|&byte| byte == 0)?;
    let mechanism = std::str::from_utf8(&body[..end]).ok()?;
    let (length, message) = body[end + 1..].split_first_chunk::<4>()?;
    (u32::from_be_bytes(*length) as usize == message.len()).then_some((mechanism, message))
}

/// Whether a barrier's answer has arrived; what is read is removed.
///
/// # Errors
/// When the server says anything but that it flushed.
fn barrier_returned(input: &mut Vec<u8>) -> Result<bool, ()> {
    let (mut at, mut returned) = (0, false);
    while let Some(&[tag, a, b, c, d]) = input[at..].first_chunk::<5>() {
        let whole = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
        if whole > BUFFER {
            return Err(());
        }
        if input.len() - at < whole {
            break;
        }
        match tag {
            backend::ERROR_RESPONSE => return Err(()),
            backend::READY_FOR_QUERY => returned = true,
            _ => {}
        }
        at += whole;
    }
    input.drain(..at);
    Ok(returned)
}

/// Whether the gateway answers a unit without a server.
fn is_local(unit: &Unit) -> bool {
    unit.end == End::Sync
        && unit.parts.iter().all(|part| {
            matches!(part, Part::CloseStatement) || matches!(part, Part::Plain(b'S', _))
        })
}

fn answer_locally(client: &mut Client, unit: &Unit) {
    let out = client.answers.buffer();
    for part in &unit.parts {
        match part {
            Part::CloseStatement => messages::bare(out, backend::CLOSE_COMPLETE),
            _ => messages::ready_for_query(out, b'I'),
        }
    }
    client.answers.hold(Epoch::AT_ONCE);
}
