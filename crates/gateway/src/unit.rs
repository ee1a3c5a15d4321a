//! What a client sends in one go: up to a Sync, or one simple Query.

use std::collections::HashMap;
use std::sync::Arc;

use crate::prepared::{OWN_PREFIX, Prepared, Registry, Told};
use crate::settings::Change;
use crate::statement::{Effects, deallocated};
use crate::{Hold, Need, Pin, SessionKind};

/// Longest message of a client that is kept whole.
pub const LONGEST: usize = 0x3fff_ffff;

/// One message of a unit, and what becomes of it on a session.
#[derive(Debug, Clone)]
pub enum Part {
    /// A whole message that goes as it is; its type.
    Plain(u8, Vec<u8>),
    /// Parse of a statement.
    Parse(Arc<Prepared>, Naming),
    /// Parse under a name that its client has given to this statement already: what comes after
    /// the name.
    ParseAgain { taken: Arc<Prepared>, name: Name, rest: Vec<u8> },
    /// DEALLOCATE of a statement, which only the gateway knows.
    Deallocate(Naming),
    /// Bind of a statement: the portal's name, and what comes after the statement's name.
    Bind { statement: Arc<Prepared>, told: Option<Arc<Told>>, portal: Name, rest: Vec<u8> },
    /// Describe of a statement.
    DescribeStatement(Arc<Prepared>, Option<Arc<Told>>),
    /// Describe of a portal that one of the unit's messages binds to a statement with a name.
    DescribePortal { statement: Arc<Prepared>, told: Arc<Told>, portal: Name },
    /// Close of a statement, which only the gateway knows.
    CloseStatement(Naming),
}

/// A name as a client gave it, without its NUL.
pub type Name = Vec<u8>;

/// What a client sent in one go.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Its messages.
    pub parts: Vec<Part>,
    /// What it needs of a session.
    pub need: Need,
    /// What it does to the settings of its session, if it does nothing else.
    pub change: Option<Change>,
    /// What its statements do.
    pub effects: Effects,
    /// How it ended.
    pub end: End,
    /// Bytes of its messages.
    pub bytes: usize,
}

impl Unit {
    /// Whether it is one COMMIT and nothing else: a portal that was bound before may be executed
    /// with it.
    pub fn is_commit(&self) -> bool {
        let executes = |part: &&Part| matches!(part, Part::Plain(b'E', _));
        let runs_one = match self.end {
            End::Query => true,
            End::Sync => self.parts.iter().filter(executes).count() == 1,
            End::Flush => false,
        };
        runs_one
            && self.statements().all(|sql| {
                let sql = sql.trim_ascii().strip_suffix(b";").unwrap_or(sql).trim_ascii();
                [&b"COMMIT"[..], b"END"].iter().any(|of| sql.eq_ignore_ascii_case(of))
            })
            && self.statements().count() == 1
    }

    /// Whether it is a Sync and nothing else.
    pub fn is_sync(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Plain(b'S', _)))
    }

    /// How many Parse and Bind messages are in it.
    pub fn parses_and_binds(&self) -> (u64, u64) {
        self.parts.iter().fold((0, 0), |(parses, binds), part| match part {
            Part::Parse(..) | Part::ParseAgain { .. } => (parses + 1, binds),
            Part::Bind { .. } | Part::Plain(b'B', _) => (parses, binds + 1),
            _ => (parses, binds),
        })
    }

    /// The texts that it runs.
    fn statements(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().filter_map(|part| match part {
            Part::Plain(b'Q', message) => message.get(5..message.len() - 1),
            Part::Bind { statement, .. } => Some(statement.text()),
            Part::Plain(b'B' | b'F', _) => Some(b"?"),
            _ => None,
        })
    }
}

/// How a unit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A simple Query or a function call: answered up to ReadyForQuery, unless an error came
    /// before it.
    Query,
    /// Sync.
    Sync,
    /// Flush: more belongs to it.
    Flush,
}

