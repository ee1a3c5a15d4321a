//! How much may wait or be on its way.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Semaphore, TryAcquireError};

use crate::error::WriteError;
use crate::options::Capacity;

/// Room for rows, and for their bytes; who waits for it is served in turn.
#[derive(Debug)]
pub(crate) struct Room {
    capacity: Capacity,
    rows: Semaphore,
    bytes: Semaphore,
    /// Whether the last who came found none: it is said once.
    is_short: AtomicBool,
}

impl Room {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            rows: Semaphore::new(capacity.rows),
            bytes: Semaphore::new(capacity.bytes),
            is_short: AtomicBool::new(false),
        }
    }

    /// Rows that wait or are on their way, and their bytes.
    pub(crate) fn taken(&self) -> (usize, usize) {
        (
            self.capacity.rows - self.rows.available_permits().min(self.capacity.rows),
            self.capacity.bytes - self.bytes.available_permits().min(self.capacity.bytes),
        )
    }

    /// Takes room for one row, if it is there.
    pub(crate) fn try_take(&self, bytes: usize) -> Result<(), WriteError> {
        let permits = self.permits(bytes)?;
        let refused = |error| match error {
            TryAcquireError::Closed => WriteError::Closed,
            TryAcquireError::NoPermits => {
                let (rows, bytes) = self.taken();
                WriteError::Full { rows, bytes }
            }
        };
        let row = self.rows.try_acquire().map_err(refused)?;
        let space = self.bytes.try_acquire_many(permits).map_err(refused)?;
        row.forget();
        space.forget();
        Ok(())
    }

    /// Waits for room for one row.
    pub(crate) async fn take(&self, bytes: usize) -> Result<(), WriteError> {
        match self.try_take(bytes) {
            Ok(()) => {
                self.is_short.store(false, Ordering::Relaxed);
                return Ok(());
            }
            Err(WriteError::Closed) => return Err(WriteError::Closed),
            Err(_) => {}
        }
        let permits = self.permits(bytes)?;
        if !self.is_short.swap(true, Ordering::Relaxed) {
            let (rows, bytes) = self.taken();
            tracing::warn!(rows, bytes, "writers wait for room");
        }
        let row = self.rows.acquire().await.map_err(|_| WriteError::Closed)?;
        let space = self.bytes.acquire_many(permits).await.map_err(|_| WriteError::Closed)?;
        row.forget();
        space.forget();
        Ok(())
    }

    pub(crate) fn give_back(&self, rows: usize, bytes: usize) {
        self.rows.add_permits(rows);
        self.bytes.add_permits(bytes);
    }

    /// Nobody waits for room any more.
    pub(crate) fn close(&self) {
        self.rows.close();
        self.bytes.close();
    }

    fn permits(&self, bytes: usize) -> Result<u32, WriteError> {
        u32::try_from(bytes).ok().filter(|_| bytes <= self.capacity.bytes).ok_or_else(|| {
            WriteError::Row(format!(
                "the row has {bytes} bytes, more than the capacity of {}",
                self.capacity.bytes
            ))
        })
    }
}
