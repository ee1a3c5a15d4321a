//! What happened while a server was watched.

use serde::{Deserialize, Serialize};
use walwright_record::{Timestamp, Window};

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A finding appeared.
    FindingAppeared,
    /// A finding is gone.
    FindingGone,
    /// The server does not answer any more.
    ServerLost,
    /// The server answers again.
    ServerBack,
    /// The server was restarted, or recovered from a crash.
    ServerRestarted,
    /// A setting has another value.
    SettingChanged,
    /// Watching began, or ended.
    Watching,
    /// What the samplers saw: checkpoints, autovacuum.
    Server,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [EventKind; 8] = [
        EventKind::FindingAppeared,
        EventKind::FindingGone,
        EventKind::ServerLost,
        EventKind::ServerBack,
        EventKind::ServerRestarted,
        EventKind::SettingChanged,
        EventKind::Watching,
        EventKind::Server,
    ];

    /// The stored name, and a label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::FindingAppeared => "finding_appeared",
            EventKind::FindingGone => "finding_gone",
            EventKind::ServerLost => "server_lost",
            EventKind::ServerBack => "server_back",
            EventKind::ServerRestarted => "server_restarted",
            EventKind::SettingChanged => "setting_changed",
            EventKind::Watching => "watching",
            EventKind::Server => "server",
        }
    }

    /// What it is called.
    pub fn words(self) -> &'static str {
        match self {
            EventKind::FindingAppeared => "finding",
            EventKind::FindingGone => "finding gone",
            EventKind::ServerLost => "server lost",
            EventKind::ServerBack => "server back",
            EventKind::ServerRestarted => "server restarted",
            EventKind::SettingChanged => "setting changed",
            EventKind::Watching => "watching",
            EventKind::Server => "server",
        }
    }

    /// Whether somebody should be told.
    pub fn alerts(self) -> bool {
        matches!(
            self,
            EventKind::FindingAppeared
                | EventKind::FindingGone
                | EventKind::ServerLost
                | EventKind::ServerBack
                | EventKind::ServerRestarted
        )
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it was known.
    pub at: Timestamp,
    /// What kind.
    pub kind: EventKind,
    /// One sentence.
    pub text: String,
    /// The finding that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<FindingOf>,
    /// Over which stretch it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Event {
    /// An event without a finding.
    pub fn new(at: Timestamp, kind: EventKind, text: impl Into<String>) -> Event {
        Event { at, kind, text: text.into(), finding: None, window: None }
    }
}

/// A finding, as events and the ring name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindingOf {
    /// Which diagnosis: `D34`.
    pub id: String,
    /// What it is about, where there may be several of one id.
    pub subject: Option<String>,
    /// Problem, symptom or information.
    pub kind: walwright_diagnose::Kind,
    /// A few words.
    pub title: String,
    /// The cause in one sentence.
    pub cause: String,
    /// Its share of the latency, 0 to 1, where that is known.
    pub cost: Option<f64>,
    /// What to do first.
    pub action: Option<String>,
}

impl FindingOf {
    /// What tells it from others.
    pub fn key(&self) -> (&str, Option<&str>) {
        (&self.id, self.subject.as_deref())
    }
}

impl From<&walwright_diagnose::Finding> for FindingOf {
    fn from(of: &walwright_diagnose::Finding) -> Self {
        FindingOf {
            id: of.id.to_string(),
            subject: of.subject.clone(),
            kind: of.kind,
            title: of.title.clone(),
            cause: of.cause.clone(),
            cost: of.impact.as_ref().map(|impact| impact.share.center),
            action: of.actions.first().map(|action| action.text.clone()),
        }
    }
}
