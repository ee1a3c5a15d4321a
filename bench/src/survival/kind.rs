//! What happens.

use clap::ValueEnum;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// What happens in a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A client closes its connection, answers unread.
    ClientCloses,
    /// A client's connection is reset.
    ClientResets,
    /// A client says that it sends nothing more, and reads on.
    ClientHalfCloses,
    /// A client is gone in the middle of a message.
    ClientBreaksOff,
    /// A client cancels what it runs.
    Cancel,
    /// Somebody cancels with a wrong key.
    CancelWrongKey,
    /// A client cancels what has ended.
    CancelLate,
    /// A server session of the pool is terminated.
    SessionTerminated,
    /// The barrier session is.
    BarrierTerminated,
    /// A connection between gateway and server is cut in the middle of what is said.
    ServerLinkCut,
    /// All of them are cut.
    ServerLinksCut,
    /// A connection between client and gateway is cut in the middle of what is said.
    ClientLinkCut,
    /// The server is restarted in order.
    ServerRestarted,
    /// The server is restarted and recovers.
    ServerCrashed,
    /// The gateway is killed and started again.
    GatewayKilled,
    /// The gateway is restarted in order.
    GatewayRestarted,
    /// There is no place on the disk for the tables.
    DiskFull,
    /// There is none on the disk for the WAL: the server panics.
    WalDiskFull,
    /// The synchronous standby is stopped and started again.
    StandbyLost,
    /// No standby has to confirm anything any more, then again one has to.
    StandbyDismissed,
}

/// What a server has around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Terrain {
    /// Nothing more.
    Plain,
    /// A synchronous standby.
    Standby,
    /// A disk of its own for the WAL, which is small.
    SmallWal,
}

impl Terrain {
    /// The terrain of a round.
    pub fn of_round(round: u64) -> Terrain {
        match round % 12 {
            5 => Terrain::SmallWal,
            11 => Terrain::Standby,
            _ => Terrain::Plain,
        }
    }
}

impl Kind {
    /// All of them, and how often each happens: of 1,000 cycles, where it happens at all.
    const ALL: [(Kind, u32); 20] = [
        (Kind::ClientCloses, 130),
        (Kind::ClientResets, 100),
        (Kind::ClientHalfCloses, 90),
        (Kind::ClientBreaksOff, 130),
        (Kind::Cancel, 110),
        (Kind::CancelWrongKey, 50),
        (Kind::CancelLate, 60),
        (Kind::SessionTerminated, 110),
        (Kind::BarrierTerminated, 40),
        (Kind::ServerLinkCut, 60),
        (Kind::ServerLinksCut, 20),
        (Kind::ClientLinkCut, 60),
        (Kind::ServerRestarted, 8),
        (Kind::ServerCrashed, 8),
        (Kind::GatewayKilled, 20),
        (Kind::GatewayRestarted, 10),
        (Kind::DiskFull, 15),
        (Kind::WalDiskFull, 60),
        (Kind::StandbyLost, 100),
        (Kind::StandbyDismissed, 20),
    ];

    /// Where it can happen.
    pub fn terrain(self) -> Terrain {
        match self {
            Kind::StandbyLost | Kind::StandbyDismissed => Terrain::Standby,
            Kind::WalDiskFull => Terrain::SmallWal,
            _ => Terrain::Plain,
        }
    }

    /// Whether it happens to a client of its own.
    pub fn strikes_a_client(self) -> bool {
        use Kind::{Cancel, CancelLate, CancelWrongKey, ClientBreaksOff, ClientCloses};
        matches!(
            self,
            ClientCloses
                | Kind::ClientResets
                | Kind::ClientHalfCloses
                | ClientBreaksOff
                | Cancel
                | CancelLate
                | CancelWrongKey
        )
    }

    /// Whether it restarts what the load goes through.
    fn restarts(self) -> bool {
        use Kind::{GatewayKilled, GatewayRestarted, ServerCrashed, ServerRestarted};
        matches!(self, ServerRestarted | ServerCrashed | GatewayKilled | GatewayRestarted)
    }

    /// One of those that can happen on a terrain, and in a round in which a gateway is to grow old
    /// none that ends it.
    pub fn draw(random: &mut Xoshiro256PlusPlus, terrain: Terrain, ages: bool) -> Kind {
        let standby = terrain == Terrain::Standby;
        let can = |kind: Kind| match kind {
            kind if kind.terrain() != Terrain::Plain => kind.terrain() == terrain,
            Kind::GatewayKilled | Kind::GatewayRestarted => !ages,
            Kind::DiskFull => !standby,
            kind => !standby || !kind.restarts(),
        };
        let all = Kind::ALL.iter().filter(|(kind, _)| can(*kind));
        let mut at = random.random_range(0..all.clone().map(|(_, weight)| weight).sum());
        for (kind, weight) in all {
            if at < *weight {
                return *kind;
            }
            at -= weight;
        }
        Kind::ClientCloses
    }
}
