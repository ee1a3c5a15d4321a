//! The record that a connection keeps in the database: which of its batches is written.
//!
//! The row is updated in the transaction of each batch, and only from the number before: of two
//! attempts at one batch, however late the server comes to the first, one finds no row and fails.
//! A transaction's own identifier would not do: after a crash the server may give it out again.

use std::ops::Range;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Statement};

use crate::failure::Failure;
use crate::options::Lanes;
use crate::positions::Positions;
use crate::table::quote_name;

/// Creates the table of [`Idempotency::Lanes`](crate::Idempotency::Lanes); `walwright_lanes`
/// stands for its name.
pub const LANES: &str = "CREATE TABLE IF NOT EXISTS walwright_lanes (
    lane uuid PRIMARY KEY,
    source text,
    batch bigint NOT NULL,
    done int8multirange NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
)";

/// One connection's row.
#[derive(Debug)]
pub(crate) struct Record {
    lane: String,
    /// The batch that is being written.
    batch: i64,
    /// The positions that its transaction adds.
    done: String,
    advance: String,
    table: String,
    source: Option<String>,
}

impl Record {
    /// A new row. With a source it takes over what others did of it, and waits for the end of
    /// what they are doing; those fail from then on.
    pub(crate) async fn begin(
        client: &Client,
        lanes: &Lanes,
        take_over: bool,
    ) -> Result<(Self, Vec<Range<u64>>), Error> {
        let table = quote_name(&lanes.table);
        let lane: String = client.query_one("SELECT gen_random_uuid()::text", &[]).await?.get(0);
        // Of clients that were killed; one that lives and was idle for so long makes a new row.
        let sql =
            format!("DELETE FROM {table} WHERE source IS NULL AND at < now() - interval '7 days'");
        client.execute(&sql, &[]).await?;
        let mut done = String::from("{}");
        if take_over && let Some(source) = &lanes.source {
            // PostgreSQL 14 aggregates ranges, but no multiranges.
            let sql = format!(
                "WITH others AS (DELETE FROM {table} WHERE source = $1 RETURNING done)
                 SELECT coalesce(range_agg(range), '{{}}')::text FROM others, unnest(done) range"
            );
            // Together with the new row below, or not at all.
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
            done = client.query_one(&sql, &[source]).await?.get(0);
        }
        let insert = format!(
            "INSERT INTO {table} (lane, source, batch, done)
             VALUES ($1::text::uuid, $2, 0, $3::text::int8multirange)"
        );
        client.execute(&insert, &[&lane, &lanes.source, &done]).await?;
        if take_over && lanes.source.is_some() {
            client.batch_execute("COMMIT").await?;
        }
        let advance = format!(
            "WITH mine AS (
                 UPDATE {table}
                 SET batch = $2::bigint, done = done + $3::text::int8multirange, at = now()
                 WHERE lane = $1::text::uuid AND batch = $2::bigint - 1 RETURNING 1
             )
             SELECT 1 / count(*) FROM mine"
        );
        let positions = Positions::parse(&done);
        let source = lanes.source.clone();
        Ok((Self { lane, batch: 0, done: "{}".into(), advance, table, source }, positions))
    }

    /// A new row in place of one whose last batch was given up without an answer: that batch
    /// can no longer be committed, and if it was, its positions stay.
    pub(crate) async fn replace(&mut self, client: &Client) -> Result<(), Error> {
        let lane: String = client.query_one("SELECT gen_random_uuid()::text", &[]).await?.get(0);
        let sql = format!(
            "WITH old AS (DELETE FROM {table} WHERE lane = $1::text::uuid RETURNING done)
             INSERT INTO {table} (lane, source, batch, done)
             SELECT $2::text::uuid, $3, 0, coalesce(range_agg(range), '{{}}')
             FROM old, unnest(done) range",
            table = self.table
        );
        client.execute(&sql, &[&self.lane, &lane, &self.source]).await?;
        self.lane = lane;
        self.batch = 0;
        Ok(())
    }

    /// Goes on to the next batch, whose transaction adds `done`.
    pub(crate) fn next(&mut self, done: &Positions) {
        self.batch += 1;
        self.done = done.to_string();
    }

    pub(crate) fn advance_sql(&self) -> &str {
        &self.advance
    }

    /// Marks the batch as written; first in its transaction. `committing` says that the COMMIT
    /// is sent behind it.
    pub(crate) async fn advance(
        &self,
        client: &Client,
        statement: &Statement,
        committing: bool,
    ) -> Result<(), Failure> {
        match client.query_one(statement, &[&self.lane, &self.batch, &self.done]).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
                Err(Failure::Displaced)
            }
            Err(error) => Err(Failure::of(&error, committing)),
        }
    }

    /// In the batch's transaction: these of its positions are not done after all.
    pub(crate) async fn take_back(
        &self,
        client: &Client,
        positions: &Positions,
    ) -> Result<(), Failure> {
        if self.source.is_none() || positions.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "UPDATE {} SET done = done - $2::text::int8multirange WHERE lane = $1::text::uuid",
            self.table
        );
        let taken = client.execute(&sql, &[&self.lane, &positions.to_string()]).await;
        taken.map(|_| ()).map_err(|error| Failure::of(&error, false))
    }

    /// Whether it has no source that somebody else could have taken over.
    pub(crate) fn is_private(&self) -> bool {
        self.source.is_none()
    }

    /// Whether the batch is written, after [`advance`](Self::advance) found no row to update.
    pub(crate) async fn is_written(&self, client: &Client) -> Result<bool, Error> {
        let sql =
            format!("SELECT batch = $2::bigint FROM {} WHERE lane = $1::text::uuid", self.table);
        let row = client.query_opt(&sql, &[&self.lane, &self.batch]).await?;
        Ok(row.is_some_and(|row| row.get(0)))
    }

    /// Takes the row away; where it has a source it stays, since it says what was done.
    pub(crate) async fn end(&self, client: &Client, done: &Positions) -> Result<(), Error> {
        if self.source.is_none() {
            let sql = format!("DELETE FROM {} WHERE lane = $1::text::uuid", self.table);
            client.execute(&sql, &[&self.lane]).await?;
        } else if !done.is_empty() {
            let sql = format!(
                "UPDATE {} SET done = done + $2::text::int8multirange WHERE lane = $1::text::uuid",
                self.table
            );
            client.execute(&sql, &[&self.lane, &done.to_string()]).await?;
        }
        Ok(())
    }
}
