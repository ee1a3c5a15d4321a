//! Running a client's script until it has to wait.

use std::rc::Rc;

use walwright_wire::backend::TransactionStatus;
use walwright_wire::bind_execute_values;
use walwright_wire::frontend::{COPY_DONE, ROLLBACK, SYNC, copy_data};
use walwright_workload::script::{BatchForm, Command, EvalError, Gathered, Script, StatementId};

use crate::capture::Capture;
use crate::client::{Client, Failure, State, Transaction, Waiting};
use crate::clock::Moment;
use crate::coalesce::HandedOver;
use crate::compile::{Bound, Effect, WireStatement};
use crate::engine::{Engine, Job, Next};
use crate::plan::{Mode, Protocol};
use crate::tally::SCRIPT;

/// Where running a script came to.
enum Progress {
    /// It waits, for the server or for a timer.
    Waits,
    /// It has reached its end.
    Ended,
    /// It cannot go on.
    Failed(String),
}

/// Bytes that lean mode puts together before it sends them, Sync or not.
const LONGEST_BURST: usize = 256 * 1024;

impl Engine {
    /// Runs the client's script, and those after it, until it has to wait.
    pub(crate) fn drive(&mut self, client: &mut Client, now: Moment) {
        let job = Rc::clone(&self.job);
        let mut next = Next::Go;
        while next == Next::Go {
            if client.link.is_none() && !self.has_asked_all(client) {
                client.state = State::Opening(self.clock.now());
                self.opening.push(client.index);
                return;
            }
            let progress = self.advance(&job, client, now);
            next = match progress {
                Progress::Waits => return,
                Progress::Ended => self.succeed(client, now),
                Progress::Failed(message) => self.break_off(client, message, now),
            };
        }
    }

    /// Whether nothing is left of a script of requests: it ends without a connection where its
    /// last answer has ended that.
    fn has_asked_all(&self, client: &Client) -> bool {
        let Transaction { script, pc, .. } = client.transaction;
        self.job.asking.is_some() && pc >= self.job.program().scripts[script].commands.len()
    }

    /// Ends a try whose script cannot go on: what is unsent is forgotten, what
    /// the server already has is answered first.
    fn break_off(&mut self, client: &mut Client, message: String, now: Moment) -> Next {
        let failure = Failure { kind: SCRIPT.into(), message };
        self.send_queue.discard();
        self.rows.clear();
        client.owed = client.owed.saturating_sub(client.burst.unsent_syncs);
        let unsent_parses = client.burst.unsent_parses.min(client.parsing.len());
        client.parsing.drain(..unsent_parses);
        if client.owed == 0 && !client.burst.unsynced {
            return self.give_up(client, failure, now);
        }
        client.failure.get_or_insert(failure);
        client.in_pipeline = false;
        self.sync_and_send(client, now);
        Next::Rest
    }

    /// Ends a try that failed: rolls back what is open, then retries or counts.
    pub(crate) fn give_up(&mut self, client: &mut Client, failure: Failure, now: Moment) -> Next {
        client.reset_transaction();
        if client.status == TransactionStatus::Idle {
            return self.fail(client, &failure, now);
        }
        client.failure = Some(failure);
        self.send_queue.open().extend_from_slice(&ROLLBACK);
        client.owed += 1;
        self.send(client, Waiting::RollingBack);
        Next::Rest
    }

