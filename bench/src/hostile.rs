//! Something in the middle that misbehaves: between a command and a real server, it passes on
//! what both say until it strikes.
//!
//! The end-to-end tests of `walwright` use this file too, so it needs nothing but the
//! standard library and libc.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is done to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misdeed {
    /// Nothing comes any more.
    Silent,
    /// One byte a second.
    Dribble,
    /// A message of 2 GiB is announced and does not come.
    Announced,
    /// A message of 2 GiB is announced and comes.
    Gigantic,
    /// Half a message, then the end of the connection.
    Half,
    /// Bytes that are nothing.
    Garbage,
    /// Rows without end.
    Rows,
    /// Rows of many columns without end.
    WideRows,
    /// Notices without end.
    Notices,
    /// Settings reported without end, each another.
    Settings,
    /// The connection is reset.
    Reset,
    /// Rows, their descriptions, ends of commands and errors with bytes flipped, columns
    /// dropped, types changed and nulls put in.
    Fuzzed,
}

/// All of them.
pub const MISDEEDS: [Misdeed; 12] = [
    Misdeed::Silent,
    Misdeed::Dribble,
    Misdeed::Announced,
    Misdeed::Gigantic,
    Misdeed::Half,
    Misdeed::Garbage,
    Misdeed::Rows,
    Misdeed::WideRows,
    Misdeed::Notices,
    Misdeed::Settings,
    Misdeed::Reset,
    Misdeed::Fuzzed,
];

/// When in the life of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// In place of the first answer.
    Start,
    /// Once it is logged in.
    Login,
    /// So many bytes of the server later, where they end a message or not.
    Bytes(usize),
}

/// Which connections, counted from 1 as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// This one alone.
    Only(usize),
    /// This one and all after it.
    From(usize),
}

/// What is done when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    /// What.
    pub misdeed: Misdeed,
    /// When.
    pub moment: Moment,
    /// To which connections.
    pub which: Which,
    /// Of what is drawn.
    pub seed: u64,
}

impl Strike {
    fn hits(&self, number: usize) -> bool {
        match self.which {
            Which::Only(one) => number == one,
            Which::From(first) => number >= first,
        }
    }
}

/// A server in front of a server. Ends with all its threads when dropped.
pub struct Hostile {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    strike: Option<Strike>,
    socket: PathBuf,
    connections: AtomicUsize,
    struck: OnceLock<Instant>,
    over: AtomicBool,
}

/// Pause between looks at whether it is over.
const LOOK: Duration = Duration::from_millis(50);
/// Longest message of the server in the middle; those here are small.
const LONGEST: usize = 1 << 24;

