//! One client connection.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Uid, User};
use walwright_wire::Secret;

use crate::census::Counted;
use crate::messages::{self, Refusal};
use crate::scram::Exchange;
use crate::settings::Settings;
use crate::tls::{Tls, TlsStream};
use crate::unit::{Gatherer, Part, Statements, Unit};
use crate::{Answers, Pin};

/// A client, unique for the life of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    /// Its place among the clients.
    pub place: usize,
    /// Tells it from others that had the place.
    pub serial: u32,
}

impl ClientId {
    /// No client: the gateway itself.
    pub const NOBODY: ClientId = ClientId { place: usize::MAX, serial: 0 };
}

/// The process that a client of a worker is told it has: never one that a client has been told
/// before it in a long time, and none of a server, whose numbers end at 2²² on Linux, so that
/// `pg_terminate_backend` of it hits nobody.
pub fn process_of(worker: u32, client: ClientId) -> u32 {
    (worker + 1) << 24 | client.serial & 0x00ff_ffff
}

/// The worker whose clients have been told processes like this.
pub fn worker_of(process: u32) -> Option<u32> {
    (process >> 24).checked_sub(1)
}

/// How far a client's login is.
#[derive(Debug)]
pub enum Phase {
    /// Nothing is known of it.
    Startup,
    /// Its user's verifier is being looked for.
    Claiming(Claim),
    /// It proves who it is.
    Proving(Claim, Box<Exchange>),
    /// It is let in as soon as its pool knows a server.
    Arriving,
    /// It is for the console, and leaves the worker at the end of this turn.
    Console(Claim),
    /// Logged in.
    Ready,
    /// Being closed as soon as what it may be told is sent.
    Leaving,
}

/// Who a client says it is, and what it wants.
#[derive(Debug, Clone)]
pub struct Claim {
    /// User.
    pub user: String,
    /// The database that it names, or that its user's name does.
    pub database: String,
    /// Startup parameters but for the user.
    pub parameters: Vec<(String, String)>,
    /// The server of the database that it names.
    pub upstream: usize,
    /// Its password, where that is known.
    pub password: Option<Secret>,
}

/// One client connection.
#[derive(Debug)]
pub struct Client {
    /// Who it is.
    pub id: ClientId,
    /// How often it was told that there is no encryption.
    pub declined: u8,
    /// Its socket.
    pub stream: ClientStream,
    /// How far its login is.
    pub phase: Phase,
    /// Its pool, once that is known.
    pub pool: Option<usize>,
    /// Secret with which it cancels.
    pub secret: [u8; 32],
    /// Minor version of the protocol that it speaks.
    pub minor: u16,
    /// The name that it gave for itself.
    pub application_name: Option<Box<str>>,
    /// Whether it is one too many.
    pub excess: bool,
    /// What it was counted as.
    pub counted: Vec<Counted>,
    /// When it connected.
    pub since: Instant,
    /// When its last statement was answered, or it was told to leave.
    pub idle_since: Instant,
    /// When its statement was sent.
    pub sent_at: Instant,
    /// Since when it waits for a session.
    pub waits_since: Option<Instant>,
    /// When it is to be looked at whether its time is over.
    pub timer: Option<Instant>,
    /// Whether a part of the answer that goes on was given free already.
    pub part_told: bool,
    /// Bytes of a message that has not arrived whole.
    pub carry: Vec<u8>,
    /// Its prepared statements.
    pub statements: Statements,
    /// Its settings, where they differ from those of its pool.
    pub settings: Settings,
    /// Messages before their Sync.
    pub gatherer: Gatherer,
    /// Units that wait to be sent.
    pub queue: VecDeque<Unit>,
    /// Units that were sent and are not answered.
    pub in_flight: usize,
    /// The session that it keeps.
    pub owned: Option<usize>,
    /// Why it keeps it beyond its transaction.
    pub pinned: Option<Pin>,
    /// Whether it waits for a session.
    pub waits: bool,
    /// What it is to be told.
    pub answers: Answers,
    /// Whether it is among those whose answers are to be sent.
    pub dirty: bool,
    /// Whether its answers wait until its socket takes more.
    pub blocked: bool,
    /// The session that is not read until it has read more of its answers, and since when, less the
    /// time that what it read since may take.
    pub stalls: Option<(usize, Instant)>,
    /// How long it had others waiting so before, since its statement was sent.
    pub stalled: Duration,
    /// Whether it is among those that are read later.
    pub put_off: bool,
    /// Whether it sends nothing more: it goes once what it has sent is done.
    pub ends: bool,
    /// Whether it has said so, and hears nothing more either.
    pub deaf: bool,
    /// Whether the server was asked, now that nothing more comes, for what it keeps until a Sync.
    pub hurried: bool,
    /// Whether what it has in flight is to be cancelled once that runs.
    pub cancels: bool,
}

