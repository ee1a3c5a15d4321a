//! Clients that send without waiting for answers, and copy in and out between statements.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::common::Testbed;

/// Clients that send at a time.
const CLIENTS: u64 = 24;
/// What each sends in one go, and how often.
const TOGETHER: usize = 12;
const TIMES: usize = 40;
/// Tokens of a client begin at so many times its number.
const TOKENS: i64 = 1_000_000;

/// A client of bytes alone, logged in.
pub struct Client {
    stream: TcpStream,
    /// Its process, as it was told.
    process: u32,
    /// What it has to send.
    out: Vec<u8>,
    /// What it has to be answered, in order.
    expected: VecDeque<Answer>,
    next_token: i64,
    random: Xoshiro256PlusPlus,
    /// Tokens that are in the table afterwards.
    stays: i64,
}

/// What tells of an answer that it is the right one: all its rows, commands and errors.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows, and lines that were copied out.
    pub rows: Vec<String>,
    /// Command tags.
    pub commands: Vec<String>,
    /// SQLSTATEs.
    pub errors: Vec<String>,
    /// How often it was said that a client may copy in.
    copies_in: usize,
    /// Processes whose notifications came.
    notifiers: Vec<u32>,
}

impl Answer {
    fn of(rows: impl IntoIterator<Item = i64>, command: &str) -> Answer {
        let rows = rows.into_iter().map(|row| row.to_string()).collect();
        Answer { rows, commands: vec![command.to_owned()], ..Answer::default() }
    }

    fn error(code: &str) -> Answer {
        Answer { errors: vec![code.to_owned()], ..Answer::default() }
    }

    /// The same where a client copied in before.
    fn copying(self) -> Answer {
        Answer { copies_in: self.copies_in + 1, ..self }
    }

    /// This and what follows it before the same Sync.
    fn then(mut self, next: Answer) -> Answer {
        self.rows.extend(next.rows);
        self.commands.extend(next.commands);
        self.errors.extend(next.errors);
        self.copies_in += next.copies_in;
        self
    }
}

impl Client {
    /// A client with a number of its own.
    pub fn connect(port: u16, number: u64) -> Client {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        stream.set_nodelay(true).expect("set");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let startup = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        let length = (startup.len() as u32 + 4).to_be_bytes();
        stream.write_all(&[&length[..], startup].concat()).expect("sent");
        let random = Xoshiro256PlusPlus::seed_from_u64(number);
        let next_token = number as i64 * TOKENS;
        let (out, expected) = (Vec::new(), VecDeque::new());
        let mut client = Client { stream, process: 0, out, expected, next_token, random, stays: 0 };
        client.answer();
        client
    }

    /// The gateway's port.
    pub fn port(&self) -> u16 {
        self.stream.peer_addr().expect("connected").port()
    }

    /// Adds a message to what is sent.
    pub fn message(&mut self, tag: u8, body: &[u8]) {
        self.out.push(tag);
        self.out.extend((body.len() as u32 + 4).to_be_bytes());
        self.out.extend(body);
    }

    /// Adds a simple Query.
    pub fn query(&mut self, sql: &str) {
        self.message(b'Q', format!("{sql}\0").as_bytes());
    }

