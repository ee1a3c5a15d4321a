//! A connection to a server that is cut at a step of the protocol.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::step::{Side, Step, When};

/// Where a connection is to be cut.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// At such a message.
    pub step: Step,
    /// Of which so many pass before, all connections counted.
    pub skip: u32,
    /// And so much of it.
    pub when: When,
}

/// What stands for a server's socket, passes on what is said, and cuts connections at messages.
#[derive(Debug)]
pub struct CuttingLink {
    directory: PathBuf,
    state: Arc<State>,
    accepts: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    target: PathBuf,
    plans: Mutex<VecDeque<Plan>>,
    made: Mutex<BTreeMap<Step, [u64; 3]>>,
}

impl CuttingLink {
    /// Listens in a directory for what has its socket in another, both with this port.
    ///
    /// # Errors
    /// When the system refuses the socket.
    pub fn start(directory: &Path, target: &Path, port: u16) -> io::Result<CuttingLink> {
        let socket = |directory: &Path| directory.join(format!(".s.PGSQL.{port}"));
        let listener = UnixListener::bind(socket(directory))?;
        let state = Arc::new(State {
            target: socket(target),
            plans: Mutex::default(),
            made: Mutex::default(),
        });
        let accepted = state.clone();
        let accepts = tokio::spawn(async move {
            // Until it is ended.
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(accepted.clone().join(near));
            }
        });
        Ok(CuttingLink { directory: directory.to_owned(), state, accepts })
    }

    /// Directory of its socket.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Cuts connections at these, one after the other, and forgets what it had to cut before.
    pub fn cut_at(&self, plans: impl IntoIterator<Item = Plan>) {
        *self.state.plans() = plans.into_iter().collect();
    }

    /// Cuts that are not made yet.
    pub fn left(&self) -> usize {
        self.state.plans().len()
    }

    /// Cuts that were made since this was asked last: before, within and after each message.
    pub fn take_made(&self) -> BTreeMap<Step, [u64; 3]> {
        std::mem::take(&mut self.state.made.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for CuttingLink {
    fn drop(&mut self) {
        self.accepts.abort();
    }
}

impl State {
    fn plans(&self) -> MutexGuard<'_, VecDeque<Plan>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn join(self: Arc<State>, near: UnixStream) {
        // A server that is away is seen as a connection that ends.
        let Ok(far) = UnixStream::connect(&self.target).await else { return };
        let ((near_from, near_to), (far_from, far_to)) = (near.into_split(), far.into_split());
        // Both are dropped when one ends, and so is what they hold.
        tokio::select! {
            _ = self.pass(near_from, far_to, Side::Client) => {}
            _ = self.pass(far_from, near_to, Side::Server) => {}
        }
    }

    /// Passes on what one side says until it ends or is cut.
    async fn pass(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        side: Side,
    ) -> io::Result<()> {
        let mut startup = side == Side::Client;
        let mut held = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            held.extend_from_slice(&buffer[..count]);
            let mut passed = 0;
            while let Some(length) = length_of(&held[passed..], startup) {
                let message = &held[passed..passed + length];
                let cut = Step::of(side, startup, message).and_then(|step| self.cut(step));
                startup = false;
                if let Some(when) = cut {
                    return to.write_all(&held[..passed + when.of(length)]).await;
                }
                passed += length;
            }
            to.write_all(&held[..passed]).await?;
            held.drain(..passed);
        }
    }

    /// Whether the connection is cut at a message of this step.
    fn cut(&self, step: Step) -> Option<When> {
        let mut plans = self.plans();
        let plan = plans.front_mut().filter(|plan| plan.step == step)?;
        if plan.skip > 0 {
            plan.skip -= 1;
            return None;
        }
        let when = plan.when;
        plans.pop_front();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(step).or_default()[when as usize] += 1;
        Some(when)
    }
}

/// The length of the first message, where all of it is there.
fn length_of(bytes: &[u8], startup: bool) -> Option<usize> {
    let typed = usize::from(!startup);
    let length = bytes.get(typed..typed + 4)?.try_into().ok()?;
    let length = typed + usize::try_from(u32::from_be_bytes(length)).ok()?;
    (bytes.len() >= length).then_some(length)
}
