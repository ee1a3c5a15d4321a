//! Rows that the server refused, kept where somebody can look at them.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::{TryStreamExt, pin_mut};
use serde_json::{Value, json};
use tokio_postgres::{Client, Error};

use crate::batch::Batch;
use crate::error::{ConnectError, Refusal};
use crate::failure::Failure;
use crate::options;
use crate::row::Format;
use crate::session::{Parameter, Session};
use crate::table::quote_name;

/// Creates the table of [`DeadLetters::Table`](crate::DeadLetters::Table);
/// `walwright_dead_letters` stands for its name.
pub const DEAD_LETTERS: &str = "CREATE TABLE IF NOT EXISTS walwright_dead_letters (
    at timestamptz NOT NULL DEFAULT now(),
    target text NOT NULL,
    sqlstate text NOT NULL,
    constraint_name text,
    message text NOT NULL,
    payload jsonb
)";

/// Where dead letters go.
#[derive(Debug)]
pub(crate) enum DeadLetters {
    None,
    Table(String),
    File(Arc<Mutex<File>>),
}

impl DeadLetters {
    pub(crate) async fn open(
        client: &Client,
        options: &options::DeadLetters,
    ) -> Result<Self, ConnectError> {
        match options {
            options::DeadLetters::None => Ok(Self::None),
            options::DeadLetters::Table { name, create } => {
                ensure_table(client, DEAD_LETTERS, "walwright_dead_letters", name, *create).await?;
                Ok(Self::Table(quote_name(name)))
            }
            options::DeadLetters::File(path) => {
                let opened = File::options().create(true).append(true).open(path);
                let file = opened
                    .map_err(|error| ConnectError::DeadLetters { path: path.clone(), error })?;
                Ok(Self::File(Arc::new(Mutex::new(file))))
            }
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Keeps rows of a batch: in the transaction that the session has open, or on disk.
    /// `may_be_kept` says that the table may have them of an attempt whose outcome was lost.
    pub(crate) async fn keep(
        &self,
        session: &mut Session,
        batch: &Batch,
        refused: &[(usize, Refusal)],
        may_be_kept: bool,
    ) -> Result<(), Failure> {
        if matches!(self, Self::None) || refused.is_empty() {
            return Ok(());
        }
        let rows = refused.iter().map(|(row, _)| *row).collect::<Vec<_>>();
        let payloads = payloads(session, batch, &rows).await?;
        match self {
            Self::None => Ok(()),
            Self::Table(name) => {
                let unless = if may_be_kept {
                    format!(
                        "WHERE NOT EXISTS (SELECT FROM {name} k WHERE k.target = l.target
                         AND k.sqlstate = l.sqlstate AND k.payload = l.payload::jsonb)"
                    )
                } else {
                    String::new()
                };
                let sql = format!(
                    "INSERT INTO {name} (target, sqlstate, constraint_name, message, payload)
                     SELECT target, sqlstate, constraint_name, message, payload::jsonb
                     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
                          AS l(target, sqlstate, constraint_name, message, payload) {unless}"
                );
                let targets =
                    rows.iter().map(|row| batch.rows[*row].table.name.as_str()).collect::<Vec<_>>();
                let of = |part: fn(&Refusal) -> Option<&str>| {
                    refused.iter().map(|(_, refusal)| part(refusal)).collect::<Vec<_>>()
                };
                let states = of(|refusal| Some(&refusal.sqlstate));
                let constraints = of(|refusal| refusal.constraint.as_deref());
                let messages = of(|refusal| Some(&refusal.message));
                session
                    .client
                    .execute(&sql, &[&targets, &states, &constraints, &messages, &payloads])
                    .await
                    .map(|_| ())
                    .map_err(|error| kept(Failure::of(&error, false)))
            }
            Self::File(file) => {
                let mut lines = String::new();
                for ((row, refusal), payload) in refused.iter().zip(payloads) {
                    let payload: Value = serde_json::from_str(&payload).unwrap_or(Value::Null);
                    let line = json!({
                        "table": batch.rows[*row].table.name,
                        "sqlstate": refusal.sqlstate,
                        "constraint": refusal.constraint,
                        "message": refusal.message,
                        "payload": payload,
                    });
                    lines.push_str(&line.to_string());
                    lines.push('\n');
                }
                let file = Arc::clone(file);
                let written = tokio::task::spawn_blocking(move || {
                    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                    file.write_all(lines.as_bytes())?;
                    file.sync_data()
                });
                match written.await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => {
                        Err(Failure::Passing(format!("the file for dead letters: {error}")))
                    }
                    Err(error) => Err(Failure::Passing(error.to_string())),
                }
            }
        }
    }
}

