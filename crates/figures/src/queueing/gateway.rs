//! A network whose clients reach the server through walwright's gateway.
//!
//! A commit that waits for its flush holds neither locks nor a session there, and one flush is
//! under way at a time for all. A few sessions execute what many clients send, so that fewer
//! processes share the processors. The gateway itself takes CPU for every message.

use super::Network;
use super::network::{Gathered, Worker};

/// CPU seconds of the gateway for a statement and its answer, as `walwright run --gateway` shows
/// them on virtual processors of 2026: a system call carries several where many come at once.
const CPU_OF_A_STATEMENT: [f64; 3] = [4e-6, 8e-6, 16e-6];
/// Part of its CPU that a backend takes for a statement that is a transaction of its own, where
/// several follow each other without a switch of processes and none sleeps for its flush.
const CPU_LEFT: [f64; 3] = [0.5, 0.7, 0.95];
/// Sessions for each processor that execute statements which are transactions of their own.
const SPREAD: f64 = 2.0;
/// Sessions that transactions of several statements have, each one alone.
const POOL: f64 = 20.0;

/// What a load sends through the gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThroughGateway {
    /// Statements of a transaction.
    pub statements: f64,
}

impl ThroughGateway {
    /// The network with the gateway in between: with the least that it may gain, as it is
    /// expected, and with the most.
    pub fn put(self, network: &Network) -> [Network; 3] {
        [2, 1, 0].map(|end| self.with(network, CPU_OF_A_STATEMENT[end], CPU_LEFT[end]))
    }

    fn with(self, network: &Network, cpu: f64, left: f64) -> Network {
        let mut network = network.clone();
        let is_single = self.statements < 1.5;
        let processing = &mut network.processing;
        let sessions = match is_single {
            true if processing.processors.is_finite() => SPREAD * processing.processors,
            _ => POOL,
        };
        processing.gateway = Worker { cpu: cpu * self.statements, crowding: 1.0, delay: 0.0 };
        if is_single {
            processing.backend.cpu *= left;
            processing.backend.delay *= left;
        }
        // Reads wait for what they may have seen, so every transaction waits once.
        network.commits.waits = if network.commits.waits > 0.0 { 1.0 } else { 0.0 };
        network.gathered = Some(Gathered { sessions });
        network
    }
}
