//! Bytes of clients that are random, or nearly what they should be.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, RngExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use walwright_wire::backend::{self, ErrorFields};

use crate::raw_client::{Socket, cancel_request, message, startup};

/// A client that has said all waits so long for an answer.
const QUIET: Duration = Duration::from_millis(15);
/// Longest that an attack may take.
const LONGEST: Duration = Duration::from_secs(10);
/// Lengths that are at a border.
const LENGTHS: [u32; 12] =
    [0, 1, 3, 4, 5, 8, 9_999, 10_001, 0x3fff_ffff, 0x4000_0000, 0x7fff_ffff, u32::MAX];
/// Longest body of a message of random bytes.
const LONGEST_BODY: usize = 20_000;

/// How far a client is when it begins to say what it should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has said nothing.
    Startup,
    /// It asked for TLS.
    Encryption,
    /// It was asked to prove who it is.
    Proof,
    /// It is let in.
    Ready,
    /// It is in a transaction.
    Transaction,
    /// It copies in.
    Copy,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 6] = [
        Stage::Startup,
        Stage::Encryption,
        Stage::Proof,
        Stage::Ready,
        Stage::Transaction,
        Stage::Copy,
    ];

    /// Whether the client is not known yet.
    pub fn is_early(self) -> bool {
        matches!(self, Stage::Startup | Stage::Encryption | Stage::Proof)
    }
}

/// Makes bytes that are random, or nearly what they should be.
pub struct Fuzz(pub Xoshiro256PlusPlus);

