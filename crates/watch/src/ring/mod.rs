//! The ring: what was seen of one server, for days, in bounded room.
//!
//! A directory of the lab with a file an hour. The newest is written at its end, a frame for each
//! stretch or event; what a crash tore of the last frame is passed over by readers and cut by the
//! next writer. An hour that has passed is kept as it was for a while, then put together into
//! minutes, then into stretches of ten, and at last removed. An hour is put together into a new
//! file that takes the old one's place when it is whole, so that whatever moment a crash comes
//! the hour is there once.

mod frame;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use walwright_record::{Timestamp, Window};
use walwright_store::private;

use crate::event::Event;
use crate::findings::Seen;
use crate::slot::Slot;
use frame::{Frames, frame};

/// Length of a file.
const FILE: Duration = Duration::from_secs(3600);
/// The ending of a file's name.
const ENDING: &str = "ring";

/// One thing kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A stretch and its figures.
    Slot(Slot),
    /// Something that happened.
    Event(Event),
    /// What a diagnosis found.
    Findings(Seen),
}

/// How coarsely an hour is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    /// As it was written.
    Written,
    /// In minutes.
    Minutes,
    /// In stretches of ten minutes.
    Coarse,
}

impl Tier {
    const ALL: [Tier; 3] = [Tier::Written, Tier::Minutes, Tier::Coarse];

    fn name(self) -> &'static str {
        match self {
            Tier::Written => "written",
            Tier::Minutes => "minutes",
            Tier::Coarse => "coarse",
        }
    }

    /// Length of a stretch.
    fn stretch(self) -> Option<Duration> {
        match self {
            Tier::Written => None,
            Tier::Minutes => Some(Duration::from_secs(60)),
            Tier::Coarse => Some(Duration::from_secs(600)),
        }
    }
}

/// How long what is kept how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// As it was written.
    pub written: Duration,
    /// In minutes.
    pub minutes: Duration,
    /// At all.
    pub at_all: Duration,
}

impl Default for Keep {
    /// Two hours as they were written, a day in minutes, a week at all.
    fn default() -> Self {
        let hours = |n: u64| Duration::from_secs(3600 * n);
        Keep { written: hours(2), minutes: hours(24), at_all: hours(24 * 7) }
    }
}

impl Keep {
    fn tier(&self, age: Duration) -> Tier {
        match age {
            age if age <= self.written => Tier::Written,
            age if age <= self.minutes => Tier::Minutes,
            _ => Tier::Coarse,
        }
    }
}

/// Why a ring cannot be used.
#[derive(Debug, Error)]
pub enum RingError {
    /// A file or directory of it cannot be read or written.
    #[error("the ring of what was watched at {path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process writes it.
    #[error(
        "the server is watched already by another process with this lab ({path} is locked); stop it, or name another lab with --lab"
    )]
    Locked {
        /// The lock.
        path: PathBuf,
    },
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> RingError {
    let path = path.to_owned();
    move |source| RingError::Io { path, source }
}

/// A ring that can be read, also while another process writes it.
#[derive(Debug, Clone)]
pub struct Ring {
    directory: PathBuf,
}

/// An hour's file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Hour {
    start: Timestamp,
    tier: Tier,
}

impl Hour {
    fn of(moment: Timestamp) -> Timestamp {
        let length = FILE.as_micros() as i64;
        Timestamp(moment.0.div_euclid(length) * length)
    }

    fn end(&self) -> Timestamp {
        self.start.plus(FILE)
    }

    fn path(&self, directory: &Path) -> PathBuf {
        let seconds = self.start.0 / 1_000_000;
        directory.join(format!("{seconds}-{}.{ENDING}", self.tier.name()))
    }

    fn named(name: &str) -> Option<Hour> {
        let (seconds, tier) = name.strip_suffix(ENDING)?.strip_suffix('.')?.split_once('-')?;
        let tier = Tier::ALL.into_iter().find(|of| of.name() == tier)?;
        let micros = seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?;
        Some(Hour { start: Timestamp(micros), tier })
    }
}

