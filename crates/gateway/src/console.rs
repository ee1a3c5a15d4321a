//! The console: a database without a server, with PgBouncer's commands.
//!
//! Each of its clients has a thread that may block. No worker ever waits for one.

mod command;
mod show;
mod table;

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Events, Interest, Poll, Token};
use rand::random;
use walwright_wire::backend;

use crate::client::ClientStream;
use crate::control::{Action, Control, Silent};
use crate::messages::{self, Refusal};
use crate::report::Report;

use command::{Command, Shutdown};
pub use show::Overview;
use table::Table;

/// Clients of the console at a time.
const MOST: usize = 100;
/// Longest message that is taken.
const LONGEST: usize = 64 * 1024;
/// Statements and portals that one client may have.
const MOST_NAMES: usize = 1000;
/// Bytes of answers that are kept before they are sent.
const MOST_UNSENT: usize = 64 * 1024;
/// How often it is looked at whether what is waited for has come about.
const LOOK: Duration = Duration::from_millis(20);
/// Longest that a client may take to read what it asked for.
const READING: Duration = Duration::from_secs(30);
/// Version of PgBouncer whose columns these are.
pub const LIKE: &str = "1.25.2";

/// A client that is let in.
#[derive(Debug)]
pub struct Visitor {
    /// Its user.
    pub user: String,
    /// Whether it may do more than look.
    pub is_admin: bool,
    /// Its connection.
    pub stream: ClientStream,
    /// What was read of it and not yet taken.
    pub input: Vec<u8>,
    /// What it is to be told first.
    pub output: Vec<u8>,
}

/// One client of the console.
#[derive(Debug)]
pub struct Console {
    user: String,
    is_admin: bool,
    line: Line,
    control: Control,
    out: Vec<u8>,
    statements: HashMap<String, String>,
    portals: HashMap<String, Portal>,
    /// Whether an error came, after which all up to the Sync is left out.
    failed: bool,
}

/// A statement that was bound.
#[derive(Debug)]
struct Portal {
    sql: String,
    /// Whether each column is wanted in binary; one for all, or none.
    binary: Vec<bool>,
}

