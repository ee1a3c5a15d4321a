//! From how many rows on COPY is faster than `unnest`: measured on an empty temporary table with
//! the columns of the real one, which a rollback takes away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_postgres::Error;

use crate::batch::Batch;
use crate::error::tell;
use crate::row::{Column, Format};
use crate::session::{Manner, Session};
use crate::table::{Path, Table, quote};

/// Sizes at which both are tried; the threshold is the first at which COPY wins.
const SIZES: [usize; 6] = [2, 8, 32, 128, 512, 2048];
const REPETITIONS: usize = 5;

/// Measures, and sets the table's threshold. Where it may not make a temporary table, the
/// threshold stays as it is.
pub(crate) async fn measure(session: &mut Session, table: &Arc<Table>) {
    match try_measure(session, table).await {
        Ok(Some(rows)) => {
            tracing::debug!(table = table.name, rows, "COPY from so many rows on");
            table.set_threshold(rows);
        }
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(
                table = table.name,
                error = tell(&error),
                "COPY's threshold not measured"
            );
        }
    }
    session.forget();
}

async fn try_measure(session: &mut Session, table: &Arc<Table>) -> Result<Option<usize>, Error> {
    let Some(fields) = sample(&table.columns, table.format) else {
        return Ok(None);
    };
    let list = table.columns.iter().map(|c| quote(&c.name)).collect::<Vec<_>>().join(", ");
    session.client.batch_execute("BEGIN READ WRITE").await?;
    let created = session
        .client
        .batch_execute(&format!(
            "CREATE TEMPORARY TABLE walwright_threshold ON COMMIT DROP AS
             SELECT {list} FROM {} WITH NO DATA",
            table.name
        ))
        .await;
    let mut found = None;
    if created.is_ok() {
        let trial = Arc::new(table.trial("walwright_threshold"));
        for size in SIZES {
            let mut batch = Batch::default();
            for _ in 0..size {
                let writer = oneshot::channel().0;
                batch.push(Arc::clone(&trial), &fields, None, Instant::now(), writer);
            }
            let rows = (0..size).collect::<Vec<_>>();
            let mut fastest = [Duration::MAX; 2];
            for _ in 0..REPETITIONS {
                for (path, fastest) in [Path::Unnest, Path::Copy].into_iter().zip(&mut fastest) {
                    trial.set_threshold(if path == Path::Copy { 0 } else { usize::MAX });
                    let begun = Instant::now();
                    let put =
                        session.put(&trial, &batch, &rows, Manner { again: false }, false).await;
                    if put.is_err() {
                        session.client.batch_execute("ROLLBACK").await?;
                        return Ok(None);
                    }
                    *fastest = (*fastest).min(begun.elapsed());
                }
            }
            let [unnest, copy] = fastest;
            if copy < unnest {
                found = Some(size);
                break;
            }
        }
        // Where COPY never won, it is not far from winning.
        found = found.or(Some(SIZES[SIZES.len() - 1] * 2));
    }
    session.client.batch_execute("ROLLBACK").await?;
    created.map(|()| found)
}

/// The fields of a row with a likely value of each type; none where a type has no known one.
fn sample(columns: &[Column], format: Format) -> Option<Vec<u8>> {
    let mut fields = Vec::new();
    for column in columns {
        let (binary, text): (Vec<u8>, String) = match column.base.name() {
            "bool" => (vec![1], "t".into()),
            "int2" => (7_i16.to_be_bytes().into(), "7".into()),
            "int4" | "oid" => (1_000_007_i32.to_be_bytes().into(), "1000007".into()),
            "date" => (9_000_i32.to_be_bytes().into(), "2024-08-22".into()),
            "int8" => (1_000_000_007_i64.to_be_bytes().into(), "1000000007".into()),
            "timestamp" | "timestamptz" => {
                (777_777_777_777_777_i64.to_be_bytes().into(), "2024-08-22 01:02:03.456789".into())
            }
            "float4" => (1.5_f32.to_be_bytes().into(), "1.5".into()),
            "float8" => (1.5_f64.to_be_bytes().into(), "1.5".into()),
            "uuid" => (vec![0x5a; 16], "5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a".into()),
            "text" | "varchar" | "bpchar" => (vec![b'x'; 16], "x".repeat(16)),
            "bytea" => (vec![7; 64], "\\x07".repeat(16)),
            "json" => (br#"{"kind": "sample", "n": 1}"#.to_vec(), r#"{"kind": "sample"}"#.into()),
            "jsonb" => {
                (b"\x01{\"kind\": \"sample\", \"n\": 1}".to_vec(), r#"{"kind": "sample"}"#.into())
            }
            _ => return None,
        };
        let field = match format {
            Format::Binary => binary,
            Format::Text => text.into_bytes(),
        };
        fields.extend_from_slice(&i32::try_from(field.len()).ok()?.to_be_bytes());
        fields.extend_from_slice(&field);
    }
    Some(fields)
}