/// A refusal of the dead letter's own row must not be taken for one of the row it keeps.
fn kept(failure: Failure) -> Failure {
    match failure {
        Failure::Row { refusal, .. } | Failure::Statement(refusal) => {
            Failure::Passing(format!("the table of dead letters: {refusal}"))
        }
        failure => failure,
    }
}

/// Creates a table of ours where that was asked for, or says how.
pub(crate) async fn ensure_table(
    client: &Client,
    ddl: &str,
    usual: &str,
    name: &str,
    create: bool,
) -> Result<(), ConnectError> {
    let ddl = ddl.replacen(usual, &quote_name(name), 1);
    let there = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&name]).await?;
    if there.get(0) {
        return Ok(());
    }
    if !create {
        return Err(ConnectError::Table {
            table: name.to_owned(),
            reason: format!("is not there. Create it:\n{ddl};"),
        });
    }
    client.batch_execute(&ddl).await?;
    Ok(())
}

/// Rows as JSON, which the server reads; where it cannot read a field of a row, the row's bytes
/// are told in hexadecimal.
async fn payloads(
    session: &mut Session,
    batch: &Batch,
    rows: &[usize],
) -> Result<Vec<String>, Failure> {
    if rows.len() > 1
        && let Ok(payloads) = read(session, batch, rows).await?
    {
        return Ok(payloads);
    }
    let mut payloads = Vec::new();
    for row in rows {
        let payload = match read(session, batch, &[*row]).await? {
            Ok(mut alone) => alone.pop(),
            Err(error) => {
                tracing::debug!(%error, "a dead letter is told by its bytes");
                None
            }
        };
        payloads.push(payload.unwrap_or_else(|| bytes_of(batch, *row)));
    }
    Ok(payloads)
}

/// What the server reads, or why it cannot read one of the rows.
async fn read(
    session: &mut Session,
    batch: &Batch,
    rows: &[usize],
) -> Result<Result<Vec<String>, Error>, Failure> {
    let lost = |error: Error| Failure::of(&error, false);
    session.client.batch_execute("SAVEPOINT walwright").await.map_err(lost)?;
    let read = ask(session, batch, rows).await;
    let end = match &read {
        Ok(_) => "RELEASE SAVEPOINT walwright",
        Err(_) => "ROLLBACK TO SAVEPOINT walwright; RELEASE SAVEPOINT walwright",
    };
    session.client.batch_execute(end).await.map_err(lost)?;
    Ok(read)
}

/// One question for each row, all sent at once.
async fn ask(session: &mut Session, batch: &Batch, rows: &[usize]) -> Result<Vec<String>, Error> {
    let mut statements = Vec::new();
    for row in rows {
        let table = &batch.rows[*row].table;
        statements.push(match table.format {
            Format::Binary => Some(session.as_json(table).await?),
            Format::Text => None,
        });
    }
    let client = &session.client;
    let questions = rows.iter().zip(&statements).map(|(row, statement)| async move {
        let Some(statement) = statement else {
            return Ok(bytes_of(batch, *row));
        };
        let value = |field: Option<&[u8]>| field.map(Bytes::copy_from_slice);
        let fields = batch.fields(*row).map(|field| Parameter { value: value(field), text: false });
        let answer = client.query_raw(statement, &fields.collect::<Vec<_>>()).await?;
        pin_mut!(answer);
        match answer.try_next().await? {
            Some(row) => row.try_get(0),
            None => Ok("null".to_owned()),
        }
    });
    try_join_all(questions).await
}

/// A row's fields as they were given: as text, or in hexadecimal.
fn bytes_of(batch: &Batch, row: usize) -> String {
    let table = &batch.rows[row].table;
    let object = table.columns.iter().zip(batch.fields(row)).map(|(column, field)| {
        let value = match (field, table.format) {
            (None, _) => Value::Null,
            (Some(field), Format::Text) => {
                json!(String::from_utf8_lossy(field).replace('\0', "\\0"))
            }
            (Some(field), Format::Binary) => json!(format!("\\x{}", hexadecimal(field))),
        };
        (column.name.clone(), value)
    });
    Value::Object(object.collect()).to_string()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