/// What a name of a client means by a message, and what it meant before: where the server does not
/// get to the message, it means that again.
#[derive(Debug, Clone)]
pub struct Naming {
    /// The name.
    pub name: Name,
    before: Option<Named>,
    after: Option<Arc<Prepared>>,
}

/// A statement under a name, and what its client was told of it.
type Named = (Arc<Prepared>, Arc<Told>);

/// Statements of one client, by the names that it gave.
#[derive(Debug, Default)]
pub struct Statements {
    named: HashMap<Name, Named>,
    unnamed: Option<Arc<Prepared>>,
    /// Bytes that those with a name take, and their names.
    bytes: usize,
}

impl Statements {
    /// The statement with a name.
    pub fn get(&self, name: &[u8]) -> Option<&Arc<Prepared>> {
        if name.is_empty() {
            return self.unnamed.as_ref();
        }
        self.named.get(name).map(|(statement, _)| statement)
    }

    /// What its client was told of the statement with a name: one without is prepared again each
    /// time.
    fn told(&self, name: &[u8]) -> Option<Arc<Told>> {
        self.named.get(name).map(|(_, told)| told.clone())
    }

    /// Gives a name to a statement, or to none.
    fn name(&mut self, name: &[u8], statement: Option<Arc<Prepared>>) -> Naming {
        let after = statement.clone();
        let before = self.set(name, statement.map(|statement| (statement, Arc::default())));
        Naming { name: name.to_vec(), before, after }
    }

    /// What a name means from now on; what it meant.
    fn set(&mut self, name: &[u8], meaning: Option<Named>) -> Option<Named> {
        if name.is_empty() {
            let statement = meaning.map(|(statement, _)| statement);
            let before = std::mem::replace(&mut self.unnamed, statement);
            return before.map(|statement| (statement, Arc::default()));
        }
        let before = self.named.remove(name);
        if let Some((statement, _)) = &before {
            self.bytes -= kept(name, statement);
        }
        if let Some(named) = meaning {
            self.bytes += kept(name, &named.0);
            self.named.insert(name.to_vec(), named);
        }
        before
    }

    /// Undoes a naming, if its name still means what that made of it.
    pub fn undo(&mut self, naming: Naming) {
        let Naming { name, before, after } = naming;
        let is_as_named = match (self.get(&name), &after) {
            (Some(known), Some(after)) => Arc::ptr_eq(known, after),
            (None, None) => true,
            _ => false,
        };
        if is_as_named {
            self.set(&name, before);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.named.len() + usize::from(self.unnamed.is_some())
    }

    /// Bytes that those with a name take, and their names.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all, as DISCARD ALL and DEALLOCATE ALL do.
    pub fn clear(&mut self) {
        *self = Statements::default();
    }
}

/// About how many bytes a name and its statement take: with what is kept beside the texts.
fn kept(name: &[u8], statement: &Prepared) -> usize {
    const BESIDE: usize = 256;
    name.len() + statement.body.len() + BESIDE
}

/// A client's message whose inside is damaged: the connection is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Gathers a client's messages into units.
#[derive(Debug, Default)]
pub struct Gatherer {
    parts: Vec<Part>,
    need: Option<Need>,
    change: Option<Change>,
    effects: Effects,
    /// Whether a statement was bound.
    binds: bool,
    /// Whether a Flush ended what a Sync has not.
    flushed: bool,
    /// Whether something was executed since the last Sync.
    executes: bool,
    /// Bytes of messages that were taken since the last unit.
    bytes: usize,
}

/// Functions that libpq calls for large objects, by the numbers that they have in every version
/// (`pg_proc.dat`): lo_open, lo_close, loread, lowrite, lo_lseek, lo_creat, lo_tell, lo_unlink,
/// lo_create, lo_truncate and those of 64 bits.
const LARGE_OBJECTS: [u32; 13] =
    [952, 953, 954, 955, 956, 957, 958, 964, 715, 1004, 3170, 3171, 3172];

/// Bytes before a Sync that are kept: what is longer goes on before it is whole.
const MOST_GATHERED: usize = 1024 * 1024;

/// Bytes of a unit that shares its session: a copy is kept until it has answered.
const MOST_SHARED: usize = 64 * 1024;

/// A setting is changed in a way that is not followed: its session stays with its client.
const UNTRACKED: Need = Need { session: SessionKind::Relaxed, hold: Hold::Pinned(Pin::Setting) };

impl Gatherer {
    fn needs(&mut self, need: Need) {
        self.need = Some(self.need.map_or(need, |before| before.and(need)));
    }

