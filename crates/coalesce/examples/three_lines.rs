//! Sixteen writers, one coalescer: `cargo run --example three_lines -- postgres://…`

use std::time::{Duration, Instant};

use walwright_coalesce::{Coalescer, Options, row};

struct Event {
    id: i64,
    kind: String,
}

row!(Event { id, kind });

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give a connection string")?;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let table = "CREATE TABLE IF NOT EXISTS three_lines (id bigint, kind text)";
    client.batch_execute(table).await?;
    drop(client);
    connection.await??;

    let events = Coalescer::<Event>::connect(&url, "three_lines", Options::default()).await?;
    let begun = Instant::now();
    let writers = (0..16).map(|writer| {
        let events = events.clone();
        tokio::spawn(async move {
            for n in 0..1000 {
                events.write(Event { id: writer * 1000 + n, kind: "click".into() }).await?;
            }
            Ok::<_, walwright_coalesce::WriteError>(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    println!("16,000 durable rows in {:.1?}", begun.elapsed());
    let left = events.close(Duration::from_secs(10)).await;
    assert!(left.is_empty());
    Ok(())
}
