//! A server whose words are changed on their way.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Fuzz;

/// Longest that a connection lasts: some wait for what never comes.
const LONGEST: u64 = 2000;

/// What stands for a server's socket, and changes what the server says.
#[derive(Debug)]
pub struct FuzzedLink {
    said: Arc<AtomicU64>,
    changed: Arc<AtomicU64>,
    accepts: JoinHandle<()>,
}

struct Way {
    target: PathBuf,
    said: Arc<AtomicU64>,
    changed: Arc<AtomicU64>,
}

impl FuzzedLink {
    /// Listens in a directory for what has its socket in another, both with this port.
    ///
    /// # Errors
    /// When the system refuses the socket.
    pub fn start(
        directory: &Path,
        target: &Path,
        port: u16,
        mut random: Xoshiro256PlusPlus,
    ) -> io::Result<FuzzedLink> {
        let socket = |directory: &Path| directory.join(format!(".s.PGSQL.{port}"));
        let listener = UnixListener::bind(socket(directory))?;
        let (said, changed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let way = Way { target: socket(target), said: said.clone(), changed: changed.clone() };
        let way = Arc::new(way);
        let accepts = tokio::spawn(async move {
            // Until it is ended.
            while let Ok((near, _)) = listener.accept().await {
                let fuzz = Fuzz(Xoshiro256PlusPlus::seed_from_u64(random.random()));
                tokio::spawn(way.clone().join(near, fuzz));
            }
        });
        Ok(FuzzedLink { said, changed, accepts })
    }

    /// Bytes that were said to the gateway.
    pub fn said(&self) -> u64 {
        self.said.load(Ordering::Relaxed)
    }

    /// Changes that were made to them.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }
}

impl Drop for FuzzedLink {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl Way {
    async fn join(self: Arc<Way>, near: UnixStream, mut fuzz: Fuzz) {
        let lasts = Duration::from_millis(fuzz.0.random_range(20..LONGEST));
        let (from, mut to) = near.into_split();
        if fuzz.0.random_range(0..8) == 0 {
            // A peer that is no server.
            let length = fuzz.0.random_range(0..20_000);
            let mut garbage = fuzz.bytes(length);
            if fuzz.0.random()
                && let Some(first) = garbage.first_mut()
            {
                *first = b"RESKNSv"[fuzz.0.random_range(0..7)];
            }
            if to.write_all(&garbage).await.is_ok() {
                self.said.fetch_add(garbage.len() as u64, Ordering::Relaxed);
            }
            return sleep(lasts / 4).await;
        }
        let Ok(far) = UnixStream::connect(&self.target).await else { return };
        let (far_from, far_to) = far.into_split();
        // Some begin to lie once they are trusted.
        let honest = if fuzz.0.random_range(0..4) == 0 { 0 } else { 2500 };
        let passes = async {
            tokio::select! {
                _ = pass(from, far_to) => {}
                _ = self.lie(far_from, to, fuzz, honest) => {}
            }
        };
        // One that lasts too long is cut.
        let _ = timeout(lasts, passes).await;
    }

    async fn lie(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        mut fuzz: Fuzz,
        honest: u64,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        let mut passed = 0;
        // One lie in so many pieces.
        let seldom = fuzz.0.random_range(1..12);
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            let mut bytes = buffer[..count].to_vec();
            if passed >= honest && fuzz.0.random_range(0..seldom) == 0 {
                for _ in 0..fuzz.0.random_range(1..4) {
                    fuzz.mutate(&mut bytes);
                    self.changed.fetch_add(1, Ordering::Relaxed);
                }
            }
            passed += count as u64;
            to.write_all(&bytes).await?;
            self.said.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    tokio::io::copy(&mut from, &mut to).await.map(drop)
}