impl Hostile {
    /// Listens on 127.0.0.1 in front of the server at a unix socket.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn before(socket: &Path, strike: Option<Strike>) -> io::Result<Hostile> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            strike,
            socket: socket.to_owned(),
            connections: AtomicUsize::new(0),
            struck: OnceLock::new(),
            over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &theirs));
        Ok(Hostile { address, shared, accepting: Some(accepting) })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Connections so far, requests to cancel included.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// When it struck first.
    pub fn struck(&self) -> Option<Instant> {
        self.shared.struck.get().copied()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(accepting) = self.accepting.take() {
            // One that panicked serves nobody any more.
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut serving = Vec::new();
    while !shared.is_over() {
        match listener.accept() {
            Ok((client, _)) => {
                let number = shared.connections.fetch_add(1, Ordering::AcqRel) + 1;
                let shared = Arc::clone(shared);
                serving.push(std::thread::spawn(move || {
                    // A connection that breaks is what this is for.
                    let _ = serve(&client, number, &shared);
                }));
            }
            Err(_) => std::thread::sleep(LOOK / 5),
        }
    }
    for one in serving {
        let _ = one.join();
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// One connection of a client with the server.
fn serve(client: &TcpStream, number: usize, shared: &Arc<Shared>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(LOOK))?;
    client.set_write_timeout(Some(LOOK))?;
    client.set_nodelay(true)?;
    let server = UnixStream::connect(&shared.socket)?;
    server.set_read_timeout(Some(LOOK))?;
    let gone = Arc::new(AtomicBool::new(false));
    let asking = {
        let (from, to, gone, shared) =
            (client.try_clone()?, server.try_clone()?, Arc::clone(&gone), Arc::clone(shared));
        std::thread::spawn(move || {
            let _ = pass_on(&from, &to, &gone, &shared);
            gone.store(true, Ordering::Release);
            let _ = to.shutdown(std::net::Shutdown::Both);
        })
    };
    let strike = shared.strike.filter(|strike| strike.hits(number));
    let mut line = Line {
        client,
        server: &server,
        gone: &gone,
        shared,
        dribbles: false,
        one_of: strike.map_or(1, |strike| [4, 12, 40][strike.seed as usize % 3]),
        draw: Draw(strike.map_or(0, |strike| strike.seed) ^ number as u64),
    };
    let answered = line.answer(strike);
    let _ = client.shutdown(std::net::Shutdown::Both);
    gone.store(true, Ordering::Release);
    let _ = asking.join();
    answered
}

/// What the client says, to the server.
fn pass_on(
    mut from: &TcpStream,
    mut to: &UnixStream,
    gone: &AtomicBool,
    shared: &Shared,
) -> io::Result<()> {
    let mut chunk = [0; 16 * 1024];
    while !gone.load(Ordering::Acquire) && !shared.is_over() {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&chunk[..count])?,
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The way from server to client.
struct Line<'a> {
    client: &'a TcpStream,
    server: &'a UnixStream,
    gone: &'a AtomicBool,
    shared: &'a Shared,
    dribbles: bool,
    /// Of so many messages one is changed, where messages are.
    one_of: usize,
    draw: Draw,
}

impl Line<'_> {
    fn answer(&mut self, strike: Option<Strike>) -> io::Result<()> {
        let mut logged_in = false;
        let mut since_login = 0;
        let mut fuzzes = false;
        loop {
            let Some(mut message) = self.message()? else { return Ok(()) };
            if let Some(strike) = strike.filter(|_| !self.dribbles && !fuzzes) {
                let due = match strike.moment {
                    Moment::Start => true,
                    Moment::Login => logged_in,
                    Moment::Bytes(wanted) => logged_in && since_login + message.len() > wanted,
                };
                // Rows without end are an answer that does not end.
                let rows = matches!(strike.misdeed, Misdeed::Rows | Misdeed::WideRows);
                let fits = !rows || strike.moment == Moment::Start || message[0] == b'D';
                if due && fits {
                    let _ = self.shared.struck.set(Instant::now());
                    match strike.misdeed {
                        Misdeed::Dribble => self.dribbles = true,
                        Misdeed::Fuzzed => fuzzes = true,
                        misdeed => {
                            let passed = match strike.moment {
                                Moment::Bytes(wanted) => wanted.saturating_sub(since_login),
                                _ => 0,
                            };
                            return self.misbehave(misdeed, &message, passed, logged_in);
                        }
                    }
                }
            }
            if fuzzes {
                self.fuzz(&mut message);
            }
            self.send(&message)?;
            if logged_in {
                since_login += message.len();
            }
            logged_in |= message.first() == Some(&b'Z');
        }
    }

    /// The next message of the server, whole; `None` at the end.
    fn message(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut message = vec![0; 5];
        if !self.fill(&mut message)? {
            return Ok(None);
        }
        let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]) as usize;
        if !(4..LONGEST).contains(&length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        message.resize(length + 1, 0);
        Ok(self.fill(&mut message[5..])?.then_some(message))
    }

    fn fill(&mut self, mut into: &mut [u8]) -> io::Result<bool> {
        while !into.is_empty() {
            if self.is_over() {
                return Ok(false);
            }
            match (&mut &*self.server).read(into) {
                Ok(0) => return Ok(false),
                Ok(count) => into = &mut into[count..],
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn is_over(&self) -> bool {
        self.gone.load(Ordering::Acquire) || self.shared.is_over()
    }

    /// Sends as fast as is taken, or one byte a second.
    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.is_over() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.dribbles {
                self.wait(Duration::from_secs(1));
            }
            let piece = if self.dribbles { &bytes[..1] } else { bytes };
            match (&mut &*self.client).write(piece) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_wait(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_over() {
            std::thread::sleep(LOOK);
        }
    }

    fn wait_for_the_end(&self) {
        self.wait(Duration::from_secs(3600));
    }

    /// Does it in place of `message`, of which so many bytes may be passed on before.
    fn misbehave(
        &mut self,
        misdeed: Misdeed,
        message: &[u8],
        passed: usize,
        logged_in: bool,
    ) -> io::Result<()> {
        let endless = |line: &mut Self, next: &mut dyn FnMut(u32) -> Vec<u8>| {
            if !logged_in {
                line.send(&framed(b'R', &0_u32.to_be_bytes()))?;
            }
            let mut number = 0_u32;
            loop {
                let mut many = Vec::with_capacity(80 * 1024);
                while many.len() < 64 * 1024 {
                    many.extend(next(number));
                    number = number.wrapping_add(1);
                }
                line.send(&many)?;
            }
        };
        match misdeed {
            Misdeed::Silent => {
                self.send(&message[..passed.min(message.len())])?;
                self.wait_for_the_end();
                Ok(())
            }
            Misdeed::Announced => {
                self.send(b"D\x7f\xff\xff\xff")?;
                self.wait_for_the_end();
                Ok(())
            }
            Misdeed::Gigantic => {
                self.send(b"D\x7f\xff\xff\xff")?;
                loop {
                    self.send(&[0; 64 * 1024])?;
                }
            }
            Misdeed::Half => self.send(&message[..message.len() / 2]),
            Misdeed::Garbage => {
                let garbage: Vec<u8> = (0..4096).map(|_| self.draw.below(256) as u8).collect();
                self.send(&garbage)?;
                self.wait_for_the_end();
                Ok(())
            }
            Misdeed::Rows => {
                let small = framed(b'D', b"\0\x01\0\0\0\x01x");
                let row = if message[0] == b'D' { message.to_vec() } else { small };
                endless(self, &mut |_| row.clone())
            }
            Misdeed::WideRows => {
                let columns = [[0x75, 0x30].as_slice(), &[0xff; 4 * 30_000]].concat();
                let row = framed(b'D', &columns);
                endless(self, &mut |_| row.clone())
            }
            Misdeed::Notices => {
                let notice = framed(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0");
                endless(self, &mut |_| notice.clone())
            }
            Misdeed::Settings => {
                endless(self, &mut |number| framed(b'S', format!("n{number}\0v\0").as_bytes()))
            }
            Misdeed::Reset => {
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                // SAFETY: the descriptor is open, and the pointer and length are those of a
                // `linger`, as SO_LINGER takes it.
                unsafe {
                    libc::setsockopt(
                        self.client.as_raw_fd(),
                        libc::SOL_SOCKET,
                        libc::SO_LINGER,
                        (&raw const linger).cast(),
                        size_of::<libc::linger>() as libc::socklen_t,
                    )
                };
                Ok(())
            }
            Misdeed::Dribble | Misdeed::Fuzzed => Ok(()),
        }
    }

    /// Changes some of the messages that hold what was asked for.
    fn fuzz(&mut self, message: &mut Vec<u8>) {
        let tag = message[0];
        if !b"DTCE".contains(&tag) || self.draw.below(self.one_of) > 0 {
            return;
        }
        let mut body = message.split_off(5);
        match (tag, self.draw.below(4)) {
            (b'D', 0) => drop_column(&mut body),
            (b'D', 1) => put_null(&mut body, &mut self.draw),
            (b'T', 0 | 1) => change_type(&mut body, &mut self.draw),
            (b'T', 2) => {
                // One column fewer than there are.
                if let [high, low, ..] = body.as_mut_slice() {
                    let count = u16::from_be_bytes([*high, *low]).saturating_sub(1);
                    [*high, *low] = count.to_be_bytes();
                }
            }
            _ if !body.is_empty() => {
                for _ in 0..=self.draw.below(4) {
                    let place = self.draw.below(body.len());
                    body[place] = self.draw.below(256) as u8;
                }
            }
            _ => {}
        }
        *message = framed(tag, &body);
    }
}

/// A message.
fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&[tag], length.to_be_bytes().as_slice(), body].concat()
}

/// Where each value of a row begins with its length, and where it ends.
fn values(row: &[u8]) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    let mut at = 2;
    while let Some(length) = row.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        places.push((at, at + 4 + length));
        at += 4 + length;
    }
    places
}

