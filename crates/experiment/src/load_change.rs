//! How the load is driven, as far as a plan or an arm says.

use serde::{Deserialize, Serialize};
use walwright_driver::Mode;
pub use walwright_driver::Protocol;
use walwright_record::Schedule;

use super::Length;
use walwright_run::LoadChoice;

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
        let (rate, poisson, latency_limit) = match (before, self.rate) {
            (Schedule::Closed { think }, None) => {
                let think = self.think.map(|think| think.0).or(think);
                return Schedule::Closed { think };
            }
            (Schedule::Closed { .. }, Some(rate)) => (rate, true, None),
            (Schedule::Open { rate, poisson, latency_limit }, changed) => {
                (changed.unwrap_or(rate), poisson, latency_limit)
            }
        };
        Schedule::Open {
            rate,
            poisson: self.gaps.map_or(poisson, |gaps| gaps == Gaps::Poisson),
            latency_limit: self.latency_limit.map(|limit| limit.0).or(latency_limit),
        }
    }

    /// What has no effect on top of the load of `base`: the key, and why.
    pub(super) fn without_effect(&self, base: &LoadChange) -> Option<(&'static str, &'static str)> {
        let open = self.rate.or(base.rate).is_some();
        match self {
            LoadChange { think: Some(_), .. } if open => {
                Some(("think", "a rate and a think time exclude each other: leave one out"))
            }
            LoadChange { gaps: Some(_), .. } if !open => {
                Some(("gaps", "gaps need a rate: add rate"))
            }
            LoadChange { latency_limit: Some(_), .. } if !open => {
                Some(("latency_limit", "a latency limit needs a rate: add rate"))
            }
            _ => None,
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limit() -> Length {
        Length(Duration::from_millis(50))
    }

    #[test]
    fn another_rate_keeps_the_shape_of_the_load() {
        let open = |rate, poisson, latency_limit| Schedule::Open { rate, poisson, latency_limit };
        let before = open(2e3, false, Some(limit().0));
        let rate = LoadChange { rate: Some(3e3), ..LoadChange::default() };
        assert_eq!(rate.schedule(before), open(3e3, false, Some(limit().0)));
        let gaps = LoadChange { gaps: Some(Gaps::Poisson), ..rate.clone() };
        assert_eq!(gaps.schedule(before), open(3e3, true, Some(limit().0)));
        // A closed loop has no such shape.
        let think = Some(Duration::from_millis(1));
        assert_eq!(rate.schedule(Schedule::Closed { think }), open(3e3, true, None));
        let clients = LoadChange { clients: Some(4), ..LoadChange::default() };
        assert_eq!(clients.schedule(before), before);
        assert_eq!(clients.schedule(Schedule::Closed { think }), Schedule::Closed { think });
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let (closed, open) =
            (LoadChange::default(), LoadChange { rate: Some(1e3), ..LoadChange::default() });
        let none = LoadChange::default;
        let think = LoadChange { think: Some(limit()), ..none() };
        let gaps = LoadChange { gaps: Some(Gaps::Even), ..none() };
        let late = LoadChange { latency_limit: Some(limit()), ..none() };
        for (change, base, key) in [
            (&think, &open, Some("think")),
            (&think, &closed, None),
            (&gaps, &closed, Some("gaps")),
            (&gaps, &open, None),
            (&late, &closed, Some("latency_limit")),
            (&late, &open, None),
            (&open, &think, None),
        ] {
            assert_eq!(change.without_effect(base).map(|(key, _)| key), key, "{change:?}");
        }
        let late_and_open = LoadChange { rate: open.rate, ..late };
        assert_eq!(late_and_open.without_effect(&closed), None);
    }
}
