//! A connection that is logged in.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use crate::backend::{
    self, BackendKeyData, DataRow, ErrorFields, ParameterDescription, RowDescription,
};
use crate::deadline::{Deadline, name_timeout};
use crate::{CancelKey, FrameError, Scanner, Stream, TagSet, WireError};

/// Most bytes of an answer: it is of a few rows, and small ones take many times as much
/// memory as they have bytes.
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;
/// Longest time an answer may take unless told otherwise: as long as walwright waits for
/// any answer beside those of a load.
const TIME_LIMIT: Duration = Duration::from_secs(15);

/// A connection that is logged in and idle. Dropped, it says goodbye to the server.
///
/// For the data plane it is taken apart with
/// [`into_nonblocking`](Connection::into_nonblocking); for the few statements a
/// data plane needs beside its load there is [`query`](Connection::query).
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    scanner: Scanner,
    /// Socket path or host and port, for messages to people.
    target: String,
    /// Bytes that came after the last ReadyForQuery.
    rest: Vec<u8>,
    parameters: Vec<(String, String)>,
    key: Option<BackendKeyData>,
    time_limit: Option<Duration>,
    /// Whether an answer was left in the middle: what comes next is not known.
    broken: bool,
}

impl Connection {
    pub(crate) fn new(
        mut stream: Stream,
        target: String,
        rest: Vec<u8>,
        parameters: Vec<(String, String)>,
        key: Option<BackendKeyData>,
    ) -> Self {
        stream.set_says_goodbye(true);
        Connection {
            stream,
            scanner: Scanner::backend(),
            target,
            rest,
            parameters,
            key,
            time_limit: Some(TIME_LIMIT),
            broken: false,
        }
    }

    /// Sets how long each answer may take as a whole; 15 s unless set, `None` is for ever.
    pub fn set_time_limit(&mut self, limit: Option<Duration>) {
        self.time_limit = limit;
    }

    /// The settings the server reported at login, in its order.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What the server reported of a setting at login, such as `server_version`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// What cancels a query on this connection, if the server gave it.
    pub fn cancel_key(&self) -> Option<CancelKey> {
        self.key.clone().map(CancelKey::new)
    }

    /// The process that serves this connection, if the server told.
    pub fn backend_process(&self) -> Option<u32> {
        self.key.as_ref().map(|key| key.process)
    }

    /// Process and secret of this connection as the server gave them, if it did.
    pub fn key_data(&self) -> Option<&BackendKeyData> {
        self.key.as_ref()
    }

