//! Which sessions of a look at waits belong to the clients whose time is told.

use walwright_record::{Record, Row, Source, Window};

use crate::GatewayTime;

/// Those of our load where there is one: on a shared server the sessions of others are no part of
/// what its clients waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSessions {
    /// The load's alone.
    pub ours: bool,
    /// Without the session by which a gateway flushes: its clients wait for it in the gateway,
    /// whose metrics tell how long, and would be counted twice.
    without_barrier: bool,
}

impl ClientSessions {
    /// Those of a window.
    pub fn of(record: &Record, window: Window) -> ClientSessions {
        let ticks = record.samples(Source::Waits).iter().filter(|tick| window.contains(tick.at));
        let is_ours = |row: &Row| row.flag("ours") == Some(true);
        ClientSessions {
            ours: record.load.is_some() && ticks.flat_map(|tick| &tick.rows).any(is_ours),
            without_barrier: GatewayTime::of(record, window).is_some(),
        }
    }

    /// Whether a row of a look counts them.
    pub fn contain(self, row: &Row) -> bool {
        (!self.ours || row.flag("ours") == Some(true))
            && !(self.without_barrier && row.flag("barrier") == Some(true))
    }
}
