//! A connection that is logged in.

use std::io::{self, Read, Write};

use crate::backend::{self, BackendKeyData, DataRow, ErrorFields, ParameterDescription};
use crate::frontend::{Describe, Object, Parse, Query, SYNC, TERMINATE};
use crate::{CancelKey, FrameError, Scanner, Stream, TagSet, WireError};

/// A connection that is logged in and idle.
///
/// For the data plane it is taken apart with
/// [`into_nonblocking`](Connection::into_nonblocking); for the few statements a
/// data plane needs beside its load there is [`query`](Connection::query).
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    scanner: Scanner,
    /// Bytes that came after the last ReadyForQuery.
    rest: Vec<u8>,
    parameters: Vec<(String, String)>,
    key: Option<BackendKeyData>,
}

impl Connection {
    pub(crate) fn new(
        stream: Stream,
        scanner: Scanner,
        rest: Vec<u8>,
        parameters: Vec<(String, String)>,
        key: Option<BackendKeyData>,
    ) -> Self {
        Connection { stream, scanner, rest, parameters, key }
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
        let mut out = Vec::new();
        Query { sql }.write(&mut out);
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

    /// The OIDs of the types the server infers for the parameters of a
    /// statement, blocking. Uses the unnamed statement.
    ///
    /// # Errors
    /// As [`query`](Connection::query).
    pub fn parameter_types(&mut self, sql: &str) -> Result<Vec<u32>, WireError> {
        check_sql(sql)?;
        let mut out = Vec::new();
        Parse { statement: "", sql, types: &[] }.write(&mut out);
        Describe { object: Object::Statement, name: "" }.write(&mut out);
        out.extend(SYNC);
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
        self.stream.write_all(messages)?;
        self.stream.flush()?;
        let mut failure: Option<Box<ErrorFields>> = None;
        let mut buffer = std::mem::take(&mut self.rest);
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
                        return failure.map_or(Ok(()), |fields| Err(WireError::Server(fields)));
                    }
                    tag => take(tag, body)?,
                }
            }
            buffer.resize(8192, 0);
            let count = loop {
                match self.stream.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    done => break done?,
                }
            };
            if count == 0 {
                // A server that shuts down says why and closes.
                return Err(failure.map_or(WireError::Closed, WireError::Server));
            }
            buffer.truncate(count);
        }
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
                return Ok((self.stream, self.scanner));
            }
        }
    }

    /// Says goodbye, so that the server does not log a lost connection.
    pub fn close(mut self) {
        // Nobody is left to hear of a failure.
        let _ = self.stream.write_all(&TERMINATE);
        let _ = self.stream.flush();
    }
}

fn check_sql(sql: &str) -> Result<(), WireError> {
    if sql.contains('\0') {
        return Err(WireError::Options("SQL cannot contain a NUL byte".into()));
    }
    Ok(())
}