    fn does(&mut self, effects: Effects) {
        self.effects = self.effects.and(effects);
    }

    /// A statement is bound. What it does to the settings is followed only where the unit does
    /// nothing else.
    fn bind(&mut self, change: Option<Change>) {
        if !std::mem::replace(&mut self.binds, true) {
            self.change = change;
        } else if change.or(self.change.take()).is_some() {
            self.needs(UNTRACKED);
        }
    }

    /// Takes a message of the client; the unit that it completes. `redefined` counts how often
    /// the objects of the server were; `settled` says that all before was answered, so that the
    /// client has every statement that it is known to have.
    ///
    /// # Errors
    /// When the message is damaged.
    pub fn take(
        &mut self,
        tag: u8,
        body: &[u8],
        statements: &mut Statements,
        registry: &mut Registry,
        redefined: u64,
        settled: bool,
    ) -> Result<Option<Unit>, Malformed> {
        self.bytes += body.len() + size_of::<Part>();
        match tag {
            b'Q' => {
                let (sql, _) = text(body)?;
                if let Some(name) = deallocated(sql)
                    && statements.get(&name).is_some()
                {
                    let naming = statements.name(&name, None);
                    let need = Need { session: SessionKind::Synchronous, hold: Hold::Shared };
                    self.ends_by_query(need)?;
                    self.parts.push(Part::Deallocate(naming));
                    return Ok(Some(self.finish(End::Query)));
                }
                self.ends_by_query(Need::of(sql))?;
                let change = std::str::from_utf8(sql).ok().and_then(Change::of);
                self.does(Effects::of(sql, change.as_ref()));
                self.bind(change);
                self.plain(tag, body);
                return Ok(Some(self.finish(End::Query)));
            }
            b'F' => {
                let of_large_objects = body
                    .first_chunk()
                    .is_some_and(|oid| LARGE_OBJECTS.contains(&u32::from_be_bytes(*oid)));
                // Any other may change settings, take locks or write.
                let need = match of_large_objects {
                    true => Need { session: SessionKind::Synchronous, hold: Hold::Transaction },
                    false => UNTRACKED,
                };
                self.ends_by_query(need)?;
                self.does(Effects::UNKNOWN);
                self.plain(tag, body);
                return Ok(Some(self.finish(End::Query)));
            }
            b'P' => {
                let (name, rest) = text(body)?;
                text(rest)?;
                if settled
                    && !name.is_empty()
                    && let Some(taken) = statements.get(name).cloned()
                {
                    let (name, rest) = (name.to_vec(), rest.to_vec());
                    self.parts.push(Part::ParseAgain { taken, name, rest });
                    return Ok(self.full());
                }
                // What is prepared runs nothing yet: any session will do, also while all that
                // have transactions are taken.
                let statement = registry.prepared(rest, redefined);
                let naming = statements.name(name, Some(statement.clone()));
                self.parts.push(Part::Parse(statement, naming));
            }
            b'B' => {
                let (portal, rest) = text(body)?;
                let (name, rest) = text(rest)?;
                match self.statement(statements, name) {
                    Some(statement) => {
                        self.does(statement.effects);
                        self.bind(statement.change.clone());
                        self.parts.push(Part::Bind {
                            statement,
                            told: statements.told(name),
                            portal: portal.to_vec(),
                            rest: rest.to_vec(),
                        });
                    }
                    // What SQL prepared, or nothing: the server knows.
                    None => {
                        self.bind(None);
                        self.does(Effects::UNKNOWN);
                        let name = foreign(name);
                        self.plain(tag, &[portal, b"\0", &name, b"\0", rest].concat());
                    }
                }
            }
            b'D' | b'C' => {
                let (&kind, rest) = body.split_first().ok_or(Malformed("it is empty"))?;
                let (name, _) = text(rest)?;
                match (tag, kind) {
                    (b'D', b'S') => match statements.get(name).cloned() {
                        Some(statement) => {
                            let told = statements.told(name);
                            self.parts.push(Part::DescribeStatement(statement, told));
                        }
                        None => self.plain(tag, &[b"S", &foreign(name)[..], b"\0"].concat()),
                    },
                    (b'C', b'S') => {
                        self.parts.push(Part::CloseStatement(statements.name(name, None)));
                    }
                    (b'D', b'P') => match self.bound(name) {
                        Some(part) => self.parts.push(part),
                        None => self.plain(tag, body),
                    },
                    _ => self.plain(tag, body),
                }
            }
            b'S' => {
                self.plain(tag, body);
                return Ok(Some(self.finish(End::Sync)));
            }
            // Behind a Sync, as libpq sends it, it begins nothing.
            b'H' if self.parts.is_empty() && !self.flushed => self.bytes = 0,
            b'H' => {
                self.plain(tag, body);
                return Ok(Some(self.finish_before_sync()));
            }
            _ => {
                self.executes |= tag == b'E';
                self.plain(tag, body);
            }
        }
        Ok(self.full())
    }

