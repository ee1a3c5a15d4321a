//! What clients send in one round: put together first, then sent in one go.

use std::io::{self, Write};
use std::os::fd::AsRawFd;

use crate::client::Client;
use crate::engine::Engine;

/// Messages of one client after the other.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    bytes: Vec<u8>,
    /// Whose messages end where.
    parcels: Vec<(u32, usize)>,
    /// Where the messages begin that nobody has closed yet.
    opened: usize,
}

impl SendQueue {
    /// Where the client whose turn it is adds its messages.
    #[inline]
    pub(crate) fn open(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes added since the last client was closed.
    #[inline]
    pub(crate) fn open_length(&self) -> usize {
        self.bytes.len() - self.opened
    }

    /// Whether nothing was added since the last client was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.open_length() == 0
    }

    /// What was added is for this client, and complete.
    #[inline]
    pub(crate) fn close(&mut self, client: u32) {
        if !self.is_closed() {
            self.opened = self.bytes.len();
            self.parcels.push((client, self.opened));
        }
    }

    /// Forgets what was added since the last client was closed.
    pub(crate) fn discard(&mut self) {
        self.bytes.truncate(self.opened);
    }

    /// Hands out the messages, client by client, and is empty then.
    pub(crate) fn empty(&mut self, mut post: impl FnMut(u32, &[u8])) {
        let mut from = 0;
        for (client, to) in self.parcels.drain(..) {
            post(client, &self.bytes[from..to]);
            from = to;
        }
        self.bytes.clear();
        self.bytes.shrink_to(LARGEST_KEPT);
        self.opened = 0;
    }
}

/// Memory kept from one round to the next.
const LARGEST_KEPT: usize = 1024 * 1024;

impl Engine {
    /// Sends a client's messages; what the socket does not take now goes when
    /// it becomes writable.
    pub(crate) fn post(&mut self, client: &mut Client, bytes: &[u8]) -> io::Result<()> {
        // A connection lost in this round needs its messages no more.
        let Some(link) = &mut client.link else { return Ok(()) };
        let mut sent = 0;
        while link.unsent.is_empty() && sent < bytes.len() {
            match link.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let rest = &bytes[sent..];
        if !rest.is_empty() || link.stream.has_unsent() {
            link.unsent.extend_from_slice(rest);
            self.poller.change(link.stream.as_raw_fd(), u64::from(client.index), true)?;
        }
        Ok(())
    }

    /// Goes on sending what the socket did not take before.
    pub(crate) fn post_rest(&mut self, client: &mut Client) -> io::Result<()> {
        let Some(link) = &mut client.link else { return Ok(()) };
        let mut sent = 0;
        while sent < link.unsent.len() {
            match link.stream.write(&link.unsent[sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        link.unsent.drain(..sent);
        match link.stream.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            done => done?,
        }
        if link.unsent.is_empty() {
            link.unsent = Vec::new();
            self.poller.change(link.stream.as_raw_fd(), u64::from(client.index), false)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_gets_what_was_added_before_it_was_closed() {
        let mut send_queue = SendQueue::default();
        for round in 0..2_u8 {
            send_queue.open().extend([round, 1]);
            send_queue.close(7);
            send_queue.open().extend([9; 100]);
            send_queue.discard();
            send_queue.close(8);
            send_queue.open().push(3);
            assert_eq!((send_queue.open_length(), send_queue.is_closed()), (1, false));
            send_queue.close(9);
            let mut posted = Vec::new();
            send_queue.empty(|client, bytes| posted.push((client, bytes.to_vec())));
            assert_eq!(posted, [(7, vec![round, 1]), (9, vec![3])]);
            assert!(send_queue.is_closed());
        }
    }
}