impl Ring {
    /// The ring in a directory, which need not be there.
    pub fn at(directory: PathBuf) -> Ring {
        Ring { directory }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its files by time, of an hour that is there twice the coarser: the finer one was to be
    /// removed when it was whole.
    fn hours(&self) -> Result<Vec<Hour>, RingError> {
        let entries = match self.directory.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed(&self.directory))?,
        };
        let named = entries.flatten().filter_map(|entry| Hour::named(entry.file_name().to_str()?));
        let mut hours: Vec<Hour> = named.collect();
        hours.sort_by(|a, b| a.start.cmp(&b.start).then(b.tier.cmp(&a.tier)));
        hours.dedup_by_key(|hour| hour.start);
        Ok(hours)
    }

    /// Bytes of its files.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn bytes(&self) -> Result<u64, RingError> {
        let sizes = self
            .hours()?
            .into_iter()
            .map(|hour| hour.path(&self.directory).metadata().map_or(0, |meta| meta.len()));
        Ok(sizes.sum())
    }

    /// From when to when it reaches, as far as its files tell; `None` where there is nothing.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn reach(&self) -> Result<Option<Window>, RingError> {
        let hours = self.hours()?;
        let ends = hours.first().zip(hours.last());
        Ok(ends.map(|(first, last)| Window { start: first.start, end: last.end() }))
    }

    /// Calls `each` with what was kept of a window, by time of its beginning; a stretch belongs
    /// to it that begins in it.
    ///
    /// # Errors
    /// When a file cannot be read. What a crash tore of a file is no error.
    pub fn read(&self, window: Window, mut each: impl FnMut(Entry)) -> Result<(), RingError> {
        for hour in self.hours()? {
            if hour.end() <= window.start || hour.start >= window.end {
                continue;
            }
            self.read_file(&hour, |entry| {
                if window.contains(entry.at()) {
                    each(entry);
                }
            })?;
        }
        Ok(())
    }

    fn read_file(&self, hour: &Hour, mut each: impl FnMut(Entry)) -> Result<(), RingError> {
        let path = hour.path(&self.directory);
        let file = match File::open(&path) {
            // Put together or removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(failed(&path))?,
        };
        for entry in Frames::new(file) {
            match serde_json::from_slice(&entry.map_err(failed(&path))?) {
                Ok(entry) => each(entry),
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "an entry of a later version")
                }
            }
        }
        Ok(())
    }
}

impl Entry {
    /// The moment it is kept under.
    pub fn at(&self) -> Timestamp {
        match self {
            Entry::Slot(slot) => slot.start,
            Entry::Event(event) => event.at,
            Entry::Findings(seen) => seen.window.start,
        }
    }
}

/// Writes a ring.
#[derive(Debug)]
pub struct RingWriter {
    ring: Ring,
    keep: Keep,
    /// Held as long as this lives.
    _lock: File,
    hour: Hour,
    file: File,
    /// What the current file names already.
    texts: BTreeSet<i64>,
    tables: BTreeSet<i64>,
}

impl RingWriter {
    /// Opens a ring, made where there is none, to go on from `now`.
    ///
    /// # Errors
    /// When it cannot be written, or another process does.
    pub fn open(directory: &Path, keep: Keep, now: Timestamp) -> Result<RingWriter, RingError> {
        private::create_dir_all(directory).map_err(failed(directory))?;
        let path = directory.join("lock");
        let lock = private::options().write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(failed(&path))?;
        if lock.try_lock().is_err() {
            return Err(RingError::Locked { path });
        }
        let ring = Ring::at(directory.to_owned());
        let hour = Hour { start: Hour::of(now), tier: Tier::Written };
        let (file, texts, tables) = go_on(&ring, &hour)?;
        let writer = RingWriter { ring, keep, _lock: lock, hour, file, texts, tables };
        writer.tidy(now)?;
        Ok(writer)
    }

    /// The ring, to be read.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Keeps something. It is safe from the death of this process when this returns, and from
    /// that of the machine when the system has written its cache.
    ///
    /// # Errors
    /// When it cannot be written. Nothing of it is there then.
    pub fn append(&mut self, mut entry: Entry) -> Result<(), RingError> {
        let start = Hour::of(entry.at());
        if start > self.hour.start {
            self.begin(Hour { start, tier: Tier::Written })?;
        }
        if let Entry::Slot(slot) = &mut entry {
            slot.texts.retain(|id, _| self.texts.insert(*id));
            slot.table_names.retain(|id, _| self.tables.insert(*id));
        }
        let path = self.hour.path(&self.ring.directory);
        let bytes =
            serde_json::to_vec(&entry).map_err(io::Error::from).and_then(|json| frame(&json));
        let bytes = bytes.map_err(failed(&path))?;
        let before = self.file.metadata().map_err(failed(&path))?.len();
        let written = self.file.write_all(&bytes);
        if written.is_err() {
            // Where that fails too, readers pass over it.
            let _ = self.file.set_len(before);
        }
        written.map_err(failed(&path))
    }