    /// Parse, Bind and Execute of a statement of this name.
    pub fn execute(&mut self, name: &str, sql: &str) {
        self.message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes());
        self.message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
        self.message(b'E', b"\0\0\0\0\0");
        if !name.is_empty() {
            self.message(b'C', format!("S{name}\0").as_bytes());
        }
    }

    /// Adds a Sync.
    pub fn sync(&mut self) {
        self.message(b'S', b"");
    }

    /// Parse and Describe of a statement, which the server answers at once or with what follows.
    fn prepare(&mut self, name: &str, sql: &str) {
        self.message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes());
        self.message(b'D', format!("S{name}\0").as_bytes());
        if self.random.random() {
            self.message(b'H', b"");
        }
    }

    fn tokens(&mut self, count: i64) -> std::ops::Range<i64> {
        let first = self.next_token;
        self.next_token += count;
        first..self.next_token
    }

    /// Sends what is copied in, in pieces that need not end where lines do.
    fn copy(&mut self, lines: &str) {
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(self.random.random_range(1..=rest.len()));
            self.message(b'd', piece);
            rest = after;
        }
    }

    /// Adds one thing to what is sent.
    fn add(&mut self) {
        let count = self.random.random_range(1..60);
        let tokens = self.tokens(count);
        let token = tokens.start;
        let insert = format!("INSERT INTO t VALUES ({token}) RETURNING token");
        let out = format!("COPY (SELECT generate_series({token}, {})) TO STDOUT", tokens.end - 1);
        let (lines, bad) = (lines(tokens.clone()), format!("{token}\nnone\n"));
        let named: bool = self.random.random();
        let name = if named { "own" } else { "" };
        // What is not closed keeps its name.
        let kept = if named { format!("kept {token}") } else { String::new() };
        let answer = match self.random.random_range(0..16) {
            0 => {
                self.stays += 1;
                self.query(&insert);
                Answer::of([token], "INSERT 0 1")
            }
            1 => {
                self.stays += 1;
                self.execute(name, &insert);
                self.sync();
                Answer::of([token], "INSERT 0 1")
            }
            2 => {
                self.execute(name, &format!("SELECT generate_series({token}, {token} + 2)"));
                self.sync();
                Answer::of(token..token + 3, "SELECT 3")
            }
            // What is behind an error is skipped, and what is before it taken back.
            3 => {
                self.execute("", &insert);
                self.execute("", "SELECT 1 / 0");
                self.execute("", &insert);
                self.sync();
                Answer::of([token], "INSERT 0 1").then(Answer::error("22012"))
            }
            4 => {
                self.query(&format!("{insert}; SELECT 1 / 0"));
                Answer::of([token], "INSERT 0 1").then(Answer::error("22012"))
            }
            5 => {
                self.query(&out);
                Answer::of(tokens, &format!("COPY {count}"))
            }
            6 => {
                self.stays += 1;
                self.execute(name, &out);
                self.execute("", &insert);
                self.sync();
                Answer::of(tokens, &format!("COPY {count}")).then(Answer::of([token], "INSERT 0 1"))
            }
            7 => {
                self.stays += count;
                self.query("COPY t FROM STDIN");
                self.copy(&lines);
                self.message(b'c', b"");
                Answer::of([], &format!("COPY {count}")).copying()
            }
            8 => {
                self.query("COPY t FROM STDIN");
                self.copy(&lines);
                self.message(b'f', b"no more\0");
                Answer::error("57014").copying()
            }
            9 => {
                self.query("COPY t FROM STDIN");
                self.copy(&bad);
                self.message(b'c', b"");
                Answer::error("22P02").copying()
            }
            // Nobody copies in: what is sent in vain is dropped.
            10 => {
                self.query("COPY nowhere FROM STDIN");
                self.copy(&lines);
                self.message(b'c', b"");
                Answer::error("42P01")
            }
            11 => {
                let fails = self.random.random_range(0..3) == 0;
                self.stays += if fails { 0 } else { count };
                self.execute("", "COPY t FROM STDIN");
                // The server is asked for its word, is told to go on, or neither.
                match self.random.random_range(0..3) {
                    0 => self.message(b'H', b""),
                    1 => self.sync(),
                    _ => {}
                }
                self.copy(if fails { &bad } else { &lines });
                self.message(b'c', b"");
                self.sync();
                match fails {
                    true => Answer::error("22P02").copying(),
                    false => Answer::of([], &format!("COPY {count}")).copying(),
                }
            }
            // A Query ends what is prepared before it as a Sync does.
            12 => {
                self.stays += 1;
                self.prepare(&kept, &insert);
                self.query(&insert);
                Answer::of([token], "INSERT 0 1")
            }
            13 => {
                self.prepare(&kept, &insert);
                self.query("SELECT 1 / 0");
                Answer::error("22012")
            }
            // After an error it is skipped too.
            14 => {
                self.prepare(name, "SELECT nothing FROM nowhere");
                self.query(&insert);
                self.query(&insert);
                self.sync();
                Answer::error("42P01")
            }
            _ => {
                self.query("BEGIN");
                self.expected.push_back(Answer::of([], "BEGIN"));
                self.query(&insert);
                self.expected.push_back(Answer::of([token], "INSERT 0 1"));
                self.query("COPY t FROM STDIN");
                self.copy(&format!("{}\n", token + TOKENS / 2));
                self.message(b'c', b"");
                self.expected.push_back(Answer::of([], "COPY 1").copying());
                let commits: bool = self.random.random();
                self.stays += if commits { 2 } else { 0 };
                let end = if commits { "COMMIT" } else { "ROLLBACK" };
                self.query(end);
                Answer::of([], end)
            }
        };
        self.expected.push_back(answer);
    }

    /// Sends what was added.
    pub fn send(&mut self) {
        self.stream.write_all(&self.out).expect("sent");
        self.out.clear();
    }

    /// Reads a message: its type and what it says.
    pub fn receive(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).expect("an answer");
        let [tag, length @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        self.stream.read_exact(&mut body).expect("all of it");
        (tag, body)
    }

    /// Reads an answer up to its ReadyForQuery.
    pub fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            let (tag, body) = self.receive();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            match tag {
                b'Z' => return answer,
                b'K' => {
                    self.process = u32::from_be_bytes(*body.first_chunk().expect("a process"));
                }
                b'A' => {
                    let process = u32::from_be_bytes(*body.first_chunk().expect("a process"));
                    answer.notifiers.push(process);
                }
                b'D' => answer.rows.push(text(&body[6..])),
                b'd' => answer.rows.push(text(&body)),
                b'C' => answer.commands.push(text(&body[..body.len() - 1])),
                b'G' => answer.copies_in += 1,
                b'E' => {
                    let mut fields = body.split(|byte| *byte == 0);
                    let code = fields.find(|field| field.first() == Some(&b'C'));
                    answer.errors.push(text(&code.expect("it has a code")[1..]));
                }
                _ => {}
            }
        }
    }
}