impl Fuzz {
    /// So many random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    fn below(&mut self, most: usize) -> usize {
        self.0.random_range(0..most.max(1))
    }

    /// Changes bytes in one way.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let end = (at + 1 + self.below(40)).min(bytes.len());
        match self.below(8) {
            _ if bytes.is_empty() => {}
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.0.random(),
            2 => {
                let count = 1 + self.below(40);
                let more = self.bytes(count);
                bytes.splice(at..at, more);
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            5 | 6 => {
                let length = LENGTHS[self.below(LENGTHS.len())].to_be_bytes();
                for (byte, of) in bytes[at..].iter_mut().zip(length) {
                    *byte = of;
                }
            }
            _ => bytes.truncate(at),
        }
    }

    /// What a client says at a stage.
    pub fn attack(&mut self, stage: Stage) -> Attack {
        let mut first = Vec::new();
        let mut bytes = match stage {
            Stage::Startup => match self.below(5) {
                0 => startup("postgres"),
                1 => [&[0, 0, 0, 8][..], &80_877_104_u32.to_be_bytes(), &startup("x")].concat(),
                2 => {
                    let (process, length) = (self.0.random(), self.below(300));
                    cancel_request(process, &self.bytes(length))
                }
                3 => {
                    let length = self.below(9000);
                    let length_field = (length as u32 + 8).to_be_bytes();
                    [&length_field[..], &[0, 3, 0, 0], &self.bytes(length)].concat()
                }
                _ => {
                    let length = 1 + self.below(2000);
                    self.bytes(length)
                }
            },
            Stage::Encryption => {
                first = [&[0, 0, 0, 8][..], &80_877_103_u32.to_be_bytes()].concat();
                if self.below(3) == 0 {
                    // TLS at once.
                    first.clear();
                }
                // A record of a handshake, and in it a ClientHello.
                let length = self.below(4000);
                let mut hello = vec![22, 3, 1];
                hello.extend((length as u16 + 6).to_be_bytes());
                hello.extend([1, 0]);
                hello.extend((length as u16).to_be_bytes());
                hello.extend([3, 3]);
                hello.extend(self.bytes(length));
                hello
            }
            Stage::Proof => {
                first = startup("postgres");
                let first_message = b"SCRAM-SHA-256\0\0\0\0\x20n,,n=,r=fyko+d2lbbFgONRv9qkxdawL";
                let mut proof = message(b'p', first_message);
                proof.extend(message(b'p', b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL,p=AAAA"));
                let length = self.below(5000);
                proof.extend(message(b'p', &self.bytes(length)));
                proof
            }
            Stage::Ready => self.script(),
            Stage::Transaction => {
                first = query("BEGIN");
                self.script()
            }
            Stage::Copy => {
                first = query("COPY scratch FROM STDIN");
                let mut rows = Vec::new();
                for _ in 0..self.below(6) {
                    let length = self.below(LONGEST_BODY);
                    rows.extend(message(b'd', &self.bytes(length)));
                    rows.extend(message(b'd', b"1\tx\n2\ty\n"));
                }
                let tag = b"cfSHQ"[self.below(5)];
                rows.extend(message(tag, b"no more\0"));
                rows.extend(self.script());
                rows
            }
        };
        for _ in 0..self.below(4) {
            self.mutate(&mut bytes);
        }
        if self.below(3) > 0 && !stage.is_early() {
            bytes.extend(message(b'S', b""));
            bytes.extend(message(b'X', b""));
        }
        Attack { first, bytes }
    }

    /// Messages of a client that is let in, each as it should be or with a random body.
    fn script(&mut self) -> Vec<u8> {
        let mut script = Vec::new();
        for _ in 0..1 + self.below(12) {
            let most = if self.below(4) == 0 { LONGEST_BODY } else { 60 };
            let length = self.below(most);
            let part = match self.below(12) {
                0 => query("INSERT INTO scratch VALUES (1, 'x') RETURNING n"),
                1 => query("SELECT n FROM scratch LIMIT 3"),
                2 => query("BEGIN; SELECT 1 / 0; COMMIT"),
                3 => query("SET work_mem = '1MB'"),
                4 => [
                    message(b'P', b"a\0SELECT $1::int\0\0\x01\0\0\0\x17"),
                    message(b'D', b"Sa\0"),
                    message(b'B', b"\0a\0\0\0\0\x01\0\0\0\x0242\0\0"),
                    message(b'E', b"\0\0\0\0\0"),
                    message(b'C', b"Sa\0"),
                    message(b'S', b""),
                ]
                .concat(),
                5 => [
                    message(b'P', b"\0INSERT INTO scratch VALUES (2, 'y')\0\0\0"),
                    message(b'B', b"p\0\0\0\0\0\0\0\0"),
                    message(b'H', b""),
                    message(b'E', b"p\0\0\0\0\0"),
                    message(b'S', b""),
                ]
                .concat(),
                6 => query("COPY scratch TO STDOUT"),
                7 => message(b'F', b"\0\0\x04\xd2\0\0\0\0\0\0"),
                8 => query(";"),
                9 => {
                    let text = self.bytes(length).into_iter();
                    let text: Vec<u8> = text.map(|byte| byte.clamp(1, 126)).collect();
                    message(b'Q', &[&text[..], b"\0"].concat())
                }
                _ => {
                    let tag = b"BCDEFHPQSdcfp"[self.below(13)];
                    message(tag, &self.bytes(length))
                }
            };
            script.extend(part);
        }
        script
    }
}

fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

/// What a client says.
#[derive(Debug)]
pub struct Attack {
    /// As it should be; what follows waits for an answer to it.
    first: Vec<u8>,
    bytes: Vec<u8>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Bytes that were sent.
    pub sent: u64,
    /// Errors by SQLSTATE.
    pub codes: BTreeMap<String, u64>,
    /// Whether the connection was closed without an error, and nobody asked for it.
    pub silent: bool,
    /// Whether it took too long.
    pub hung: bool,
}

impl Attack {
    /// Says it on a connection that is let in as far as its stage wants.
    pub async fn run(&self, socket: impl Socket + 'static) -> Outcome {
        let mut outcome = Outcome::default();
        let lasts = timeout(LONGEST, self.say(socket, &mut outcome)).await;
        outcome.hung = lasts.is_err();
        outcome
    }

    async fn say(&self, socket: impl Socket + 'static, outcome: &mut Outcome) {
        let (mut from, mut to) = tokio::io::split(socket);
        let mut heard = Vec::new();
        let mut buffer = vec![0; 16 * 1024];
        if !self.first.is_empty() {
            if to.write_all(&self.first).await.is_err() {
                return;
            }
            outcome.sent += self.first.len() as u64;
            if let Ok(Ok(count)) = timeout(LONGEST, from.read(&mut buffer)).await {
                heard.extend_from_slice(&buffer[..count]);
            }
        }
        let mut closed = false;
        {
            let sends = async {
                // Whoever closes has heard enough.
                let sent = to.write_all(&self.bytes).await;
                let _ = to.flush().await;
                sent
            };
            tokio::pin!(sends);
            let mut all_sent = false;
            loop {
                tokio::select! {
                    sent = &mut sends, if !all_sent => {
                        all_sent = true;
                        if sent.is_ok() {
                            outcome.sent += self.bytes.len() as u64;
                        }
                    }
                    read = timeout(QUIET, from.read(&mut buffer)) => match read {
                        Ok(Ok(count)) if count > 0 => heard.extend_from_slice(&buffer[..count]),
                        Ok(_) => {
                            closed = true;
                            break;
                        }
                        Err(_) if all_sent => break,
                        Err(_) => {}
                    },
                }
            }
        }
        let last = codes(&heard, &mut outcome.codes);
        let leaves = self.first.iter().chain(&self.bytes).any(|&byte| byte == b'X');
        outcome.silent = closed && !leaves && !last && !self.may_close();
    }
}

impl Attack {
    /// Whether a server closes without a word: after a cancel request, where the first packet is
    /// too short or too long for one, and where TLS or GSSAPI was asked for, which is answered by
    /// less than a message.
    fn may_close(&self) -> bool {
        const REQUEST: &[u8] = &[0x04, 0xd2, 0x16];
        const HANDSHAKE: u8 = 22;
        let length = self.bytes.first_chunk().map(|length| u32::from_be_bytes(*length));
        self.first.is_empty()
            && (self.bytes.first() == Some(&HANDSHAKE)
                || length.is_some_and(|length| !(8..=10_000).contains(&length))
                || self.bytes.windows(REQUEST.len()).any(|of| of == REQUEST))
    }
}

/// Counts errors in what was heard: whether the last message was one.
pub fn codes(mut heard: &[u8], codes: &mut BTreeMap<String, u64>) -> bool {
    let mut last = false;
    while let Some((&[tag, a, b, c, d], rest)) = heard.split_first_chunk::<5>() {
        let length = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(4);
        let Some(body) = rest.get(..length) else { break };
        last = tag == backend::ERROR_RESPONSE;
        if last {
            let code = ErrorFields::parse(body).map_or("?".to_owned(), |said| said.code);
            *codes.entry(code).or_default() += 1;
        }
        heard = &rest[length..];
    }
    last
}