    /// What goes on before its Sync, since it is long.
    fn full(&mut self) -> Option<Unit> {
        (self.bytes > MOST_GATHERED).then(|| self.finish_before_sync())
    }

    /// Whether nothing is gathered.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// What has to reach the server before anything that is copied in: it says then whether it
    /// takes that. Not every client waits for its word.
    pub fn before_copy(&mut self) -> Option<Unit> {
        let executes = |part: &Part| matches!(part, Part::Plain(b'E', _));
        if !self.parts.iter().any(executes) {
            return None;
        }
        // Where it is no COPY, the server would keep its answer up to the Sync.
        self.plain(b'H', b"");
        Some(self.finish_before_sync())
    }

    /// A unit that more belongs to.
    fn finish_before_sync(&mut self) -> Unit {
        self.needs(Need { session: SessionKind::Relaxed, hold: Hold::Transaction });
        if self.change.take().is_some() {
            self.needs(UNTRACKED);
        }
        self.finish(End::Flush)
    }

    /// A Query or a function call ends what comes before it as a Sync does, unless there was an
    /// error: then the server skips it too, and the unit goes on up to its Sync on the same
    /// session. What is Close of a statement alone the server does not see.
    ///
    /// Behind an Execute, PostgreSQL 18 tells of a transaction that it forgets at the Sync,
    /// with all that it wrote.
    fn ends_by_query(&mut self, need: Need) -> Result<(), Malformed> {
        if self.executes {
            return Err(Malformed("a Query or FunctionCall comes between an Execute and its Sync"));
        }
        let is_local = |part: &Part| matches!(part, Part::CloseStatement(_));
        if self.flushed || !self.parts.iter().all(is_local) {
            self.needs(Need { session: SessionKind::Relaxed, hold: Hold::Transaction });
        }
        self.needs(need);
        Ok(())
    }

    /// Describe of a portal that was bound last in this unit.
    fn bound(&self, name: &[u8]) -> Option<Part> {
        self.parts.iter().rev().find_map(|part| match part {
            Part::Bind { statement, told, portal, .. } if portal == name => {
                Some(told.clone().map(|told| {
                    let (statement, portal) = (statement.clone(), portal.clone());
                    Part::DescribePortal { statement, told, portal }
                }))
            }
            Part::Plain(b'B', _) => Some(None),
            _ => None,
        })?
    }

    fn statement(&mut self, statements: &Statements, name: &[u8]) -> Option<Arc<Prepared>> {
        let known = statements.get(name)?.clone();
        self.needs(known.need);
        Some(known)
    }

    fn plain(&mut self, tag: u8, body: &[u8]) {
        self.parts.push(Part::Plain(tag, framed(tag, body)));
    }