fn lines(tokens: std::ops::Range<i64>) -> String {
    tokens.map(|token| format!("{token}\n")).collect()
}

/// Sends, reads every answer and compares it with what was sent; how many tokens stay.
fn live(port: u16, number: u64) -> i64 {
    let mut client = Client::connect(port, number);
    for _ in 0..TIMES {
        for _ in 0..TOGETHER {
            client.add();
        }
        client.send();
        while let Some(expected) = client.expected.pop_front() {
            assert_eq!(client.answer(), expected, "client {number}");
        }
    }
    client.stays
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_pipeline_and_copy_get_their_own_answers() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 6);
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (token bigint)").await.unwrap();
    let port = testbed.port();
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|number| tokio::task::spawn_blocking(move || (number, live(port, number))))
        .collect();
    for client in clients {
        let (number, stays) = client.await.expect("every answer is right");
        let sql = "SELECT count(*), count(DISTINCT token) FROM t WHERE token / $1 = $2";
        let row = direct.query_one(sql, &[&TOKENS, &(number as i64)]).await.unwrap();
        let counts: [i64; 2] = [row.get(0), row.get(1)];
        assert_eq!(counts, [stays; 2], "client {number}");
    }
}

/// Parse to CopyDone in one go, before the Sync and without a Flush.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_copied_before_the_sync_is_copied() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (token bigint)").await.unwrap();
    let port = testbed.port();
    let copied = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(port, 1);
        for (sql, done, expected) in [
            ("COPY t FROM STDIN", b'c', Answer::of([], "COPY 2").copying()),
            ("COPY t FROM STDIN", b'f', Answer::error("57014").copying()),
            ("COPY nowhere FROM STDIN", b'c', Answer::error("42P01")),
            // The server drops what nobody asked for.
            ("SELECT 7", b'c', Answer::of([7], "SELECT 1")),
        ] {
            client.execute("", sql);
            client.copy("1\n2\n");
            let why: &[u8] = if done == b'f' { b"no more\0" } else { b"" };
            client.message(done, why);
            client.sync();
            client.send();
            assert_eq!(client.answer(), expected, "{sql}");
        }
    });
    copied.await.expect("every answer is right");
    let row = direct.query_one("SELECT count(*) FROM t", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 2);
}

/// Drivers tell connections apart by it, and applications end those of others by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_has_a_process_of_its_own_that_no_server_has() {
    let testbed = Testbed::new(&[], |options| options.workers = 2);
    let port = testbed.port();
    let told = tokio::task::spawn_blocking(move || {
        (0..20).map(|number| Client::connect(port, number).process).collect::<Vec<u32>>()
    });
    let mut told = told.await.expect("all are let in");
    assert!(told.iter().all(|process| *process > 1 << 22 && i32::try_from(*process).is_ok()));
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), 20);
}