fn drop_column(row: &mut Vec<u8>) {
    if let Some((begin, _)) = values(row).pop() {
        row.truncate(begin);
        if let [high, low, ..] = row.as_mut_slice() {
            let count = u16::from_be_bytes([*high, *low]).saturating_sub(1);
            [*high, *low] = count.to_be_bytes();
        }
    }
}

fn put_null(row: &mut Vec<u8>, draw: &mut Draw) {
    let values = values(row);
    if values.is_empty() {
        return;
    }
    let (begin, end) = values[draw.below(values.len())];
    let end = end.min(row.len());
    row.splice(begin..end, [0xff; 4]);
}

/// Gives one column of a description another type: text, numbers, arrays, or none there is.
fn change_type(description: &mut [u8], draw: &mut Draw) {
    const TYPES: [u32; 8] = [25, 20, 23, 16, 1009, 701, 1700, 999_999];
    let mut places = Vec::new();
    let mut at = 2;
    while let Some(end) = description.get(at..).and_then(|rest| rest.iter().position(|b| *b == 0)) {
        places.push(at + end + 7);
        at += end + 19;
    }
    if places.is_empty() {
        return;
    }
    let place = places[draw.below(places.len())];
    if let Some(of) = description.get_mut(place..place + 4) {
        of.copy_from_slice(&TYPES[draw.below(TYPES.len())].to_be_bytes());
    }
}

/// Numbers that are the same for the same seed (SplitMix64).
pub struct Draw(pub u64);

impl Draw {
    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }
}