    fn finish(&mut self, end: End) -> Unit {
        let nothing = Need { session: SessionKind::Synchronous, hold: Hold::Shared };
        self.binds = false;
        self.flushed = end == End::Flush;
        self.executes &= self.flushed;
        if self.bytes > MOST_SHARED {
            self.needs(Need { session: SessionKind::Synchronous, hold: Hold::Transaction });
        }
        Unit {
            parts: std::mem::take(&mut self.parts),
            need: self.need.take().unwrap_or(nothing),
            change: self.change.take(),
            effects: std::mem::take(&mut self.effects),
            end,
            bytes: std::mem::take(&mut self.bytes),
        }
    }
}

/// A statement's name that is not one of the gateway's own on a session.
fn foreign(name: &[u8]) -> Vec<u8> {
    let own = if name.starts_with(OWN_PREFIX.as_bytes()) { &b"_"[..] } else { b"" };
    [own, name].concat()
}

/// A message with its header.
pub fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(5 + body.len());
    frame_into(&mut message, tag, &[body]);
    message
}

/// Writes a message whose body comes in pieces.
pub fn frame_into(out: &mut Vec<u8>, tag: u8, pieces: &[&[u8]]) {
    let length: usize = 4 + pieces.iter().map(|piece| piece.len()).sum::<usize>();
    out.push(tag);
    // A body is at most `LONGEST` bytes.
    out.extend((length as u32).to_be_bytes());
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Text up to a NUL, and what follows it.
fn text(body: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = body.iter().position(|&byte| byte == 0).ok_or(Malformed("a string has no end"))?;
    Ok((&body[..end], &body[end + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(name: &str, sql: &str) -> (u8, Vec<u8>) {
        (b'P', format!("{name}\0{sql}\0\0\0").into_bytes())
    }

    fn take(messages: &[(u8, Vec<u8>)]) -> Vec<Unit> {
        let (mut gatherer, mut statements) = (Gatherer::default(), Statements::default());
        let mut registry = Registry::default();
        let take = |(tag, body): &(u8, Vec<u8>)| {
            gatherer.take(*tag, body, &mut statements, &mut registry, 0, true).unwrap()
        };
        messages.iter().filter_map(take).collect()
    }

    #[test]
    fn a_unit_needs_what_its_statements_need_together() {
        let sync = (b'S', Vec::new());
        let bind = |name: &str| (b'B', format!("\0{name}\0\0\0\0\0\0\0").into_bytes());
        let units = take(&[
            parse("a", "SELECT 1"),
            sync.clone(),
            parse("b", "INSERT INTO t VALUES (1)"),
            bind("a"),
            bind("b"),
            sync.clone(),
            bind("a"),
            sync,
        ]);
        let needs: Vec<_> = units.iter().map(|unit| (unit.need.session, unit.need.hold)).collect();
        assert_eq!(
            needs,
            [
                (SessionKind::Synchronous, Hold::Shared),
                (SessionKind::Relaxed, Hold::Shared),
                (SessionKind::Synchronous, Hold::Shared),
            ]
        );
        assert!(matches!(&units[2].parts[..], [Part::Bind { .. }, Part::Plain(b'S', _)]));
    }

    #[test]
    fn a_setting_is_followed_only_where_its_unit_does_nothing_else() {
        let sync = (b'S', Vec::new());
        let bind = |name: &str| (b'B', format!("\0{name}\0\0\0\0\0\0\0").into_bytes());
        let prepare = [parse("set", "SET work_mem = '1MB'"), parse("read", "SELECT 1")];
        let of = |messages: &[(u8, Vec<u8>)]| {
            let units = take(&[&prepare[..], std::slice::from_ref(&sync), messages].concat());
            let last = units.last().unwrap();
            (last.change.is_some(), last.need.hold)
        };
        let pinned = Hold::Pinned(Pin::Setting);
        assert_eq!(of(&[bind("set"), sync.clone()]), (true, Hold::Transaction));
        for both in [["set", "read"], ["read", "set"], ["set", "set"], ["set", "sql"]] {
            let [first, second] = both.map(bind);
            assert_eq!(of(&[first, second, sync.clone()]), (false, pinned), "{both:?}");
        }
        assert_eq!(of(&[bind("set"), (b'H', Vec::new())]), (false, pinned));
        assert_eq!(of(&[bind("read"), bind("read"), sync.clone()]), (false, Hold::Shared));
    }

    #[test]
    fn a_query_ends_what_comes_before_it_in_its_transaction() {
        let query = (b'Q', b"SELECT 1\0".to_vec());
        let of = |messages: &[(u8, Vec<u8>)]| {
            let unit = take(messages).pop().unwrap();
            (unit.parts.len(), unit.end, unit.need.hold)
        };
        let (sync, flush) = ((b'S', Vec::new()), (b'H', Vec::new()));
        let parse = parse("a", "SELECT 1");
        let close = (b'C', b"Sa\0".to_vec());
        let (alone, within) = (Hold::Shared, Hold::Transaction);
        assert_eq!(of(&[parse.clone(), sync.clone(), query.clone()]), (1, End::Query, alone));
        assert_eq!(
            of(&[parse.clone(), sync, flush.clone(), query.clone()]),
            (1, End::Query, alone)
        );
        assert_eq!(of(&[close, query.clone()]), (2, End::Query, alone));
        assert_eq!(of(&[parse.clone(), query.clone()]), (2, End::Query, within));
        assert_eq!(of(&[parse, flush, query]), (1, End::Query, within));
    }

    #[test]
    fn a_query_comes_after_the_sync_of_what_is_executed() {
        let of = |messages: &[u8]| {
            let (mut gatherer, mut statements) = (Gatherer::default(), Statements::default());
            let mut registry = Registry::default();
            let take = |tag: &u8| {
                let body: &[u8] = if *tag == b'S' || *tag == b'H' { b"" } else { b"\0\0\0\0\0" };
                gatherer.take(*tag, body, &mut statements, &mut registry, 0, true).is_ok()
            };
            messages.iter().all(take)
        };
        assert!(of(b"PESQ") && of(b"PEHSQ") && of(b"PQEHSQ"));
        assert!(!of(b"PEQ") && !of(b"PEHQ") && !of(b"EHPF"));
    }

    #[test]
    fn what_goes_on_for_long_without_a_sync_is_sent_before_it() {
        let bind = (b'B', [&b"\0a\0\0\0\0\x01\0\0\xff\xff"[..], &[b'x'; 0xffff], b"\0\0"].concat());
        let mut messages = vec![parse("a", "INSERT INTO t VALUES ($1)")];
        messages.extend(vec![bind; 40]);
        messages.push((b'S', Vec::new()));
        let units = take(&messages);
        let ends: Vec<End> = units.iter().map(|unit| unit.end).collect();
        assert_eq!(ends, [End::Flush, End::Flush, End::Sync]);
        let parts: usize = units.iter().map(|unit| unit.parts.len()).sum();
        assert_eq!(parts, messages.len());
        assert_eq!(units[0].need.hold, Hold::Transaction);
    }

    #[test]
    fn a_name_that_the_gateway_does_not_know_is_left_to_the_server() {
        let bind = |name: &str| (b'B', format!("\0{name}\0\0\0\0\0\0\0").into_bytes());
        let units = take(&[bind("sql"), bind("ww_1"), (b'S', Vec::new())]);
        let [Part::Plain(b'B', sql), Part::Plain(b'B', own), _] = &units[0].parts[..] else {
            panic!("{:?}", units[0].parts)
        };
        assert_eq!(&sql[5..10], b"\0sql\0");
        assert_eq!(&own[5..12], b"\0_ww_1\0");
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_client_panic(
            messages in prop::collection::vec(
                (
                    prop::sample::select(b"BCDEFHPQSXcdfp".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..40),
                ),
                0..20,
            ),
        ) {
            let (mut gatherer, mut statements) = (Gatherer::default(), Statements::default());
            let mut registry = Registry::default();
            for (tag, body) in messages {
                let _ = gatherer.take(tag, &body, &mut statements, &mut registry, 0, true);
            }
        }
    }
}
