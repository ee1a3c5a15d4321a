//! Connections without an end, of clients that nobody knows.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::raw_client::startup;

/// Connections that are open at a time.
const OPEN: usize = 4000;
/// Connections that come and go.
const STORM: usize = 20_000;

/// Floods by name: what each client says before it is known, and whether it stays.
pub const FLOODS: [(&str, Flood); 4] = [
    ("silent connections", Flood { says: Says::Nothing, stays: true }),
    ("connections that come and go", Flood { says: Says::Startup, stays: false }),
    ("huge lengths", Flood { says: Says::HugeLength, stays: true }),
    ("first packets that are never whole", Flood { says: Says::HalfStartup, stays: true }),
];

/// Many clients that nobody knows.
#[derive(Debug, Clone, Copy)]
pub struct Flood {
    says: Says,
    stays: bool,
}

#[derive(Debug, Clone, Copy)]
enum Says {
    Nothing,
    Startup,
    HugeLength,
    HalfStartup,
}

/// Lets one come over a gateway: how many connections it had.
pub async fn flood(flood: Flood, place: &Path, port: u16) -> u64 {
    let path = place.join(format!(".s.PGSQL.{port}"));
    let bytes = match flood.says {
        Says::Nothing => Vec::new(),
        Says::Startup => startup("postgres"),
        Says::HugeLength => {
            [&0x7fff_fff0_u32.to_be_bytes()[..], &[0, 3, 0, 0], &[0; 2000]].concat()
        }
        Says::HalfStartup => [&9_999_u32.to_be_bytes()[..], &[0, 3, 0, 0], &[b'x'; 9_000]].concat(),
    };
    let (mut count, mut open) = (0, Vec::new());
    for _ in 0..if flood.stays { OPEN } else { STORM } {
        // A backlog that is full is what a flood is for.
        let Ok(mut client) = UnixStream::connect(&path).await else { continue };
        count += 1;
        // It may be refused by now.
        let _ = client.write_all(&bytes).await;
        if flood.stays {
            open.push(client);
        } else if count % 16 == 0 {
            let _ = client.read(&mut [0; 64]).await;
        }
    }
    if flood.stays {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    count
}
