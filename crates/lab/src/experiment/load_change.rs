//! How the load is driven, as far as a plan or an arm says.

use serde::{Deserialize, Serialize};
use walwright_driver::Mode;
pub use walwright_driver::Protocol;
use walwright_record::Schedule;

use super::Length;
use crate::LoadChoice;

/// Gaps between the due times of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gaps {
    /// Exponential.
    Poisson,
    /// All the same.
    Even,
}

/// Options of the load; what is `None` stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadChange {
    /// Client connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Driver threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Wire protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// One round trip a transaction, binary parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lean: Option<bool>,
    /// Open loop: transactions due a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Open loop: gaps between due times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gaps: Option<Gaps>,
    /// Open loop: transactions later than this are skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_limit: Option<Length>,
    /// Closed loop: mean think time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Length>,
    /// Time over which clients start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Length>,
    /// Tries a transaction has; 0 is without limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tries: Option<u32>,
}

impl LoadChange {
    /// These options over those.
    #[must_use]
    pub fn over(&self, below: &LoadChange) -> LoadChange {
        LoadChange {
            clients: self.clients.or(below.clients),
            threads: self.threads.or(below.threads),
            protocol: self.protocol.or(below.protocol),
            lean: self.lean.or(below.lean),
            rate: self.rate.or(below.rate),
            gaps: self.gaps.or(below.gaps),
            latency_limit: self.latency_limit.or(below.latency_limit),
            think: self.think.or(below.think),
            ramp: self.ramp.or(below.ramp),
            max_tries: self.max_tries.or(below.max_tries),
        }
    }

    /// The choice with these options.
    pub(super) fn apply(&self, choice: &mut LoadChoice) {
        choice.clients = self.clients.or(choice.clients);
        choice.threads = self.threads.or(choice.threads);
        choice.protocol = self.protocol.or(choice.protocol);
        if let Some(lean) = self.lean {
            choice.mode = if lean { Mode::Lean } else { Mode::Faithful };
        }
        choice.schedule = self.schedule(choice.schedule);
        choice.ramp = self.ramp.map_or(choice.ramp, |ramp| ramp.0);
        choice.max_tries = self.max_tries.unwrap_or(choice.max_tries);
    }

    fn schedule(&self, before: Schedule) -> Schedule {
        let limit = self.latency_limit.map(|limit| limit.0);
        match (self.rate, before) {
            (Some(rate), _) => Schedule::Open {
                rate,
                poisson: self.gaps != Some(Gaps::Even),
                latency_limit: limit,
            },
            (None, Schedule::Open { rate, poisson, latency_limit }) => Schedule::Open {
                rate,
                poisson: self.gaps.map_or(poisson, |gaps| gaps == Gaps::Poisson),
                latency_limit: limit.or(latency_limit),
            },
            (None, Schedule::Closed { think }) => {
                Schedule::Closed { think: self.think.map_or(think, |think| Some(think.0)) }
            }
        }
    }

    /// What no load can have: the key, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        match (self.clients, self.rate) {
            (Some(0), _) => Some(("clients", "a load has at least one client".to_owned())),
            (_, Some(rate)) if !rate.is_finite() || rate <= 0.0 => {
                Some(("rate", format!("{rate} is not a number of transactions a second above 0")))
            }
            _ => None,
        }
    }

    /// What is changed, in words.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut say = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{name} = {value}")));
        };
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let length = |value: Option<Length>| value.map(|value| value.to_string());
        say("clients", number(self.clients));
        say("threads", number(self.threads));
        say("protocol", self.protocol.map(|protocol| protocol.name().to_owned()));
        say("lean", self.lean.map(|lean| lean.to_string()));
        say("rate", self.rate.map(|rate| format!("{rate} transactions a second")));
        say("gaps", self.gaps.map(|gaps| format!("{gaps:?}").to_ascii_lowercase()));
        say("latency_limit", length(self.latency_limit));
        say("think", length(self.think));
        say("ramp", length(self.ramp));
        say("max_tries", number(self.max_tries));
        words
    }
}