    fn begin(&mut self, hour: Hour) -> Result<(), RingError> {
        let path = self.hour.path(&self.ring.directory);
        self.file.sync_all().map_err(failed(&path))?;
        (self.file, self.texts, self.tables) = go_on(&self.ring, &hour)?;
        self.hour = hour;
        self.tidy(self.hour.start)
    }

    /// Puts together what has become old, and removes what is too old.
    fn tidy(&self, now: Timestamp) -> Result<(), RingError> {
        let directory = &self.ring.directory;
        let current = self.ring.hours()?;
        // A finer file beside a coarser one of the same hour, and what was being written.
        for entry in directory.read_dir().map_err(failed(directory))?.flatten() {
            let name = entry.file_name();
            let stale = match name.to_str().and_then(Hour::named) {
                Some(hour) => !current.contains(&hour),
                None => name.to_string_lossy().starts_with(".walwright-"),
            };
            if stale {
                remove(&entry.path())?;
            }
        }
        for hour in current.into_iter().filter(|hour| hour.start < self.hour.start) {
            let age = now.since(hour.end());
            if age > self.keep.at_all {
                remove(&hour.path(directory))?;
                continue;
            }
            let tier = self.keep.tier(age);
            if tier > hour.tier {
                self.put_together(&hour, tier)?;
            }
        }
        Ok(())
    }

    /// Writes an hour anew in longer stretches, and removes what it was.
    fn put_together(&self, hour: &Hour, tier: Tier) -> Result<(), RingError> {
        let Some(stretch) = tier.stretch() else { return Ok(()) };
        let directory = &self.ring.directory;
        let path = Hour { start: hour.start, tier }.path(directory);
        let micros = stretch.as_micros() as i64;
        let place = |at: Timestamp| at.0.div_euclid(micros);
        walwright_store::replace(&path, private::FILE, |file| {
            let mut out = io::BufWriter::new(file);
            let mut failure = None;
            let mut write = |entry: &Entry| {
                let json = serde_json::to_vec(entry).map_err(io::Error::from);
                let written = json.and_then(|json| frame(&json)).and_then(|f| out.write_all(&f));
                if let Err(error) = written {
                    failure.get_or_insert(error);
                }
            };
            let mut open: Option<Slot> = None;
            let read = self.ring.read_file(hour, |entry| match entry {
                Entry::Slot(slot) => match &mut open {
                    Some(whole) if place(whole.start) == place(slot.start) => whole.merge(slot),
                    _ => {
                        if let Some(whole) = open.replace(slot) {
                            write(&Entry::Slot(whole));
                        }
                    }
                },
                other => write(&other),
            });
            open.into_iter().for_each(|whole| write(&Entry::Slot(whole)));
            read.map_err(io::Error::other)?;
            failure.map_or(Ok(()), Err)?;
            out.flush()
        })
        .map_err(failed(&path))?;
        remove(&hour.path(directory))
    }

    /// Flushes what was written to disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(self) -> Result<(), RingError> {
        let path = self.hour.path(&self.ring.directory);
        self.file.sync_all().map_err(failed(&path))
    }
}

/// Opens the file of an hour at its end, cutting what a crash tore, and says what it names.
fn go_on(ring: &Ring, hour: &Hour) -> Result<(File, BTreeSet<i64>, BTreeSet<i64>), RingError> {
    let path = hour.path(&ring.directory);
    let mut options = private::options();
    let file = options.read(true).append(true).create(true).open(&path).map_err(failed(&path))?;
    let (mut texts, mut tables) = (BTreeSet::new(), BTreeSet::new());
    let mut frames = Frames::new(&file);
    for entry in &mut frames {
        if let Ok(Entry::Slot(slot)) = serde_json::from_slice(&entry.map_err(failed(&path))?) {
            texts.extend(slot.texts.keys());
            tables.extend(slot.table_names.keys());
        }
    }
    let whole = frames.whole();
    if whole < file.metadata().map_err(failed(&path))?.len() {
        file.set_len(whole).map_err(failed(&path))?;
    }
    Ok((file, texts, tables))
}

fn remove(path: &Path) -> Result<(), RingError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