/// Drivers and applications leave out what they sent themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_notifies_itself_is_told_its_own_process() {
    let testbed = Testbed::new(&[], |_| {});
    let port = testbed.port();
    let ended = tokio::task::spawn_blocking(move || {
        let [mut listener, mut other] = [1, 2].map(|number| Client::connect(port, number));
        let ask = |client: &mut Client, sql: &str| {
            client.query(sql);
            client.send();
            let answer = client.answer();
            assert_eq!(answer.errors, [""; 0], "{sql}");
            answer.notifiers
        };
        assert_eq!(ask(&mut listener, "LISTEN news"), [0; 0]);
        assert_eq!(ask(&mut listener, "NOTIFY news"), [listener.process]);
        ask(&mut other, "NOTIFY news");
        let heard = (0..).map(|_| ask(&mut listener, "SELECT 1")).find(|heard| !heard.is_empty());
        let heard = heard.expect("it comes");
        assert!(heard.len() == 1 && heard[0] != listener.process, "{heard:?}");
        assert_ne!(heard[0], other.process);
    });
    ended.await.expect("both went on");
}

/// Who keeps statements under names that it gives hears that a name is taken, whichever session
/// its statement is on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_taken_until_its_statement_is_deallocated() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 2);
    let port = testbed.port();
    let ended = tokio::task::spawn_blocking(move || {
        let [mut client, mut other] = [1, 2].map(|number| Client::connect(port, number));
        let parse = |client: &mut Client, name: &str, sql: &str| {
            client.message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes());
        };
        let bind = |client: &mut Client, name: &str| {
            client.message(b'B', format!("\0{name}\0\0\0\0\0\0\0").as_bytes());
            client.message(b'E', b"\0\0\0\0\0");
        };
        let synced = |client: &mut Client| {
            client.sync();
            client.send();
            client.answer()
        };
        let asked = |client: &mut Client, sql: &str| {
            client.query(sql);
            client.send();
            client.answer()
        };
        parse(&mut client, "a", "SELECT 1");
        assert_eq!(synced(&mut client), Answer::default());
        parse(&mut client, "a", "SELECT 2");
        client.sync();
        client.send();
        let (tag, body) = client.receive();
        let said = b"prepared statement \"a\" already exists\0";
        assert!(tag == b'E' && body.windows(said.len()).any(|part| part == said));
        client.answer();
        parse(&mut client, "a", "SELEC");
        assert_eq!(synced(&mut client), Answer::error("42601"));
        bind(&mut client, "a");
        assert_eq!(synced(&mut client), Answer::of([1], "SELECT 1"));

        // Within one Sync, in a transaction, and where another client has the same statement.
        parse(&mut client, "b", "SELECT 3");
        parse(&mut client, "b", "SELECT 4");
        assert_eq!(synced(&mut client), Answer::error("42P05"));
        parse(&mut other, "a", "SELECT 1");
        assert_eq!(synced(&mut other), Answer::default());
        asked(&mut client, "BEGIN");
        parse(&mut client, "a", "SELECT 5");
        assert_eq!(synced(&mut client), Answer::error("42P05"));
        bind(&mut client, "a");
        assert_eq!(synced(&mut client), Answer::error("25P02"));
        asked(&mut client, "ROLLBACK");

        assert_eq!(asked(&mut client, "DEALLOCATE a").commands, ["DEALLOCATE"]);
        bind(&mut client, "a");
        assert_eq!(synced(&mut client), Answer::error("26000"));
        assert_eq!(asked(&mut client, "DEALLOCATE a"), Answer::error("26000"));
        parse(&mut client, "a", "SELECT 6");
        bind(&mut client, "a");
        assert_eq!(synced(&mut client), Answer::of([6], "SELECT 1"));
        bind(&mut other, "a");
        assert_eq!(synced(&mut other), Answer::of([1], "SELECT 1"));
    });
    ended.await.expect("every answer is right");
}