/// What a command is answered with.
enum Answer {
    /// Rows, and the tag that completes them.
    Rows(Table),
    /// A tag alone.
    Done(&'static str),
    /// A notice, and a tag.
    Notice(String, &'static str),
    Empty,
}

/// What a client did that is refused; its SQLSTATE, what is wrong, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    code: &'static str,
    what: String,
    hint: Option<String>,
}

impl Wrong {
    fn new(code: &'static str, what: impl Into<String>) -> Wrong {
        Wrong { code, what: what.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Wrong {
        Wrong { hint: Some(hint.into()), ..self }
    }
}

impl From<Silent> for Wrong {
    fn from(silent: Silent) -> Wrong {
        Wrong::new("57P03", silent.to_string())
    }
}

/// Why a connection ends.
enum Leaves {
    /// It was lost, or the client or the gateway ended it.
    Gone,
    /// The client sent what makes no sense.
    Malformed(&'static str),
}

impl From<io::Error> for Leaves {
    fn from(_: io::Error) -> Leaves {
        Leaves::Gone
    }
}

impl Console {
    /// Serves a client in a thread of its own until it leaves.
    pub fn open(visitor: Visitor, control: Control) {
        let place = control.enter(MOST);
        let served =
            std::thread::Builder::new().name("gateway-console".to_owned()).spawn(move || {
                let Ok(line) = Line::new(visitor.stream, visitor.input) else { return };
                let mut console = Console {
                    user: visitor.user,
                    is_admin: visitor.is_admin,
                    line,
                    control,
                    out: visitor.output,
                    statements: HashMap::new(),
                    portals: HashMap::new(),
                    failed: false,
                };
                console.serve(place.is_some());
            });
        if let Err(error) = served {
            tracing::warn!("a client of the console cannot be served: {error}");
        }
    }

    fn serve(&mut self, entered: bool) {
        tracing::info!(user = self.user, "a client of the console logged in");
        let ended =
            if entered { self.greet().and_then(|()| self.converse()) } else { self.turn_away() };
        if let Err(Leaves::Malformed(what)) = ended {
            let what = format!("invalid message: {what}");
            messages::error(&mut self.out, &Refusal::fatal("08P01", &what));
            // It may be gone already.
            let _ = self.flush();
        }
    }

    fn turn_away(&mut self) -> Result<(), Leaves> {
        let what = "sorry, too many clients of the console already";
        messages::error(&mut self.out, &Refusal::fatal("53300", what));
        self.flush()
    }

    fn greet(&mut self) -> Result<(), Leaves> {
        let out = &mut self.out;
        messages::authentication_ok(out);
        let version = format!("{LIKE}/bouncer");
        for (name, value) in [
            ("server_version", version.as_str()),
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "GMT"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", if self.is_admin { "on" } else { "off" }),
        ] {
            messages::parameter_status(out, name, value);
        }
        messages::backend_key_data(out, std::process::id(), &random::<[u8; 4]>());
        messages::ready_for_query(out, b'I');
        self.flush()
    }

    fn converse(&mut self) -> Result<(), Leaves> {
        loop {
            if self.out.len() > MOST_UNSENT {
                self.flush()?;
            }
            let (tag, body) = self.line.message(&self.control)?;
            match tag {
                b'X' => return Ok(()),
                b'Q' => {
                    let sql = text(&body)?.0;
                    self.failed = false;
                    let answered = self.execute(&sql);
                    self.answer(answered?, true, &[]);
                    messages::ready_for_query(&mut self.out, b'I');
                    self.flush()?;
                }
                b'S' => {
                    self.failed = false;
                    messages::ready_for_query(&mut self.out, b'I');
                    self.flush()?;
                }
                b'H' => self.flush()?,
                b'P' | b'B' | b'D' | b'E' | b'C' if self.failed => {}
                b'P' => {
                    let (name, rest) = text(&body)?;
                    self.statements.insert(name, text(rest)?.0);
                    messages::bare(&mut self.out, backend::PARSE_COMPLETE);
                }
                b'B' => self.bind(&body)?,
                b'D' => self.describe(&body)?,
                b'E' => {
                    let (name, _) = text(&body)?;
                    let portal = self.portals.remove(&name);
                    match portal {
                        Some(Portal { sql, binary }) => {
                            let answered = self.execute(&sql)?;
                            self.answer(answered, false, &binary);
                        }
                        None => {
                            let what = format!("portal \"{name}\" does not exist");
                            self.refuse(&Wrong::new("34000", what));
                        }
                    }
                }
                b'C' => {
                    let (&kind, rest) = body.split_first().ok_or(Leaves::Malformed("Close"))?;
                    let name = text(rest)?.0;
                    match kind {
                        b'S' => drop(self.statements.remove(&name)),
                        _ => drop(self.portals.remove(&name)),
                    }
                    messages::bare(&mut self.out, backend::CLOSE_COMPLETE);
                }
                _ => return Err(Leaves::Malformed("its type has no place here")),
            }
            if self.statements.len() > MOST_NAMES || self.portals.len() > MOST_NAMES {
                return Err(Leaves::Malformed("too many statements"));
            }
        }
    }

    fn bind(&mut self, body: &[u8]) -> Result<(), Leaves> {
        let (portal, rest) = text(body)?;
        let (name, mut rest) = text(rest)?;
        let mut number = || -> Result<usize, Leaves> {
            let (of, after) =
                rest.split_first_chunk::<2>().ok_or(Leaves::Malformed("Bind is cut short"))?;
            rest = after;
            Ok(usize::from(u16::from_be_bytes(*of)))
        };
        let formats = number()?;
        for _ in 0..formats {
            number()?;
        }
        let parameters = number()?;
        if parameters > 0 {
            self.refuse(&Wrong::new("0A000", "commands of the console take no parameters"));
            return Ok(());
        }
        let mut binary = Vec::new();
        for _ in 0..number()? {
            binary.push(number()? == 1);
        }
        match self.statements.get(&name) {
            Some(sql) => {
                self.portals.insert(portal, Portal { sql: sql.clone(), binary });
                messages::bare(&mut self.out, backend::BIND_COMPLETE);
            }
            None => {
                let what = format!("prepared statement \"{name}\" does not exist");
                self.refuse(&Wrong::new("26000", what));
            }
        }
        Ok(())
    }

    fn describe(&mut self, body: &[u8]) -> Result<(), Leaves> {
        let (&kind, rest) = body.split_first().ok_or(Leaves::Malformed("Describe"))?;
        let name = text(rest)?.0;
        let found = match kind {
            b'S' => self.statements.get(&name).map(|sql| (sql.clone(), Vec::new())),
            _ => self.portals.get(&name).map(|of| (of.sql.clone(), of.binary.clone())),
        };
        let Some((sql, binary)) = found else {
            self.refuse(&Wrong::new("26000", format!("statement \"{name}\" does not exist")));
            return Ok(());
        };
        let columns = match Command::parse(&sql) {
            Ok(Some(Command::Show(show))) => show.columns(),
            Ok(_) => None,
            Err(wrong) => {
                self.refuse(&wrong);
                return Ok(());
            }
        };
        if kind == b'S' {
            messages::message(&mut self.out, b't', |body| body.extend([0, 0]));
        }
        match columns {
            Some(columns) => Table::new(columns).describe(&mut self.out, &binary),
            None => messages::bare(&mut self.out, backend::NO_DATA),
        }
        Ok(())
    }

    fn answer(&mut self, answered: Result<Answer, Wrong>, describes: bool, binary: &[bool]) {
        let tag = match answered {
            Ok(Answer::Rows(table)) => {
                if describes {
                    table.describe(&mut self.out, binary);
                }
                table.rows(&mut self.out, binary);
                "SHOW"
            }
            Ok(Answer::Notice(text, tag)) => {
                messages::notice(&mut self.out, &text);
                tag
            }
            Ok(Answer::Done(tag)) => tag,
            Ok(Answer::Empty) => {
                return messages::bare(&mut self.out, backend::EMPTY_QUERY_RESPONSE);
            }
            Err(wrong) => return self.refuse(&wrong),
        };
        messages::command_complete(&mut self.out, tag);
    }

    fn refuse(&mut self, wrong: &Wrong) {
        self.failed = true;
        let refusal = Refusal {
            severity: "ERROR",
            hint: wrong.hint.as_deref(),
            ..Refusal::fatal(wrong.code, &wrong.what)
        };
        messages::error(&mut self.out, &refusal);
    }

    /// Does what a command says. The outer error ends the connection.
    fn execute(&mut self, sql: &str) -> Result<Result<Answer, Wrong>, Leaves> {
        let command = match Command::parse(sql) {
            Ok(Some(command)) => command,
            Ok(None) => return Ok(Ok(Answer::Empty)),
            Err(wrong) => return Ok(Err(wrong)),
        };
        if !matches!(command, Command::Show(_) | Command::Ignored) {
            if !self.is_admin {
                let wrong = Wrong::new("42501", "admin access needed");
                return Ok(Err(wrong.hint("admin_users names who may change something")));
            }
            tracing::info!(user = self.user, command = sql.trim(), "a command of the console");
        }
        self.perform(command)
    }

    fn perform(&mut self, command: Command) -> Result<Result<Answer, Wrong>, Leaves> {
        let paused = self.control.paused();
        let database = match &command {
            Command::Pause(of)
            | Command::Reconnect(of)
            | Command::Kill(of)
            | Command::WaitClose(of) => of.as_deref(),
            Command::Disable(of) | Command::Enable(of) => Some(of.as_str()),
            _ => None,
        };
        if let Err(wrong) = self.exists(database) {
            return Ok(Err(wrong));
        }
        let done = match command {
            Command::Show(show) => {
                if show == show::Show::Help {
                    return Ok(Ok(Answer::Notice(command::help(), "SHOW")));
                }
                let overview = Overview::of(&self.control, show.needs_details());
                return Ok(overview
                    .map(|overview| Answer::Rows(overview.table(show)))
                    .map_err(Wrong::from));
            }
            Command::Ignored => "SET",
            Command::Pause(database) => {
                let already = match &database {
                    Some(name) => paused.holds(name),
                    None => paused.all,
                };
                if already {
                    return Ok(Err(Wrong::new("55000", "already paused")));
                }
                self.control.act(Action::Pause(database.clone()));
                if let Err(wrong) = self.wait(|reports| has_paused(reports, database.as_deref()))? {
                    return Ok(Err(wrong));
                }
                "PAUSE"
            }
            Command::Resume(database) => {
                let held = match &database {
                    Some(name) => paused.databases.contains(name),
                    None => paused.all || !paused.databases.is_empty(),
                };
                if !held {
                    let what = match database {
                        Some(name) => format!("database {name} is not paused"),
                        None => "nothing is paused".to_owned(),
                    };
                    return Ok(Err(Wrong::new("55000", what)));
                }
                self.control.act(Action::Resume(database));
                "RESUME"
            }
            Command::Reload => {
                if let Err(why) = self.control.reload() {
                    let what = format!("nothing was changed: {why}");
                    return Ok(Err(Wrong::new("F0000", what)));
                }
                "RELOAD"
            }
            Command::Reconnect(database) => {
                self.control.act(Action::Reconnect(database));
                "RECONNECT"
            }
            Command::Kill(database) => {
                self.control.act(Action::Kill(database));
                "KILL"
            }
            Command::KillClient(id) => {
                let known = match self.control.reports(true) {
                    Ok(reports) => {
                        reports.iter().flat_map(|of| &of.clients).any(|client| client.id == id)
                    }
                    Err(silent) => return Ok(Err(silent.into())),
                };
                if !known {
                    let wrong = Wrong::new("22023", format!("client {id} is not there"));
                    return Ok(Err(wrong.hint("SHOW CLIENTS lists them")));
                }
                self.control.act(Action::KillClient(id));
                "KILL_CLIENT"
            }
            Command::WaitClose(database) => {
                let closed = |reports: &[Report]| {
                    let is = |name: &str| database.as_deref().is_none_or(|of| of == name);
                    let pools = reports.iter().flat_map(|report| &report.pools);
                    let retiring =
                        pools.filter(|pool| is(&pool.database)).any(|of| of.retiring > 0);
                    !retiring && !reports.iter().flat_map(|of| &of.servers).any(|of| of.retiring)
                };
                if let Err(wrong) = self.wait(closed)? {
                    return Ok(Err(wrong));
                }
                "WAIT_CLOSE"
            }
            Command::Disable(database) => {
                self.control.act(Action::Disable(database));
                "DISABLE"
            }
            Command::Enable(database) => {
                self.control.act(Action::Enable(database));
                "ENABLE"
            }
            Command::Shutdown(how) => {
                match how {
                    Shutdown::AtOnce => self.control.end(),
                    Shutdown::WaitForServers => self.control.drain(),
                    Shutdown::WaitForClients => self.control.act(Action::Close),
                }
                "SHUTDOWN"
            }
        };
        Ok(Ok(Answer::Done(done)))
    }

    /// Whether there is a database of a name.
    fn exists(&self, database: Option<&str>) -> Result<(), Wrong> {
        let Some(name) = database else { return Ok(()) };
        if crate::control::is_console(name) {
            return Err(Wrong::new("55000", format!("{name} is the console itself")));
        }
        if self.control.options().database(name).is_none() {
            return Err(Wrong::new("3D000", format!("no such database: {name}")));
        }
        Ok(())
    }

    /// Waits until reports say that something has come about, or the client has gone.
    fn wait(&mut self, done: impl Fn(&[Report]) -> bool) -> Result<Result<(), Wrong>, Leaves> {
        self.flush()?;
        loop {
            match self.control.reports(false) {
                Ok(reports) if done(&reports) => return Ok(Ok(())),
                Ok(_) => {}
                Err(silent) => return Ok(Err(silent.into())),
            }
            if self.control.is_closed() || self.line.has_hung_up(LOOK)? {
                return Err(Leaves::Gone);
            }
        }
    }

    fn flush(&mut self) -> Result<(), Leaves> {
        let out = std::mem::take(&mut self.out);
        Ok(self.line.send(&out)?)
    }
}

/// Whether pools of a database, or all, have no sessions any more and nothing that waits for a
/// barrier.
fn has_paused(reports: &[Report], database: Option<&str>) -> bool {
    let pools = reports.iter().flat_map(|report| &report.pools);
    let mut pools = pools.filter(|pool| database.is_none_or(|name| pool.database == name));
    let pools_have = pools.all(|pool| {
        pool.used + pool.idle + pool.cancelling + pool.opening == 0 && pool.withheld == 0
    });
    let mut servers = reports.iter().flat_map(|report| &report.servers);
    pools_have && (database.is_some() || servers.all(|server| server.barriers.is_none()))
}

/// Text up to a NUL, and what follows it.
fn text(body: &[u8]) -> Result<(String, &[u8]), Leaves> {
    let end =
        body.iter().position(|&byte| byte == 0).ok_or(Leaves::Malformed("a string has no end"))?;
    let text = String::from_utf8_lossy(&body[..end]).into_owned();
    Ok((text, &body[end + 1..]))
}

/// A client's connection, which waits as long as it has to.
#[derive(Debug)]
struct Line {
    stream: ClientStream,
    poll: Poll,
    events: Events,
    input: Vec<u8>,
}

impl Line {
    fn new(mut stream: ClientStream, input: Vec<u8>) -> io::Result<Line> {
        let poll = Poll::new()?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        stream.register(poll.registry(), Token(0), interest)?;
        Ok(Line { stream, poll, events: Events::with_capacity(4), input })
    }

    /// Reads what there is; whether the client has hung up.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.input.len() > 2 * LONGEST {
                return Ok(false);
            }
        }
    }

