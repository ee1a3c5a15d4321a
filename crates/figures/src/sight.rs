//! Which sessions of a server this role could see.

use walwright_record::{Record, Source, Window};

use crate::Blind;

/// Share of the client sessions that may be hidden before what the others do says nothing
/// of the whole.
const MOST_HIDDEN: f64 = 0.1;

/// Client sessions of other roles that hid what they did from ours.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenSessions {
    most: u64,
    role: String,
    /// Their share of all client sessions, on average over the window.
    share: f64,
}

impl HiddenSessions {
    /// Those of a window; `None` where there were none.
    pub fn of(record: &Record, window: Window) -> Option<HiddenSessions> {
        let target =
            record.target.as_ref().filter(|target| !target.superuser && !target.monitor)?;
        let (mut most, mut hidden, mut seen) = (0.0_f64, 0.0, 0.0);
        let inside = record.samples(Source::Sessions).iter().filter(|s| window.contains(s.at));
        for row in inside.filter_map(|sample| sample.rows.first()) {
            let now = row.number("hidden").unwrap_or(0.0);
            most = most.max(now);
            hidden += now;
            seen += row.number("client_backends").unwrap_or(0.0);
        }
        (hidden > 0.0).then(|| HiddenSessions {
            most: most as u64,
            role: target.role.clone(),
            share: hidden / (hidden + seen),
        })
    }

    /// Whether what could be seen says nothing of the whole.
    pub fn are_many(&self) -> bool {
        self.share > MOST_HIDDEN
    }

    /// Why a figure is not there.
    pub fn blind(&self) -> Blind {
        Blind::HiddenSessions { sessions: self.most, role: self.role.clone() }
    }
}