/// What the gateway answers by itself comes after a Flush too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_is_answered_where_only_the_gateway_knows() {
    let testbed = Testbed::new(&[], |_| {});
    let port = testbed.port();
    let ended = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(port, 1);
        let mut told = |messages: &[(u8, &[u8])]| {
            for (tag, body) in messages {
                client.message(*tag, body);
            }
            client.message(b'H', b"");
            client.send();
            client.receive().0
        };
        let parse: (u8, &[u8]) = (b'P', b"a\0SELECT 1\0\0\0");
        let close: (u8, &[u8]) = (b'C', b"Sa\0");
        for _ in 0..3 {
            assert_eq!(told(&[parse]), b'1');
            assert_eq!(told(&[close]), b'3');
        }
        client.sync();
        client.send();
        assert_eq!(client.answer(), Answer::default());
    });
    ended.await.expect("every answer comes");
}

/// Applications show them while a statement runs, and cancel it then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_comes_while_its_statement_runs() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t ()").await.unwrap();
    direct.batch_execute("BEGIN; LOCK TABLE t").await.unwrap();
    let port = testbed.port();
    let told = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(port, 1);
        client.query("DO $$ BEGIN RAISE NOTICE 'begun'; LOCK TABLE t; END $$");
        client.send();
        let (tag, body) = client.receive();
        assert!(tag == b'N' && body.windows(5).any(|part| part == b"begun"));
        client
    });
    let mut client = told.await.expect("it is told");
    direct.batch_execute("COMMIT").await.unwrap();
    let ended = tokio::task::spawn_blocking(move || client.answer());
    assert_eq!(ended.await.expect("it ends").commands, ["DO"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_forgets_is_prepared_again_and_what_comes_with_it_is_kept() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let port = testbed.port();
    let told = tokio::task::spawn_blocking(move || {
        let (mut client, mut other) = (Client::connect(port, 1), Client::connect(port, 2));
        let told = |client: &mut Client, texts: &[&str]| {
            texts.iter().for_each(|sql| client.execute("", sql));
            client.sync();
            client.send();
            client.answer()
        };
        for forgets in ["DEALLOCATE ALL", "DISCARD ALL"] {
            assert_eq!(told(&mut client, &["SELECT 1"]).commands, ["SELECT 1"]);
            let both = told(&mut client, &[forgets, "SELECT 1"]);
            assert_eq!(both.commands, [forgets, "SELECT 1"], "{both:?}");
            assert_eq!(told(&mut client, &["SELECT 1"]).commands, ["SELECT 1"]);
        }
        let set = told(&mut client, &["DISCARD ALL", "SET search_path = nowhere"]);
        assert_eq!(set.commands, ["DISCARD ALL", "SET"], "{set:?}");
        assert_eq!(told(&mut client, &["SHOW search_path"]).rows, ["nowhere"]);
        drop(client);
        told(&mut other, &["BEGIN", "SHOW search_path", "COMMIT"]).rows
    });
    assert_eq!(told.await.expect("each is answered"), ["\"$user\", public"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_gateway_knows_comes_in_its_place_before_a_long_row() {
    let testbed = Testbed::new(&[], |_| {});
    tokio::task::block_in_place(|| {
        let mut client = Client::connect(testbed.port(), 1);
        client.message(b'P', b"\0SELECT repeat('x', 1000000)\0\0\0");
        client.message(b'B', b"\0\0\0\0\0\0\0\0");
        client.message(b'C', b"Snobody\0");
        client.message(b'E', b"\0\0\0\0\0");
        client.sync();
        client.send();
        let tags: Vec<u8> = (0..6).map(|_| client.receive().0).collect();
        assert_eq!(String::from_utf8_lossy(&tags), "123DCZ");
    });
}

/// The server answers both Syncs where it fails before it reads past the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_with_two_syncs_sent_leaves_others_their_answers() {
    let testbed = Testbed::new(&[], |options| (options.pooling.size, options.workers) = (1, 1));
    testbed
        .direct()
        .await
        .batch_execute(
            "CREATE TABLE t (n int); \
             CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN PERFORM pg_sleep(0.02); RAISE EXCEPTION ''no''; END'; \
             CREATE TRIGGER refuse BEFORE INSERT ON t EXECUTE FUNCTION refuse(); \
             CREATE TABLE log (n bigint)",
        )
        .await
        .unwrap();
    tokio::task::block_in_place(|| {
        let mut others: Vec<Client> =
            (2..8).map(|number| Client::connect(testbed.port(), number)).collect();
        for round in 0..10 {
            let mut copies = Client::connect(testbed.port(), 1);
            copies.message(b'P', b"\0COPY t FROM STDIN\0\0\0");
            copies.message(b'B', b"\0\0\0\0\0\0\0\0");
            copies.message(b'E', b"\0\0\0\0\0");
            copies.sync();
            copies.message(b'd', &b"1\n".repeat(100_000));
            copies.message(b'c', b"");
            copies.sync();
            copies.send();
            for (other, n) in others.iter_mut().zip(0..) {
                other.query(&format!("INSERT INTO log VALUES ({}) RETURNING n", 10 * round + n));
                other.send();
            }
            for (other, n) in others.iter_mut().zip(0..) {
                let rows = [10 * round + n];
                assert_eq!(other.answer(), Answer::of(rows, "INSERT 0 1"), "round {round}");
            }
            assert_eq!(copies.answer().errors, ["P0001"]);
        }
    });
}

/// The server ignores them until the end of what is copied in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_among_what_is_copied_in_ends_nothing() {
    let testbed = Testbed::new(&[], |_| {});
    testbed.direct().await.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    tokio::task::block_in_place(|| {
        let mut client = Client::connect(testbed.port(), 1);
        for (simple, early) in [(true, false), (false, false), (true, true), (false, true)] {
            if simple {
                client.query("COPY t FROM STDIN");
            } else {
                client.execute("", "COPY t FROM STDIN");
                client.sync();
            }
            if early {
                // Before the server has asked for what is copied in.
                client.sync();
            }
            client.send();
            while client.receive().0 != b'G' {}
            client.message(b'd', b"1\n");
            client.sync();
            client.message(b'd', b"2\n");
            client.message(b'H', b"");
            client.message(b'c', b"");
            if !simple {
                client.sync();
            }
            client.send();
            assert_eq!(client.answer().commands, ["COPY 2"], "simple: {simple}, early: {early}");
        }
        client.query("SELECT 1");
        client.send();
        assert_eq!(client.answer(), Answer::of([1], "SELECT 1"));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_more_while_copying_in_is_disconnected_as_the_server_does() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    tokio::task::block_in_place(|| {
        for early in [false, true] {
            let mut client = Client::connect(testbed.port(), 1);
            client.query("COPY t FROM STDIN");
            if !early {
                client.send();
                while client.receive().0 != b'G' {}
            }
            client.query("SELECT 1");
            client.message(b'd', b"1\n");
            client.send();
            let (tag, body) = loop {
                let (tag, body) = client.receive();
                if tag != b'G' {
                    break (tag, body);
                }
            };
            let said = String::from_utf8_lossy(&body).into_owned();
            assert!(tag == b'E' && said.contains("08P01"), "early: {early}: {said}");
            // The one session of the pool is there for others.
            let mut other = Client::connect(testbed.port(), 2);
            other.query("INSERT INTO t VALUES (2)");
            other.send();
            assert_eq!(other.answer().commands, ["INSERT 0 1"], "early: {early}");
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_before_the_end_is_done() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    let rounds = 20;
    tokio::task::block_in_place(|| {
        for round in 0..rounds {
            let mut client = Client::connect(testbed.port(), 1);
            for number in 0..3 {
                if round % 2 == 0 {
                    client.query(&format!("INSERT INTO t VALUES ({number})"));
                } else {
                    client.execute("", &format!("INSERT INTO t VALUES ({number})"));
                    client.sync();
                }
            }
            client.message(b'X', b"");
            client.send();
        }
        // Half closed it is answered, and what it has open is rolled back.
        let mut client = Client::connect(testbed.port(), 1);
        client.query("INSERT INTO t VALUES (3) RETURNING n");
        client.query("BEGIN; INSERT INTO t VALUES (4)");
        client.send();
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.answer().rows, ["3"]);
        assert_eq!(client.answer().commands, ["BEGIN", "INSERT 0 1"]);
        assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "it is closed");
    });
    let all = async {
        let sql = "SELECT count(*) FROM t WHERE n < 3";
        while direct.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < 3 * rounds {}
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("done");
    let others: i64 =
        direct.query_one("SELECT count(*) FROM t WHERE n > 3", &[]).await.unwrap().get(0);
    assert_eq!(others, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_in_the_middle_leaves_no_session_behind() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let (direct, watcher) = (testbed.direct().await, testbed.direct().await);
    direct.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    for says_so in [false, true] {
        for copies in [false, true] {
            if copies {
                direct.batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE").await.unwrap();
            }
            let mut client = tokio::task::block_in_place(|| {
                let mut client = Client::connect(testbed.port(), 1);
                if copies {
                    client.query("COPY t FROM STDIN");
                    client.send();
                } else {
                    client.execute("", "INSERT INTO t VALUES (1)");
                    client.message(b'H', b"");
                    client.send();
                    while client.receive().0 != b'C' {}
                }
                client
            });
            if copies {
                let waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
                while watcher.query_opt(waits, &[]).await.unwrap().is_none() {}
            }
            if says_so {
                client.message(b'X', b"");
                client.send();
            }
            drop(client);
            if copies {
                direct.batch_execute("COMMIT").await.unwrap();
            }
            let other = testbed.client().await;
            // On a session of the same kind, which there is one of.
            let insert = other.batch_execute("BEGIN; INSERT INTO t VALUES (2); COMMIT");
            let insert = tokio::time::timeout(Duration::from_secs(60), insert).await;
            insert.expect("the session is there for others").unwrap();
        }
    }
    let left = "SELECT count(*) FROM t WHERE n = 1";
    assert_eq!(direct.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_before_its_sync_leaves_no_locks_behind() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (n int, a text)").await.unwrap();
    for says_so in [false, true] {
        for copies in [false, true] {
            let mut client = tokio::task::block_in_place(|| {
                let mut client = Client::connect(testbed.port(), 1);
                if copies {
                    client.execute("", "COPY t FROM STDIN");
                    client.message(b'd', b"1\tb\n");
                    client.message(b'c', b"");
                } else {
                    // So much is sent on before its Sync.
                    client.message(b'P', b"\0INSERT INTO t VALUES (1, $1)\0\0\0");
                    for _ in 0..3 {
                        let length = 600_000_u32;
                        let value = vec![b'x'; length as usize];
                        let front = b"\0\0\0\0\0\x01";
                        let all = [front, &length.to_be_bytes()[..], &value, b"\0\0"].concat();
                        client.message(b'B', &all);
                        client.message(b'E', b"\0\0\0\0\0");
                    }
                }
                client.send();
                client
            });
            let holds = "SELECT FROM pg_locks WHERE relation = 't'::regclass \
                         AND mode = 'RowExclusiveLock'";
            while direct.query(holds, &[]).await.unwrap().is_empty() {}
            if says_so {
                client.message(b'X', b"");
                client.send();
            }
            drop(client);
            let gone = async { while !direct.query(holds, &[]).await.unwrap().is_empty() {} };
            let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
            gone.unwrap_or_else(|_| panic!("says so: {says_so}, copies: {copies}"));
        }
    }
    let left = "SELECT count(*) FROM t";
    assert_eq!(direct.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_copies_of_one_query_are_done_before_the_end() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (n int); CREATE TABLE u (n int)").await.unwrap();
    tokio::task::block_in_place(|| {
        let mut client = Client::connect(testbed.port(), 1);
        client.query("COPY t FROM STDIN; COPY u FROM STDIN");
        for line in [b"1\n", b"2\n"] {
            client.message(b'd', line);
            client.message(b'c', b"");
        }
        client.message(b'X', b"");
        client.send();
        // The same in one unit of the extended protocol.
        let mut client = Client::connect(testbed.port(), 2);
        for copy in ["COPY t FROM STDIN", "COPY u FROM STDIN"] {
            client.execute("", copy);
            client.message(b'd', b"3\n");
            client.message(b'c', b"");
        }
        client.sync();
        client.send();
        assert_eq!(client.answer().commands, ["COPY 1", "COPY 1"]);
    });
    let done = async {
        let sql = "SELECT count(*) FROM (TABLE t UNION ALL TABLE u)";
        while direct.query_one(&format!("{sql} AS rows"), &[]).await.unwrap().get::<_, i64>(0) < 4 {
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done).await.expect("both are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_exposed_when_all_has_ended() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    testbed.direct().await.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    let mut all = Vec::new();
    for number in 0..8 {
        let port = testbed.port();
        all.push(tokio::task::spawn_blocking(move || {
            let mut client = Client::connect(port, number);
            for round in 0..60 {
                // Alone and shared, in turn and several in one go.
                let units = 1 + (round + number) % 4;
                for unit in 0..units {
                    if (unit + number) % 2 == 0 {
                        client.query("INSERT INTO t VALUES (1)");
                    } else {
                        client.query("BEGIN; INSERT INTO t VALUES (2); COMMIT");
                    }
                }
                client.send();
                for _ in 0..units {
                    assert_eq!(client.answer().errors, [""; 0]);
                }
            }
        }));
    }
    for one in all {
        one.await.unwrap();
    }
    let console = crate::console::console(&testbed, "postgres").await.expect("let in");
    let covered =
        async { while crate::console::show(&console, "BARRIERS").await[0]["exposed"] != "0" {} };
    tokio::time::timeout(Duration::from_secs(30), covered).await.expect("all is covered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_behind_a_copy_is_done_after_it_whatever_is_noticed_before() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct
        .batch_execute(
            "CREATE TABLE t (n int); \
             CREATE FUNCTION notices() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN RAISE NOTICE $$a row$$; PERFORM pg_sleep(0.05); RETURN NULL; END'; \
             CREATE TRIGGER notices AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION notices()",
        )
        .await
        .unwrap();
    tokio::task::block_in_place(|| {
        let mut client = Client::connect(testbed.port(), 1);
        for simple in [true, false] {
            if simple {
                client.query("COPY t FROM STDIN");
            } else {
                client.execute("", "COPY t FROM STDIN");
            }
            client.message(b'd', b"1\n2\n3\n");
            client.message(b'c', b"");
            client.sync();
            client.query("SELECT 7");
            client.send();
            assert_eq!(client.answer().commands, ["COPY 3"], "simple: {simple}");
            if simple {
                assert_eq!(client.answer(), Answer::default(), "to the Sync");
            }
            assert_eq!(client.answer().rows, ["7"], "simple: {simple}");
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_statements_are_as_before_where_the_server_skipped_what_changed_them() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    tokio::task::block_in_place(|| {
        let mut client = Client::connect(testbed.port(), 1);
        // The session knows the other text already.
        for (name, sql) in [("a", "SELECT 1"), ("b", "SELECT 2")] {
            client.message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes());
        }
        client.sync();
        client.send();
        client.answer();
        for query in [false, true] {
            for close in [false, true] {
                for parse in ["", "SELECT 2", "SELECT 3", "SELEC"] {
                    if query {
                        client.query("SELECT 9");
                    }
                    client.message(b'B', b"\0nope\0\0\0\0\0\0\0");
                    if close {
                        client.message(b'C', b"Sa\0");
                    }
                    if !parse.is_empty() {
                        client.message(b'P', format!("a\0{parse}\0\0\0").as_bytes());
                    }
                    client.sync();
                    client.send();
                    if query {
                        client.answer();
                    }
                    assert_eq!(client.answer().errors.len(), 1);
                    client.message(b'B', b"\0a\0\0\0\0\0\0\0");
                    client.message(b'E', b"\0\0\0\0\0");
                    client.sync();
                    client.send();
                    let answer = client.answer();
                    assert_eq!(answer.rows, ["1"], "{query} {close} {parse}: {answer:?}");
                }
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_statements_than_a_session_keeps_are_run_together() {
    let testbed = Testbed::new(&[], |_| {});
    let count = 300;
    tokio::task::block_in_place(|| {
        let mut client = Client::connect(testbed.port(), 1);
        for number in 0..count {
            let parse = format!("s{number}\0SELECT {number}\0\0\0");
            client.message(b'P', parse.as_bytes());
            client.message(b'D', format!("Ss{number}\0").as_bytes());
        }
        client.sync();
        client.send();
        assert_eq!(client.answer().errors, [""; 0]);
        for round in 0..2 {
            for number in 0..count {
                client.message(b'B', format!("\0s{number}\0\0\0\0\0\0\0").as_bytes());
                client.message(b'E', b"\0\0\0\0\0");
            }
            client.sync();
            client.send();
            assert_eq!(client.answer().rows.len(), count, "round {round}");
        }
    });
}