impl Client {
    /// A client that has just connected.
    pub fn new(id: ClientId, stream: ClientStream, secret: [u8; 32]) -> Client {
        let now = Instant::now();
        Client {
            id,
            stream,
            phase: Phase::Startup,
            pool: None,
            secret,
            declined: 0,
            minor: 0,
            application_name: None,
            excess: false,
            counted: Vec::new(),
            since: now,
            idle_since: now,
            sent_at: now,
            waits_since: None,
            timer: None,
            part_told: false,
            carry: Vec::new(),
            statements: Statements::default(),
            settings: Settings::default(),
            gatherer: Gatherer::default(),
            queue: VecDeque::new(),
            in_flight: 0,
            owned: None,
            pinned: None,
            waits: false,
            answers: Answers::default(),
            dirty: false,
            blocked: false,
            stalls: None,
            stalled: Duration::ZERO,
            put_off: false,
            ends: false,
            deaf: false,
            hurried: false,
            cancels: false,
        }
    }

    /// It has no session any more, and nothing under way.
    pub fn lose_session(&mut self) {
        self.queue.clear();
        self.in_flight = 0;
        self.owned = None;
    }

    /// It has not prepared after all what a unit would have.
    pub fn unprepare(&mut self, unit: &Unit) {
        for part in unit.parts.iter().rev() {
            if let Part::Parse(_, naming)
            | Part::CloseStatement(naming)
            | Part::Deallocate(naming) = part
            {
                self.statements.undo(naming.clone());
            }
        }
    }

    /// Answers a unit outside of a transaction block with an error.
    pub fn fail(&mut self, refusal: &Refusal<'_>) {
        let out = self.answers.buffer();
        messages::error(out, &Refusal { severity: "ERROR", ..*refusal });
        messages::ready_for_query(out, b'I');
    }

    /// Whether it is not its turn to say anything.
    pub fn waits_to_be_let_in(&self) -> bool {
        matches!(self.phase, Phase::Claiming(_) | Phase::Arriving | Phase::Console(_))
    }
}

/// What a client speaks over.
#[derive(Debug)]
pub enum ClientStream {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TCP with TLS on it.
    Tls(Box<TlsStream>),
    /// Nothing any more.
    Closed,
}

impl ClientStream {
    fn source(&mut self) -> io::Result<&mut dyn Source> {
        Ok(match self {
            ClientStream::Tcp(stream) => stream,
            ClientStream::Unix(stream) => stream,
            ClientStream::Tls(stream) => &mut stream.socket,
            ClientStream::Closed => return Err(ErrorKind::NotConnected.into()),
        })
    }

    /// Puts TLS on a TCP socket; `early` is what was read of the client's first record.
    ///
    /// # Errors
    /// When it is no TLS, or no TCP.
    pub fn encrypt(&mut self, tls: &Tls, early: &[u8], direct: bool) -> io::Result<()> {
        match std::mem::replace(self, ClientStream::Closed) {
            ClientStream::Tcp(socket) => {
                *self = ClientStream::Tls(Box::new(TlsStream::accept(socket, tls, early, direct)?));
                Ok(())
            }
            other => {
                *self = other;
                Err(ErrorKind::Unsupported.into())
            }
        }
    }

    /// The addresses of the client and of the gateway, where there are any.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let Some(stream) = self.tcp() else { return (None, None) };
        (stream.peer_addr().ok(), stream.local_addr().ok())
    }

    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            ClientStream::Tcp(stream) => Some(stream),
            ClientStream::Tls(stream) => Some(&stream.socket),
            ClientStream::Unix(_) | ClientStream::Closed => None,
        }
    }

    /// TLS, where it is on.
    pub fn tls(&self) -> Option<&TlsStream> {
        match self {
            ClientStream::Tls(stream) => Some(stream),
            _ => None,
        }
    }

    /// Where it comes from; `None` on a unix socket.
    ///
    /// # Errors
    /// When the client has gone.
    pub fn address(&self) -> io::Result<Option<IpAddr>> {
        if matches!(self, ClientStream::Closed) {
            return Err(ErrorKind::NotConnected.into());
        }
        Ok(self.tcp().map(TcpStream::peer_addr).transpose()?.map(|address| address.ip()))
    }

    /// The user of the system at the other end of a unix socket.
    pub fn system_user(&self) -> Option<String> {
        let ClientStream::Unix(stream) = self else { return None };
        let of = getsockopt(stream, PeerCredentials).ok()?;
        Some(User::from_uid(Uid::from_raw(of.uid())).ok()??.name)
    }

    /// Whether it is TCP without TLS.
    pub fn is_open(&self) -> bool {
        matches!(self, ClientStream::Tcp(_))
    }
}