    /// Bytes that came after the last ReadyForQuery: notices, as a rule none.
    pub fn leftover(&self) -> &[u8] {
        &self.rest
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Runs SQL by the simple protocol, blocking, and returns the rows of all
    /// its statements as text.
    ///
    /// # Errors
    /// When the server reports an error, which leaves the connection usable,
    /// or the connection breaks.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, WireError> {
        check_sql(sql)?;
        let mut out = BytesMut::new();
        frontend::query(sql, &mut out)?;
        let mut rows = Vec::new();
        self.exchange(&out, |tag, body| {
            if tag == backend::DATA_ROW {
                let columns = DataRow::parse(body)?.columns.into_iter();
                rows.push(columns.map(|value| value.map(crate::read::text)).collect());
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// The same for one statement, each row with the names of its columns.
    ///
    /// # Errors
    /// As [`query`](Connection::query).
    pub fn query_named(
        &mut self,
        sql: &str,
    ) -> Result<Vec<HashMap<String, Option<String>>>, WireError> {
        check_sql(sql)?;
        let mut out = BytesMut::new();
        frontend::query(sql, &mut out)?;
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        self.exchange(&out, |tag, body| {
            if tag == backend::ROW_DESCRIPTION {
                let columns = RowDescription::parse(body)?.columns.into_iter();
                names = columns.map(|column| column.name).collect::<Vec<_>>();
            } else if tag == backend::DATA_ROW {
                let values = DataRow::parse(body)?.columns.into_iter();
                let values = values.map(|value| value.map(crate::read::text));
                rows.push(names.iter().cloned().zip(values).collect());
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// The OIDs of the types the server infers for the parameters of a
    /// statement, blocking. Uses the unnamed statement.
    ///
    /// # Errors
    /// As [`query`](Connection::query).
    pub fn parameter_types(&mut self, sql: &str) -> Result<Vec<u32>, WireError> {
        check_sql(sql)?;
        let mut out = BytesMut::new();
        frontend::parse("", sql, [], &mut out)?;
        frontend::describe(b'S', "", &mut out)?;
        frontend::sync(&mut out);
        let mut types = Vec::new();
        self.exchange(&out, |tag, body| {
            if tag == backend::PARAMETER_DESCRIPTION {
                types = ParameterDescription::parse(body)?.types;
            }
            Ok(())
        })?;
        Ok(types)
    }

    /// Sends messages and hands out the answers up to ReadyForQuery.
    fn exchange(
        &mut self,
        messages: &[u8],
        mut take: impl FnMut(u8, &[u8]) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(WireError::Io(io::ErrorKind::NotConnected.into()));
        }
        let deadline = Deadline::new(self.time_limit);
        // Until the server is idle again it would not hear a goodbye.
        self.stream.set_says_goodbye(false);
        let failure = self
            .converse(messages, deadline, &mut take)
            .map_err(|error| name_timeout(error, self.time_limit, || self.target.clone()))?;
        self.stream.set_timeout(None)?;
        self.stream.set_says_goodbye(true);
        self.broken = false;
        failure.map_or(Ok(()), |fields| Err(WireError::Server(fields)))
    }

    /// Sends messages and reads up to ReadyForQuery; what the server reported as an error.
    fn converse(
        &mut self,
        messages: &[u8],
        deadline: Deadline,
        take: &mut impl FnMut(u8, &[u8]) -> Result<(), WireError>,
    ) -> Result<Option<Box<ErrorFields>>, WireError> {
        self.stream.write_until(messages, deadline)?;
        let mut failure: Option<Box<ErrorFields>> = None;
        let mut buffer = std::mem::take(&mut self.rest);
        let mut total = 0;
        loop {
            let mut input = &buffer[..];
            while let Some(frame) = self.scanner.next(&mut input, TagSet::ALL)? {
                let body = frame.body.unwrap_or_default();
                match frame.tag {
                    backend::ERROR_RESPONSE => {
                        let fields = ErrorFields::parse(body)?;
                        failure.get_or_insert_with(|| Box::new(fields));
                    }
                    tag @ (backend::COPY_IN_RESPONSE | backend::COPY_BOTH_RESPONSE) => {
                        return Err(WireError::Unexpected { tag, during: "running a query" });
                    }
                    backend::READY_FOR_QUERY => {
                        self.rest = input.to_vec();
                        return Ok(failure);
                    }
                    tag => take(tag, body)?,
                }
            }
            buffer.resize(8192, 0);
            let count = self.stream.read_until(&mut buffer, deadline)?;
            if count == 0 {
                // A server that shuts down says why and closes.
                return Err(failure.map_or(WireError::Closed, WireError::Server));
            }
            total += count;
            if total > LONGEST_ANSWER {
                return Err(WireError::TooMuch { limit: LONGEST_ANSWER });
            }
            buffer.truncate(count);
        }
    }

    /// The stream, blocking and without a time limit. What came after the last
    /// ReadyForQuery is [`leftover`](Connection::leftover), to be read before.
    pub fn into_stream(mut self) -> Stream {
        self.stream.set_says_goodbye(false);
        self.stream
    }

    /// The stream, now non-blocking, and the scanner that goes with it.
    ///
    /// # Errors
    /// When the system refuses, or bytes already received are damaged.
    pub fn into_nonblocking(mut self) -> Result<(Stream, Scanner), WireError> {
        self.stream.set_nonblocking(true)?;
        let mut input = &self.rest[..];
        loop {
            let next: Result<_, FrameError> = self.scanner.next(&mut input, TagSet::EMPTY);
            if next?.is_none() {
                self.stream.set_says_goodbye(false);
                return Ok((self.stream, self.scanner));
            }
        }
    }
}

fn check_sql(sql: &str) -> Result<(), WireError> {
    if sql.contains('\0') {
        return Err(WireError::Options("SQL cannot contain a NUL byte".into()));
    }
    Ok(())
}
