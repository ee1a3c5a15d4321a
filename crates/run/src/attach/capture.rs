//! What the command prints: passed on at once and unchanged, and heard.
//!
//! A terminal stays one for the command, so that it draws and buffers as it does without
//! walwright: a pseudo-terminal that changes no byte stands in. Everything else is a pipe.
//! Where output and errors go to one place they are one stream, so their order stays.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fstat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use walwright_record::Timestamp;
use walwright_results::{Printed, Results};

use super::Printing;

/// What the record calls it.
const NAME: &str = "output of the command";
/// Bytes passed on at a time.
const CHUNK: usize = 64 * 1024;
/// Longest wait for the last words of a command that has ended: something that is not its
/// descendant may hold its output open.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Time until a place that takes no more is tried again.
const FULL: Duration = Duration::from_millis(5);

/// Streams that are ready, for a command to be started with.
pub(super) struct Capture {
    streams: Vec<Stream>,
}

/// From where, and to where.
struct Stream {
    from: File,
    to: File,
}

/// A command's output being passed on.
pub(super) struct Listening {
    printed: Arc<Mutex<Printed>>,
    ends: Vec<Receiver<()>>,
}

impl Capture {
    /// Streams for output and errors of a command.
    pub fn open(printing: &Printing) -> io::Result<(Capture, [Stdio; 2])> {
        let (out, err) = (io::stdout(), io::stderr());
        let copy = |of: &dyn AsFd| of.as_fd().try_clone_to_owned().map(File::from);
        let (out_to, err_to) = match printing {
            Printing::Through => (copy(&out)?, copy(&err)?),
            Printing::ToErrors => (copy(&err)?, copy(&err)?),
            Printing::File(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path)?;
                (copy(&file)?, file)
            }
        };
        let (a, b) = (fstat(&out_to)?, fstat(&err_to)?);
        let is_one = (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        let (out_stream, out_end) = Stream::to(out_to)?;
        if is_one {
            let second = out_end.try_clone()?;
            let capture = Capture { streams: vec![out_stream] };
            return Ok((capture, [Stdio::from(out_end), Stdio::from(second)]));
        }
        let (err_stream, err_end) = Stream::to(err_to)?;
        let capture = Capture { streams: vec![out_stream, err_stream] };
        Ok((capture, [Stdio::from(out_end), Stdio::from(err_end)]))
    }

    /// Begins to pass on, once the command has been started.
    pub fn begin(self) -> io::Result<Listening> {
        let printed = Arc::new(Mutex::new(Printed::new(self.streams.len())));
        let mut ends = Vec::new();
        for (number, stream) in self.streams.into_iter().enumerate() {
            let (at_end, end) = channel();
            let printed = Arc::clone(&printed);
            std::thread::Builder::new()
                .name("command-output".to_owned())
                .spawn(move || stream.pass_on(number, &printed, at_end))?;
            ends.push(end);
        }
        Ok(Listening { printed, ends })
    }
}

impl Stream {
    /// A stream to a place, and the command's end of it.
    fn to(to: File) -> io::Result<(Stream, OwnedFd)> {
        if to.is_terminal()
            && let Ok((from, end)) = pseudo_terminal(&to)
        {
            return Ok((Stream { from, to }, end));
        }
        let (from, end) = io::pipe()?;
        Ok((Stream { from: File::from(OwnedFd::from(from)), to }, end.into()))
    }

    fn pass_on(mut self, number: usize, printed: &Mutex<Printed>, _at_end: Sender<()>) {
        let mut bytes = vec![0; CHUNK];
        loop {
            let read = match self.from.read(&mut bytes) {
                Ok(0) => return,
                Ok(read) => &bytes[..read],
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A pseudo-terminal ends in this when nobody has its other end.
                Err(_) => return,
            };
            let came = Timestamp::now();
            // When nobody takes it any more the command is told so, as without walwright.
            if write_all(&mut self.to, read).is_err() {
                return;
            }
            printed.lock().unwrap_or_else(PoisonError::into_inner).take(number, read, came);
        }
    }
}

/// Writes all, also to what does not wait.
fn write_all(to: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(FULL),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A terminal of the size of another, which passes every byte as it is: its two ends.
fn pseudo_terminal(like: &File) -> io::Result<(File, OwnedFd)> {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&main)?;
    unlockpt(&main)?;
    let name = ptsname(&main, Vec::new())?;
    let end = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOCTTY.bits().cast_signed())
        .open(name.to_str().map_err(io::Error::other)?)?;
    let mut modes = tcgetattr(&end)?;
    modes.make_raw();
    tcsetattr(&end, OptionalActions::Now, &modes)?;
    tcsetwinsize(&end, tcgetwinsize(like)?)?;
    Ok((File::from(main), OwnedFd::from(end)))
}

impl Listening {
    /// The figures of the tool that printed them, once the command has ended; `None` where
    /// none is recognised.
    pub fn results(self) -> Option<Results> {
        let until = Instant::now() + LAST_WORDS;
        for end in &self.ends {
            // It says nothing, and ends when the stream does.
            let _ = end.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *printed, Printed::new(0)).results(NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_a_terminal_and_a_pipe_unchanged() {
        let text = b"a\r\nb\n\x1b[1mprogress: 1.0 s, 9.0 tps, lat 1.0 ms stddev 0.1\n\tend";
        for terminal in [false, true] {
            let (out, mut shown) = if terminal {
                let (main, end) = pseudo_terminal_alone();
                (File::from(end), main)
            } else {
                let (read, write) = io::pipe().unwrap();
                (File::from(OwnedFd::from(write)), File::from(OwnedFd::from(read)))
            };
            let (stream, end) = Stream::to(out).unwrap();
            assert_eq!(File::from(end.try_clone().unwrap()).is_terminal(), terminal);
            let listening = Capture { streams: vec![stream] }.begin().unwrap();
            File::from(end).write_all(text).unwrap();
            let mut seen = vec![0; text.len()];
            shown.read_exact(&mut seen).unwrap();
            assert_eq!(seen, text);
            let heard = listening.results().unwrap();
            assert_eq!((heard.log.file.as_str(), heard.intervals.len()), (NAME, 1));
        }
    }

    fn pseudo_terminal_alone() -> (File, OwnedFd) {
        let (main, end) = {
            let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            unlockpt(&main).unwrap();
            let name = ptsname(&main, Vec::new()).unwrap();
            (main, File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap())
        };
        let mut modes = tcgetattr(&end).unwrap();
        modes.make_raw();
        tcsetattr(&end, OptionalActions::Now, &modes).unwrap();
        (File::from(main), end.into())
    }
}
