//! A connection between two programs that can be cut.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

/// No cut is wanted.
const NEVER: i64 = i64::MAX;

/// What stands for a server's socket, and passes on what is said.
#[derive(Debug)]
pub struct Link {
    directory: PathBuf,
    state: Arc<State>,
    accepts: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    target: PathBuf,
    /// Bytes that pass before the connection is cut on which they do.
    left: AtomicI64,
    /// Whether answers are given to others than those they are for.
    crosses: bool,
    cut_all: broadcast::Sender<()>,
}

fn socket(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!(".s.PGSQL.{port}"))
}

impl Link {
    /// Listens in a directory for what has its socket in another, both with this port.
    ///
    /// # Errors
    /// When the system refuses the socket.
    pub fn start(directory: &Path, target: &Path, port: u16) -> io::Result<Link> {
        Link::open(directory, target, port, false)
    }

    /// The same of one that sometimes changes whose an answer is, which must be found.
    ///
    /// # Errors
    /// When the system refuses the socket.
    pub fn start_crossing(directory: &Path, target: &Path, port: u16) -> io::Result<Link> {
        Link::open(directory, target, port, true)
    }

    fn open(directory: &Path, target: &Path, port: u16, crosses: bool) -> io::Result<Link> {
        let listener = UnixListener::bind(socket(directory, port))?;
        let (cut_all, _) = broadcast::channel(1);
        let left = AtomicI64::new(NEVER);
        let target = socket(target, port);
        let state = Arc::new(State { target, left, crosses, cut_all });
        let accepted = state.clone();
        let accepts = tokio::spawn(async move {
            // Until it is ended.
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(accepted.clone().join(near));
            }
        });
        Ok(Link { directory: directory.to_owned(), state, accepts })
    }

    /// Directory of its socket.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Cuts the connection on which so many bytes more have passed, all connections counted,
    /// in the middle of what is said.
    pub fn cut_after(&self, bytes: u32) {
        self.state.left.store(i64::from(bytes), Ordering::Release);
    }

    /// Cuts all connections.
    pub fn cut_all(&self) {
        // There may be none.
        let _ = self.state.cut_all.send(());
    }

    /// Whether a cut that was wanted was made.
    pub fn was_cut(&self) -> bool {
        self.state.left.load(Ordering::Acquire) == NEVER
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepts.abort();
        self.cut_all();
    }
}

impl State {
    async fn join(self: Arc<State>, near: UnixStream) {
        let mut cut = self.cut_all.subscribe();
        // A server that is away is seen as a connection that ends.
        let Ok(far) = UnixStream::connect(&self.target).await else { return };
        let ((near_from, near_to), (far_from, far_to)) = (near.into_split(), far.into_split());
        // Both are dropped when one ends, and so is what they hold.
        tokio::select! {
            _ = self.pass(near_from, far_to, false) => {}
            _ = self.pass(far_from, near_to, self.crosses) => {}
            _ = cut.recv() => {}
        }
    }

    /// Passes on what one side says until it ends or is cut.
    async fn pass(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        crosses: bool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            if crosses {
                cross(&mut buffer[..count]);
            }
            let rest = self.spend(count);
            to.write_all(&buffer[..rest.unwrap_or(count)]).await?;
            if rest.is_some() {
                return Ok(());
            }
        }
    }

    /// How many of these bytes are passed on before the connection is cut, if it is.
    fn spend(&self, count: usize) -> Option<usize> {
        if self.left.load(Ordering::Acquire) == NEVER {
            return None;
        }
        let count = i64::try_from(count).unwrap_or(NEVER);
        let mut cut = None;
        let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            cut = (left != NEVER && left < count).then_some(left);
            Some(match left {
                NEVER => NEVER,
                left if left < count => NEVER,
                left => left - count,
            })
        });
        cut.and_then(|left| usize::try_from(left).ok())
    }
}

/// Makes the answer to one client's write, if there is one, that to another's: one column of
/// eight bytes, in the upper half of which is the client's number.
fn cross(bytes: &mut [u8]) {
    const ROW: &[u8] = b"D\0\0\0\x12\0\x01\0\0\0\x08";
    if let Some(at) = bytes.windows(ROW.len()).position(|of| of == ROW)
        && let Some(number) = bytes.get_mut(at + ROW.len() + 3)
    {
        *number ^= 1;
    }
}