impl Source for ClientStream {
    fn register(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        self.source()?.register(registry, token, of)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        self.source()?.reregister(registry, token, of)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source()?.deregister(registry)
    }
}

impl Read for ClientStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientStream::Tcp(stream) => stream.read(into),
            ClientStream::Unix(stream) => stream.read(into),
            ClientStream::Tls(stream) => stream.read(into),
            ClientStream::Closed => Ok(0),
        }
    }
}

impl Write for ClientStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Tcp(stream) => stream.write(from),
            ClientStream::Unix(stream) => stream.write(from),
            ClientStream::Tls(stream) => stream.write(from),
            ClientStream::Closed => Err(ErrorKind::NotConnected.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientStream::Tls(stream) => stream.flush(),
            _ => Ok(()),
        }
    }
}

/// What a client asks for before it is let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// Something else than a client: like a server, the gateway closes without a word.
    Noise,
    /// TLS.
    Tls,
    /// GSSAPI encryption, which is not there.
    Gssapi,
    /// Another client's statement is to be cancelled.
    Cancel {
        /// What the gateway told that client.
        process: u32,
        /// Its secret.
        key: Vec<u8>,
    },
    /// Protocol 3 with parameters.
    Startup {
        /// Minor version.
        minor: u16,
        /// Names and values.
        parameters: Vec<(String, String)>,
    },
}

/// Longest packet before a client is known, as PostgreSQL has it.
const LONGEST_OPENING: usize = 10_000;
const SSL_REQUEST: u32 = 80_877_103;
const GSSENC_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

impl Opening {
    /// Reads the first packet of a connection; `None` while it is not whole. With it comes how
    /// many bytes it took.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn parse(input: &[u8]) -> Result<Option<(Opening, usize)>, &'static str> {
        let Some((length, rest)) = input.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if !(8..=LONGEST_OPENING).contains(&length) {
            return Ok(Some((Opening::Noise, input.len())));
        }
        let Some(packet) = rest.get(..length - 4) else { return Ok(None) };
        let Some((code, body)) = packet.split_first_chunk::<4>() else { return Ok(None) };
        let opening = match u32::from_be_bytes(*code) {
            SSL_REQUEST => Opening::Tls,
            GSSENC_REQUEST => Opening::Gssapi,
            CANCEL_REQUEST => {
                let Some((process, key)) = body.split_first_chunk::<4>() else {
                    return Err("a cancel request without a key");
                };
                Opening::Cancel { process: u32::from_be_bytes(*process), key: key.to_vec() }
            }
            version if version >> 16 == 3 => Opening::Startup {
                minor: (version & 0xffff) as u16,
                parameters: startup_parameters(body)?,
            },
            _ => return Err("unsupported frontend protocol; the gateway speaks version 3"),
        };
        Ok(Some((opening, length)))
    }
}

fn startup_parameters(body: &[u8]) -> Result<Vec<(String, String)>, &'static str> {
    let Some(pairs) = body.strip_suffix(b"\0") else {
        return Err("invalid startup packet layout: expected terminator as last byte");
    };
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).map_err(|_| "a startup parameter is not UTF-8")
    };
    let mut parameters = Vec::new();
    let mut strings = pairs.strip_suffix(b"\0").unwrap_or(pairs).split(|&byte| byte == 0);
    while let Some(name) = strings.next().filter(|name| !name.is_empty()) {
        let value = strings.next().ok_or("a startup parameter has no value")?;
        parameters.push((text(name)?, text(value)?));
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_startup_packet_is_read_as_a_server_reads_it() {
        let packet = b"\0\0\0\x23\0\x03\0\x02user\0me\0database\0d\0empty\0\0\0";
        let (opening, length) = Opening::parse(packet).unwrap().unwrap();
        assert_eq!(length, packet.len());
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let parameters = vec![pair("user", "me"), pair("database", "d"), pair("empty", "")];
        assert_eq!(opening, Opening::Startup { minor: 2, parameters });
        assert_eq!(Opening::parse(&packet[..20]), Ok(None));
    }

    proptest! {
        #[test]
        fn no_first_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Opening::parse(&bytes);
            let mut packet = ((bytes.len() + 8) as u32).to_be_bytes().to_vec();
            packet.extend([0, 3, 0, 0]);
            packet.extend(&bytes);
            let _ = Opening::parse(&packet);
        }
    }
}
