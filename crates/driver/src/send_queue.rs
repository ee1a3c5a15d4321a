//! What clients send in one round: put together first, then sent in one go.

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