    fn pause(&mut self, time: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(time)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// The next message, whole.
    fn message(&mut self, control: &Control) -> Result<(u8, Vec<u8>), Leaves> {
        loop {
            if let Some(&[tag, a, b, c, d]) = self.input.first_chunk::<5>() {
                let length = u32::from_be_bytes([a, b, c, d]) as usize;
                if !(4..=LONGEST).contains(&length) {
                    return Err(Leaves::Malformed("its length is out of bounds"));
                }
                if self.input.len() > length {
                    let body = self.input[5..=length].to_vec();
                    self.input.drain(..=length);
                    return Ok((tag, body));
                }
            }
            let before = self.input.len();
            if self.read()? {
                return Err(Leaves::Gone);
            }
            if self.input.len() == before {
                if control.is_closed() {
                    return Err(Leaves::Gone);
                }
                self.pause(Duration::from_millis(500))?;
            }
        }
    }

    /// Waits a little; whether the client has hung up.
    fn has_hung_up(&mut self, time: Duration) -> Result<bool, Leaves> {
        // An event that came earlier does not come once more.
        std::thread::sleep(time);
        Ok(self.read()?)
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + READING;
        loop {
            let written = match bytes {
                [] => self.stream.flush().map(|()| 0),
                _ => self.stream.write(bytes),
            };
            match written {
                Ok(_) if bytes.is_empty() => return Ok(()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if Instant::now() >= until {
                        return Err(ErrorKind::TimedOut.into());
                    }
                    self.pause(Duration::from_millis(100))?;
                    if let ClientStream::Tls(_) = self.stream {
                        self.read()?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
