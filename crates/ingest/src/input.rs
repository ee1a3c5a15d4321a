//! Where rows come from: a file or standard input, read by a thread that a stop wakes.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};

use crate::error::IngestError;

/// An input that can be read.
#[derive(Debug)]
pub struct Input {
    /// What it is called where its rows are told of.
    pub name: String,
    pub(crate) path: Option<PathBuf>,
    pub(crate) file: File,
    /// Bytes that are still to be read, where there is a limit.
    pub(crate) left: Option<u64>,
}

impl Input {
    /// Standard input.
    ///
    /// # Errors
    /// Where there is none.
    pub fn stdin() -> io::Result<Self> {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { name: "standard input".to_owned(), path: None, file, left: None })
    }

    /// What a thread writes, as if it came by a pipe.
    ///
    /// # Errors
    /// Where the system has no pipe or thread left.
    pub fn written_by(
        name: &str,
        write: impl FnOnce(File) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (read, end) = rustix::pipe::pipe()?;
        // Who reads no more breaks the pipe, and nobody misses the rest.
        std::thread::Builder::new().name("writer".to_owned()).spawn(|| write(File::from(end)))?;
        Ok(Self { name: name.to_owned(), path: None, file: File::from(read), left: None })
    }

    /// A file.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn file(path: &Path) -> Result<Self, IngestError> {
        let wrong = |error| IngestError::File { path: path.to_owned(), error };
        let file = File::open(path).map_err(wrong)?;
        if file.metadata().map_err(wrong)?.is_dir() {
            return Err(wrong(io::Error::other("it is a directory")));
        }
        let path = path.canonicalize().map_err(wrong)?;
        Ok(Self { name: path.display().to_string(), path: Some(path), file, left: None })
    }

    /// Its size, where it is a file on a disk.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        let about = self.file.metadata().ok()?;
        about.is_file().then_some(about.len())
    }

    /// Whether somebody types it.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.file.is_terminal()
    }

    /// Reads some bytes, 0 at the end; none as soon as the other end of `wake` is closed.
    pub(crate) fn read(&mut self, into: &mut [u8], wake: &OwnedFd) -> io::Result<Option<usize>> {
        let most = self.left.and_then(|left| usize::try_from(left).ok()).unwrap_or(into.len());
        let most = most.min(into.len());
        let count = self.read_some(&mut into[..most], wake)?;
        self.left = self.left.zip(count).map(|(left, count)| left - count as u64);
        Ok(count)
    }

    fn read_some(&mut self, into: &mut [u8], wake: &OwnedFd) -> io::Result<Option<usize>> {
        loop {
            let mut ready =
                [PollFd::new(&self.file, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(rustix::io::Errno::INTR) => continue,
                done => done?,
            };
            if !ready[1].revents().is_empty() {
                return Ok(None);
            }
            match self.file.read(into) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Somebody else has made it so that it does not block.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done.map(Some),
            }
        }
    }
}
