//! Rows that the server refused, kept where somebody can look at them.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio_postgres::{Client, Statement};

use crate::batch::Batch;
use crate::error::{ConnectError, Refusal};
use crate::failure::Failure;
use crate::options;
use crate::row::Format;
use crate::session::Parameter;
use crate::table::{Table, quote_name};

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

    /// Keeps a row: in the transaction that `client` has open, or on disk. `may_be_kept` says that
    /// the table may have it of an attempt whose outcome was lost.
    pub(crate) async fn keep(
        &self,
        client: &Client,
        batch: &Batch,
        row: usize,
        refusal: &Refusal,
        may_be_kept: bool,
    ) -> Result<(), Failure> {
        if matches!(self, Self::None) {
            return Ok(());
        }
        let table = &batch.rows[row].table;
        let payload = payload(client, table, batch, row).await?;
        match self {
            Self::None => Ok(()),
            Self::Table(name) => {
                let unless = if may_be_kept {
                    format!(
                        "WHERE NOT EXISTS (SELECT FROM {name} WHERE target = $1
                         AND sqlstate = $2 AND payload = $5::text::jsonb)"
                    )
                } else {
                    String::new()
                };
                let sql = format!(
                    "INSERT INTO {name} (target, sqlstate, constraint_name, message, payload)
                     SELECT $1::text, $2::text, $3::text, $4::text, $5::text::jsonb {unless}"
                );
                let Refusal { sqlstate, constraint, message, .. } = refusal;
                client
                    .execute(&sql, &[&table.name, sqlstate, constraint, message, &payload])
                    .await
                    .map(|_| ())
                    .map_err(|error| kept(Failure::of(&error, false)))
            }
            Self::File(file) => {
                let payload: Value = serde_json::from_str(&payload).unwrap_or(Value::Null);
                let mut line = json!({
                    "table": table.name,
                    "sqlstate": refusal.sqlstate,
                    "constraint": refusal.constraint,
                    "message": refusal.message,
                    "payload": payload,
                })
                .to_string();
                line.push('\n');
                let file = Arc::clone(file);
                let written = tokio::task::spawn_blocking(move || {
                    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                    file.write_all(line.as_bytes())?;
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

/// A row as JSON. The server knows how each type is written; where it cannot read a field, the
/// field's bytes are told in hexadecimal.
async fn payload(
    client: &Client,
    table: &Table,
    batch: &Batch,
    row: usize,
) -> Result<String, Failure> {
    let fields = batch.fields(row).collect::<Vec<_>>();
    if table.format == Format::Binary {
        let values = table
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                format!(
                    "${}::{} AS {}",
                    at + 1,
                    column.type_name,
                    crate::table::quote(&column.name)
                )
            })
            .collect::<Vec<_>>()
            .join(", ");
        let sql = format!("SELECT to_jsonb(r)::text FROM (SELECT {values}) r");
        let lost = |error| Failure::of(&error, false);
        client.batch_execute("SAVEPOINT walwright").await.map_err(lost)?;
        match read(client, &sql, &fields).await {
            Ok(payload) => {
                client.batch_execute("RELEASE SAVEPOINT walwright").await.map_err(lost)?;
                return Ok(payload);
            }
            Err(error) => {
                tracing::debug!(%error, "a dead letter is told by its bytes");
                client
                    .batch_execute("ROLLBACK TO SAVEPOINT walwright; RELEASE SAVEPOINT walwright")
                    .await
                    .map_err(lost)?;
            }
        }
    }
    let object = table.columns.iter().zip(fields).map(|(column, field)| {
        let value = match (field, table.format) {
            (None, _) => Value::Null,
            (Some(field), Format::Text) => {
                json!(String::from_utf8_lossy(field).replace('\0', "\\0"))
            }
            (Some(field), Format::Binary) => json!(format!("\\x{}", hexadecimal(field))),
        };
        (column.name.clone(), value)
    });
    Ok(Value::Object(object.collect()).to_string())
}

async fn read(
    client: &Client,
    sql: &str,
    fields: &[Option<&[u8]>],
) -> Result<String, tokio_postgres::Error> {
    let statement: Statement = client.prepare(sql).await?;
    let parameters = fields
        .iter()
        .map(|field| Parameter { value: field.map(Bytes::copy_from_slice), text: false })
        .collect::<Vec<_>>();
    let rows = client.query_raw(&statement, &parameters).await?;
    futures_util::pin_mut!(rows);
    match futures_util::TryStreamExt::try_next(&mut rows).await? {
        Some(row) => row.try_get(0),
        None => Ok("null".into()),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
