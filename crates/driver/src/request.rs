//! Asking by HTTP: a request goes out, its answer comes in.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use walwright_workload::script::{CaptureFrom, EvalError, Request, StatementId, Value};

use crate::client::{Client, Failure, Reading, Waiting};
use crate::clock::Moment;
use crate::endpoint::HttpServer;
use crate::engine::{Engine, Job};
use crate::receive::Taken;
use crate::response::{Response, ResponseError, Wanted};
use crate::tally::{SCRIPT, TIMEOUT};

/// What the requests of a load have in common.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    /// What follows the target of each request: the version and the server's name.
    pub(crate) after_target: String,
    /// Longest time that an answer may take.
    pub(crate) timeout: Duration,
}

impl Asking {
    pub(crate) fn of(server: &HttpServer) -> Asking {
        Asking {
            after_target: format!(" HTTP/1.1\r\nHost: {}\r\n", server.authority()),
            timeout: server.timeout,
        }
    }
}

/// The first status that says that a request failed.
const FIRST_ERROR: u16 = 400;
/// Letters of an answer that are told of a failure.
const TOLD: usize = 160;

impl Engine {
    /// Puts a request together and sends it.
    ///
    /// # Errors
    /// When a value in it is missing or does not fit.
    pub(crate) fn ask(
        &mut self,
        client: &mut Client,
        request: &Request,
        id: StatementId,
        now: Moment,
    ) -> Result<(), EvalError> {
        let job = Rc::clone(&self.job);
        let (variables, rng) = (&client.variables, &mut client.rng);
        let out = self.send_queue.open();
        out.extend_from_slice(request.method.as_bytes());
        out.push(b' ');
        request.target.write(variables, rng, out)?;
        if let Some(asking) = &job.asking {
            out.extend_from_slice(asking.after_target.as_bytes());
        }
        request.headers.write(variables, rng, out)?;
        match &request.body {
            Some(body) => {
                self.body.clear();
                body.write(variables, rng, &mut self.body)?;
                content_length(self.body.len(), out);
                out.extend_from_slice(&self.body);
            }
            // Those whose body means something say that it is empty (RFC 9110, 8.6).
            None if matches!(request.method.as_str(), "POST" | "PUT" | "PATCH") => {
                content_length(0, out);
            }
            None => out.extend_from_slice(b"\r\n"),
        }
        client.transaction.pc += 1;
        client.burst.parts = 1;
        client.burst.last = id.index();
        client.burst.sent = now;
        client.owed += 1;
        self.send(client, Waiting::Executing);
        Ok(())
    }

    /// Takes in the first `count` bytes of the input as a part of an answer.
    pub(crate) fn take_answer(
        &mut self,
        client: &mut Client,
        count: usize,
    ) -> Result<Taken, ResponseError> {
        let job = Rc::clone(&self.job);
        let mut input = &self.input[..count];
        let Some(request) = asked(&job, client) else { return Err(ResponseError::Unasked) };
        let Some(Reading::Http(response)) = client.link.as_mut().map(|link| &mut link.reading)
        else {
            return Ok(Taken::default());
        };
        let wanted = Wanted {
            head_only: request.method == "HEAD",
            headers: &request.kept_headers,
            body: request.keeps_body(),
        };
        if !response.take(&mut input, wanted)? {
            return Ok(Taken::default());
        }
        if !input.is_empty() {
            return Err(ResponseError::Unasked);
        }
        Ok(answer(&job, client, request))
    }

    /// The server has closed the connection: that may be the end of an answer.
    pub(crate) fn take_end(&mut self, client: &mut Client) -> io::Result<Taken> {
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let job = Rc::clone(&self.job);
        let request = asked(&job, client).ok_or_else(ended)?;
        let whole = match client.link.as_mut().map(|link| &mut link.reading) {
            Some(Reading::Http(response)) => response.closed(),
            _ => false,
        };
        if whole { Ok(answer(&job, client, request)) } else { Err(ended()) }
    }

    /// Gives up an answer that has not come in time, and its connection with it.
    pub(crate) fn give_up_late(&mut self, client: &mut Client, now: Moment) {
        let job = Rc::clone(&self.job);
        let Some(request) = asked(&job, client) else { return };
        let seconds = now.since(client.burst.sent).as_secs();
        let message = format!("{}: no answer within {seconds} s", place(&job, client, request));
        client.failure = Some(Failure { kind: TIMEOUT.into(), message });
        self.lose(client, &io::Error::from(io::ErrorKind::TimedOut), now);
    }
}

fn content_length(length: usize, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to memory does not fail.
    let _ = write!(out, "Content-Length: {length}\r\n\r\n");
}

/// The request that a client waits for the answer of.
fn asked<'a>(job: &'a Job, client: &Client) -> Option<&'a Request> {
    let script = job.program().scripts.get(client.transaction.script)?;
    let statement = script.statements.get(client.burst.last).filter(|_| client.owed > 0)?;
    statement.request.as_deref()
}

/// Where a request stands, for messages.
fn place(job: &Job, client: &Client, request: &Request) -> String {
    let script = &job.program().scripts[client.transaction.script];
    let line = script.statements.get(client.burst.last).map_or(0, |of| of.line);
    format!("{}:{line}: {}", script.name, request.method)
}

/// Makes of a whole answer what the script is to know of it.
fn answer(job: &Job, client: &mut Client, request: &Request) -> Taken {
    client.owed = 0;
    let Some(Reading::Http(response)) = client.link.as_ref().map(|link| &link.reading) else {
        return Taken::default();
    };
    let closes = response.closes;
    if response.status >= FIRST_ERROR {
        let kind = format!("HTTP {}", response.status);
        let said = String::from_utf8_lossy(&response.body);
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().filter(|c| !c.is_control()).take(TOLD).collect();
        let colon = if said.is_empty() { "" } else { ": " };
        let place = place(job, client, request);
        let message = format!("{place} was answered with {}{colon}{said}", response.status);
        client.failure = Some(Failure { kind, message });
    } else if !request.captures.is_empty() {
        match captured(request, response) {
            Ok(values) => {
                for (capture, value) in request.captures.iter().zip(values) {
                    client.variables.set(capture.slot, value);
                }
            }
            Err(why) => {
                let message = format!("{}: {why}", place(job, client, request));
                client.failure = Some(Failure { kind: SCRIPT.into(), message });
            }
        }
    }
    Taken { answered: true, closes, ..Taken::default() }
}

/// The values that an answer gives, in the order of the captures.
fn captured(request: &Request, response: &Response) -> Result<Vec<Value>, String> {
    let json = match request.keeps_body() {
        true => serde_json::from_slice(&response.body)
            .map_err(|error| format!("\\capture json: the answer is no JSON: {error}"))?,
        false => serde_json::Value::Null,
    };
    let mut headers = response.headers.iter();
    let value = |from: &CaptureFrom| {
        let found = match from {
            CaptureFrom::Status => Some(Value::Int(response.status.into())),
            CaptureFrom::Header(_) => {
                headers.next().cloned().flatten().map(|text| Value::Text(text.into()))
            }
            CaptureFrom::Json(pointer) => json.pointer(pointer).map(of_json),
        };
        found.ok_or_else(|| format!("\\capture: the answer has no {from}"))
    };
    request.captures.iter().map(|capture| &capture.from).map(value).collect()
}

/// A number, a boolean or null as it is; a text as a text; anything else as its JSON.
fn of_json(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::Double(number),
            (None, None) => Value::Null,
        },
        serde_json::Value::String(text) => Value::Text(text.as_str().into()),
        other => Value::Text(other.to_string().into()),
    }
}
