//! A finding: a diagnosed cause with its evidence, its cost and what to do.

use serde::{Deserialize, Serialize};
use walwright_record::Window;
use walwright_stats::Estimate;

use crate::{Action, DiagnosisId, Gain};

/// What a finding is to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A cause that costs and that something can be done about.
    Problem,
    /// What a cause shows as; the cause is another finding or not known.
    Symptom,
    /// True and worth knowing, but nothing to fix.
    Information,
}

/// A diagnosed cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Which diagnosis.
    pub id: DiagnosisId,
    /// Problem, symptom or information.
    pub kind: Kind,
    /// What it is about where there may be several of one id: a table, a
    /// statement, a process.
    pub subject: Option<String>,
    /// The finding whose consequence this is.
    pub parent: Option<DiagnosisId>,
    /// A few words.
    pub title: String,
    /// The cause in one plain sentence.
    pub cause: String,
    /// Over which stretch it was seen.
    pub window: Window,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// What it costs in the client's latency; `None` where the record cannot tell.
    pub impact: Option<Impact>,
    /// What fixing it can gain at most; `None` where there is nothing to fix or the
    /// record cannot tell.
    pub gain: Option<Gain>,
    /// Other explanations that the record excludes, each a sentence.
    pub ruled_out: Vec<String>,
    /// What would make the finding surer and cannot be seen in this record, each a sentence.
    pub not_observable: Vec<String>,
    /// What to do, best first.
    pub actions: Vec<Action>,
}

impl Finding {
    /// A finding with its cause, as a sentence whose end may be missing, and nothing else yet.
    pub fn new(id: DiagnosisId, kind: Kind, window: Window, cause: impl Into<String>) -> Self {
        let mut cause = cause.into();
        if !cause.ends_with(['.', '!', '?']) {
            cause.push('.');
        }
        Finding {
            id,
            kind,
            subject: None,
            parent: None,
            title: id.title().to_owned(),
            cause,
            window,
            evidence: Vec::new(),
            impact: None,
            gain: None,
            ruled_out: Vec::new(),
            not_observable: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Names what it is about.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Says in which stretch of the measured window it was seen, where that is not all of it.
    #[must_use]
    pub fn within(mut self, stretch: Window) -> Self {
        self.window = stretch;
        self
    }

    /// Names the finding whose consequence this is.
    #[must_use]
    pub fn caused_by(mut self, parent: DiagnosisId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Adds evidence.
    #[must_use]
    pub fn seen(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// States the impact, where it is known.
    #[must_use]
    pub fn costs(mut self, impact: Option<Impact>) -> Self {
        self.impact = impact;
        self
    }

    /// States the bound on the gain, where it is known.
    #[must_use]
    pub fn gains(mut self, gain: Option<Gain>) -> Self {
        self.gain = gain;
        self
    }

    /// Adds an explanation that is excluded.
    #[must_use]
    pub fn not_because(mut self, sentence: impl Into<String>) -> Self {
        self.ruled_out.push(sentence.into());
        self
    }

    /// Adds what cannot be seen.
    #[must_use]
    pub fn blind_to(mut self, sentence: impl Into<String>) -> Self {
        self.not_observable.push(sentence.into());
        self
    }

    /// Adds something to do.
    #[must_use]
    pub fn advise(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }
}

/// One thing seen: a figure per unit of work and where it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// The view, file or setting: `pg_stat_wal.wal_sync`, `/proc/stat`.
    pub source: String,
    /// What the figure is: `flushes`.
    pub what: String,
    /// The figure.
    #[serde(flatten)]
    pub value: Value,
    /// Of what unit of work it is, where it is of one.
    pub per: Option<Per>,
}

impl Evidence {
    /// A figure over the whole window, or one that is no rate.
    pub fn new(source: impl Into<String>, what: impl Into<String>, value: Value) -> Self {
        Evidence { source: source.into(), what: what.into(), value, per: None }
    }

    /// The same figure, of a unit of work.
    #[must_use]
    pub fn per(mut self, per: Per) -> Self {
        self.per = Some(per);
        self
    }
}

/// A figure with its unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "unit", content = "value", rename_all = "snake_case")]
pub enum Value {
    /// How many.
    Count(f64),
    /// Seconds.
    Seconds(f64),
    /// Bytes.
    Bytes(f64),
    /// A share, 0 to 1.
    Fraction(f64),
    /// Processors kept busy.
    Processors(f64),
    /// Words: the value of a setting.
    Text(String),
}

/// A unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// A transaction of the driver.
    Transaction,
    /// A commit of the database.
    Commit,
    /// A request of clients that are not ours.
    Request,
    /// A call of a statement.
    Call,
    /// A second of the window.
    Second,
}

impl Per {
    /// The word after "a" or "per".
    pub fn name(self) -> &'static str {
        match self {
            Per::Transaction => "transaction",
            Per::Commit => "commit",
            Per::Request => "request",
            Per::Call => "call",
            Per::Second => "second",
        }
    }
}

impl From<walwright_figures::WorkUnit> for Per {
    fn from(unit: walwright_figures::WorkUnit) -> Self {
        match unit {
            walwright_figures::WorkUnit::Transaction => Per::Transaction,
            walwright_figures::WorkUnit::Commit => Per::Commit,
            walwright_figures::WorkUnit::Request => Per::Request,
        }
    }
}

/// What a cause costs, in the client's latency.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Impact {
    /// Seconds of a transaction.
    pub per_transaction: Estimate,
    /// Share of the mean latency, 0 to 1; of the time on the server where the
    /// latency is unknown.
    pub share: Estimate,
}

impl Impact {
    /// Whether the cost is certainly above `share` of the latency: the lower end of
    /// its interval is, or its centre where there is no interval.
    pub fn exceeds(&self, share: f64) -> bool {
        self.share.low().unwrap_or(self.share.center) > share
    }
}