    /// Runs commands from where the client stands.
    fn advance(&mut self, job: &Job, client: &mut Client, now: Moment) -> Progress {
        let place = client.transaction.script;
        let script = &job.plan.program.scripts[place];
        let wire = &job.wire[place];
        if self.send_queue.is_closed() && !client.in_pipeline {
            client.burst.parts = 0;
            client.burst.in_block = client.status != TransactionStatus::Idle;
        }
        loop {
            let pc = client.transaction.pc;
            let Some(command) = script.commands.get(pc) else {
                return self.end_of_script(client, now);
            };
            let done = match command {
                Command::Set { slot, expr } => expr
                    .eval(&client.variables, &mut client.rng)
                    .map(|value| client.variables.set(*slot, value)),
                Command::SetText { slot, text } => text
                    .eval(&client.variables, &mut client.rng)
                    .map(|value| client.variables.set(*slot, value)),
                Command::Row { values, statement } => {
                    let prepared = &wire[statement.index()];
                    // What was put together is the server's before its rows are the coalescer's.
                    if prepared.coalesced && !self.send_queue.is_closed() {
                        return self.sync_and_send(client, now);
                    }
                    // Once rows are there nothing may be waited for: see `Rows`.
                    if self.must_prepare(job, client, prepared) {
                        return self.prepare(client, prepared);
                    }
                    // Only a batch that gathers its rows has such commands.
                    let form = script.batch.map_or(BatchForm::Values, |batch| batch.form);
                    self.rows.add(form, values, &client.variables)
                }
                Command::JumpIfFalse { condition, target } => {
                    match condition.eval_condition(&client.variables, &mut client.rng) {
                        Ok(true) => Ok(()),
                        Ok(false) => {
                            client.transaction.pc = *target;
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                Command::Jump { target } => {
                    client.transaction.pc = *target;
                    continue;
                }
                Command::Sql(id) => {
                    match self.statement(job, client, script, &wire[id.index()], *id, now) {
                        Ok(None) => continue,
                        Ok(Some(progress)) => return progress,
                        Err(error) => Err(error),
                    }
                }
                Command::Sleep(sleep) => {
                    if !self.send_queue.is_closed() && !client.in_pipeline {
                        return self.sync_and_send(client, now);
                    }
                    match sleep.duration(&client.variables) {
                        Ok(pause) => {
                            client.transaction.pc += 1;
                            client.burst.unsynced |= !self.send_queue.is_closed();
                            self.send(client, Waiting::Executing);
                            client.state = State::Sleeping;
                            self.set_timer(client, now + pause);
                            return Progress::Waits;
                        }
                        Err(error) => Err(error),
                    }
                }
                Command::StartPipeline => {
                    if job.plan.protocol == Protocol::Simple {
                        return Progress::Failed(at(
                            script,
                            pc,
                            "\\startpipeline needs the extended or prepared protocol",
                        ));
                    }
                    if client.in_pipeline {
                        return Progress::Failed(at(script, pc, "a pipeline is open already"));
                    }
                    if let Some(statement) = self.unprepared(job, client, script, wire) {
                        return self.prepare(client, statement);
                    }
                    client.in_pipeline = true;
                    Ok(())
                }
                Command::SyncPipeline | Command::EndPipeline if !client.in_pipeline => {
                    return Progress::Failed(at(script, pc, "no pipeline is open"));
                }
                Command::SyncPipeline => {
                    self.send_queue.open().extend_from_slice(&SYNC);
                    client.owed += 1;
                    client.burst.unsent_syncs += 1;
                    Ok(())
                }
                Command::EndPipeline => {
                    client.in_pipeline = false;
                    client.transaction.pc += 1;
                    return self.sync_and_send(client, now);
                }
            };
            if let Err(error) = done {
                return Progress::Failed(explain(job, place, pc, error));
            }
            client.transaction.pc += 1;
        }
    }

    /// Sends a statement, or adds it to what is sent together. `None` means
    /// that the script goes on.
    fn statement(
        &mut self,
        job: &Job,
        client: &mut Client,
        script: &Script,
        wire: &WireStatement,
        id: StatementId,
        now: Moment,
    ) -> Result<Option<Progress>, EvalError> {
        if let Some(request) = &script.statements[id.index()].request {
            return self.ask(client, request, id, now).map(|()| Some(Progress::Waits));
        }
        let lean = job.plan.mode == Mode::Lean;
        if self.must_prepare(job, client, wire) {
            return Ok(Some(self.prepare(client, wire)));
        }
        let coalesced = wire.coalesced;
        if job.plan.protocol == Protocol::Prepared && !coalesced && !client.prepared[wire.number] {
            // Once in a burst is enough; the ParseComplete confirms it.
            if !client.parsing.contains(&wire.number) {
                self.send_queue.open().extend_from_slice(&wire.parse);
                client.parsing.insert(0, wire.number);
                client.burst.unsent_parses += 1;
                client.burst.parts += 1;
            }
        }
        let statement = &script.statements[id.index()];
        if client.in_pipeline && statement.gset.is_some() {
            let message = at(script, client.transaction.pc, "a pipeline cannot keep a result");
            return Ok(Some(Progress::Failed(message)));
        }
        match &statement.gathered {
            Some(of) if of.form == BatchForm::Coalesce => {
                client.transaction.pc += 1;
                client.burst.parts += 1;
                client.burst.last = id.index();
                client.burst.sent = now;
                self.hand_over(client);
                return Ok(Some(Progress::Waits));
            }
            Some(of) => self.gathered(job, client, wire, of),
            None => {
                let values = Bound::new(&client.variables, &statement.params);
                let out = self.send_queue.open();
                let binary = wire.binary.as_ref().is_some_and(|t| t.render(&values, out).is_ok());
                if !binary {
                    // Text fits every place, so this cannot fail.
                    let _ = wire.text.render(&values, out);
                }
                if let Some(slot) = values.undefined() {
                    return Err(EvalError::Undefined(slot));
                }
            }
        }
        client.transaction.pc += 1;
        client.burst.parts += 1;
        client.burst.last = id.index();
        match wire.effect {
            Effect::Opens => client.burst.in_block = true,
            Effect::Ends => client.burst.in_block = false,
            Effect::Forgets | Effect::None => {}
        }
        if let Some(gset) = &statement.gset {
            client.capture = Some(Box::new(Capture::new(wire.number, gset.clone())));
        }
        let goes_on = client.in_pipeline
            || lean
                && statement.gset.is_none()
                && client.burst.in_block
                && self.send_queue.open_length() < LONGEST_BURST;
        if goes_on {
            return Ok(None);
        }
        if job.plan.protocol != Protocol::Simple {
            self.send_queue.open().extend_from_slice(&SYNC);
        }
        client.owed += 1;
        client.burst.sent = now;
        self.send(client, Waiting::Executing);
        Ok(Some(Progress::Waits))
    }

    /// Whether a statement is to be parsed before it is sent, as pgbench does it.
    fn must_prepare(&self, job: &Job, client: &Client, wire: &WireStatement) -> bool {
        job.plan.protocol == Protocol::Prepared
            && job.plan.mode == Mode::Faithful
            && !client.in_pipeline
            && !wire.coalesced
            && !client.prepared[wire.number]
    }

    /// Gives the row that was gathered to the coalescer, which answers once it is durable.
    fn hand_over(&mut self, client: &mut Client) {
        client.written = client.written.wrapping_add(1);
        client.state = State::Waiting(Waiting::Executing);
        client.transaction.waited = true;
        let row = HandedOver {
            client: client.index,
            number: client.written,
            script: client.transaction.script,
            row: self.rows.take_row(),
        };
        self.handed_over.push(row);
    }

    /// Adds a statement with the rows that were gathered.
    fn gathered(&mut self, job: &Job, client: &mut Client, wire: &WireStatement, of: &Gathered) {
        let lean = job.plan.mode == Mode::Lean;
        if of.form == BatchForm::Copy {
            // It has no parameters.
            let _ = wire.text.render(&Bound::new(&client.variables, &[]), self.send_queue.open());
            // As clients do it, the data follow once the server asks for them. It takes them
            // before, too.
            if lean || client.in_pipeline {
                copy(self.rows.bytes(), self.send_queue.open());
                client.to_copy = Some(Vec::new());
            } else {
                client.to_copy = Some(self.rows.bytes().to_vec());
            }
        } else {
            let parameters = self.rows.parameters(of);
            let out = self.send_queue.open();
            if job.plan.protocol == Protocol::Extended {
                out.extend_from_slice(&wire.parse);
            }
            let values = |out: &mut Vec<u8>| out.extend_from_slice(self.rows.bytes());
            bind_execute_values(&wire.name, parameters, !lean, values, out);
        }
        self.rows.clear();
    }

    /// The end of the commands: what is still unsent goes out first.
    fn end_of_script(&mut self, client: &mut Client, now: Moment) -> Progress {
        if client.in_pipeline {
            return Progress::Failed("the script ended with a pipeline open".into());
        }
        if !self.send_queue.is_closed() {
            return self.sync_and_send(client, now);
        }
        if client.status != TransactionStatus::Idle {
            return Progress::Failed("the script ended without ending its transaction".into());
        }
        Progress::Ended
    }

    /// The first statement of the pipeline that begins here and is not
    /// prepared yet; pgbench prepares all of them before it begins.
    fn unprepared<'a>(
        &self,
        job: &Job,
        client: &Client,
        script: &Script,
        wire: &'a [WireStatement],
    ) -> Option<&'a WireStatement> {
        if job.plan.protocol != Protocol::Prepared || job.plan.mode == Mode::Lean {
            return None;
        }
        script.commands[client.transaction.pc + 1..]
            .iter()
            .take_while(|command| !matches!(command, Command::EndPipeline))
            .filter_map(|command| match command {
                Command::Sql(id) => Some(&wire[id.index()]),
                _ => None,
            })
            .find(|statement| !client.prepared[statement.number])
    }

    /// Has a statement parsed; the script stands still meanwhile.
    fn prepare(&mut self, client: &mut Client, statement: &WireStatement) -> Progress {
        self.send_queue.open().extend_from_slice(&statement.parse);
        self.send_queue.open().extend_from_slice(&SYNC);
        client.parsing.insert(0, statement.number);
        client.owed += 1;
        self.send(client, Waiting::Preparing);
        Progress::Waits
    }

    /// Ends what was put together with a Sync and sends it.
    fn sync_and_send(&mut self, client: &mut Client, now: Moment) -> Progress {
        self.send_queue.open().extend_from_slice(&SYNC);
        client.owed += 1;
        client.burst.sent = now;
        client.burst.unsynced = false;
        self.send(client, Waiting::Executing);
        Progress::Waits
    }

    /// Sends what was put together, with what other clients send in this round.
    pub(crate) fn send(&mut self, client: &mut Client, waiting: Waiting) {
        client.state = State::Waiting(waiting);
        client.transaction.waited = true;
        client.burst.unsent_syncs = 0;
        client.burst.unsent_parses = 0;
        self.send_queue.close(client.index);
    }
}

/// Appends all that is to be copied, and its end.
pub(crate) fn copy(data: &[u8], out: &mut Vec<u8>) {
    copy_data(data, out);
    out.extend_from_slice(&COPY_DONE);
}

fn at(script: &Script, command: usize, what: &str) -> String {
    format!("{}:{}: {what}", script.name, script.line(command))
}

fn explain(job: &Job, script: usize, command: usize, error: EvalError) -> String {
    job.program().explain(script, command, error).to_string()
}
