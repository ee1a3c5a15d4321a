//! How the load is driven, as far as a command line, a plan or an arm says.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use walwright_driver::{Mode, Protocol};
use walwright_record::{ClientRules, OnError, Schedule};

use super::{Length, LoadChoice, Pooler};

/// The window that is measured where nothing is said of it.
const DURATION: Duration = Duration::from_secs(60);
/// The load before it where nothing is said of it.
const WARM_UP: Duration = Duration::from_secs(10);

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
pub struct LoadOptions {
    /// The command that makes the load in place of walwright's own clients; `{name}` in it is
    /// a parameter of the plan. Empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Files of results that the command writes, as patterns: each begins with `{files}/`, and
    /// `*` in its name stands for any letters. Without any, what the command prints is read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// The application that walwright's clients ask by HTTP in place of the server, such as
    /// `http://127.0.0.1:{port}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Files of requests to it, each `path` or `path@weight`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
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
    /// Transactions that end later than this are counted; in an open loop those that are
    /// already later are skipped.
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
    /// Whether each transaction runs on a connection opened for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<bool>,
    /// What follows an error that is no serialization failure and no deadlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
    /// What stands between the clients and an embedded server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooler: Option<Pooler>,
    /// Length of the measured window: one for all runs that are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Length>,
    /// Load before it, one for all runs: a time, or `auto` to find it on the throughput series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmUp>,
}

/// How the warm-up ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum WarmUp {
    /// Found on the series.
    Auto,
    /// After this time.
    Fixed(Length),
}

impl WarmUp {
    /// The time, where it is fixed.
    pub fn fixed(self) -> Option<Duration> {
        match self {
            WarmUp::Auto => None,
            WarmUp::Fixed(length) => Some(length.0),
        }
    }
}

impl TryFrom<String> for WarmUp {
    type Error = String;

    fn try_from(text: String) -> Result<WarmUp, String> {
        if text == "auto" { Ok(WarmUp::Auto) } else { text.parse().map(WarmUp::Fixed) }
    }
}

impl From<WarmUp> for String {
    fn from(warm_up: WarmUp) -> String {
        match warm_up {
            WarmUp::Auto => "auto".to_owned(),
            WarmUp::Fixed(length) => length.to_string(),
        }
    }
}

impl LoadOptions {
    /// Whether something else than scripts on the server makes the load.
    pub fn is_from_outside(&self) -> bool {
        !self.command.is_empty() || self.http.is_some()
    }

    /// These options over those.
    #[must_use]
    pub fn over(&self, below: &LoadOptions) -> LoadOptions {
        LoadOptions {
            command: match self.command.is_empty() {
                true => below.command.clone(),
                false => self.command.clone(),
            },
            // They are those of a command.
            results: match self.command.is_empty() && self.results.is_empty() {
                true => below.results.clone(),
                false => self.results.clone(),
            },
            http: self.http.clone().or_else(|| below.http.clone()),
            requests: match self.requests.is_empty() {
                true => below.requests.clone(),
                false => self.requests.clone(),
            },
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
            connect: self.connect.or(below.connect),
            on_error: self.on_error.or(below.on_error),
            pooler: self.pooler.clone().or_else(|| below.pooler.clone()),
            duration: self.duration.or(below.duration),
            warmup: self.warmup.or(below.warmup),
        }
    }

    /// A load with these options and the defaults: one faithful closed loop without end of its
    /// clients, a minute measured after ten seconds.
    pub fn choice(&self) -> LoadChoice {
        let mut choice = LoadChoice {
            clients: None,
            threads: None,
            protocol: None,
            mode: Mode::Faithful,
            schedule: Schedule::CLOSED,
            ramp: Duration::ZERO,
            max_tries: 1,
            seed: None,
            duration: DURATION,
            warm_up: Some(WARM_UP),
            rules: ClientRules::default(),
            stages: Vec::new(),
            checkpoints: 0,
            pooler: Pooler::None,
            http: None,
            pool_wait: None,
        };
        self.apply(&mut choice);
        choice
    }

    /// The choice with these options.
    pub fn apply(&self, choice: &mut LoadChoice) {
        choice.clients = self.clients.or(choice.clients);
        choice.threads = self.threads.or(choice.threads);
        choice.protocol = self.protocol.or(choice.protocol);
        if let Some(lean) = self.lean {
            choice.mode = if lean { Mode::Lean } else { Mode::Faithful };
        }
        choice.schedule = self.schedule(choice.schedule);
        choice.ramp = self.ramp.map_or(choice.ramp, |ramp| ramp.0);
        choice.max_tries = self.max_tries.unwrap_or(choice.max_tries);
        choice.rules.reconnect = self.connect.unwrap_or(choice.rules.reconnect);
        choice.rules.on_error = self.on_error.unwrap_or(choice.rules.on_error);
        if let Some(pooler) = &self.pooler {
            choice.pooler.clone_from(pooler);
        }
        choice.duration = self.duration.map_or(choice.duration, |duration| duration.0);
        choice.warm_up = self.warmup.map_or(choice.warm_up, WarmUp::fixed);
    }

    fn schedule(&self, before: Schedule) -> Schedule {
        let latency_limit = self.latency_limit.map(|limit| limit.0).or(before.latency_limit());
        let gaps = |before| self.gaps.map_or(before, |gaps| gaps == Gaps::Poisson);
        match (before, self.rate) {
            (Schedule::Closed { think, .. }, None) => {
                let think = self.think.map(|think| think.0).or(think);
                Schedule::Closed { think, latency_limit }
            }
            (Schedule::Closed { .. }, Some(rate)) => {
                Schedule::Open { rate, poisson: gaps(true), latency_limit }
            }
            (Schedule::Open { rate, poisson, .. }, changed) => Schedule::Open {
                rate: changed.unwrap_or(rate),
                poisson: gaps(poisson),
                latency_limit,
            },
        }
    }

    /// The options that `choice` was made of, but for what it does in stages or until a number
    /// of transactions is done.
    pub fn of(choice: &LoadChoice) -> LoadOptions {
        let (rate, gaps, think) = match choice.schedule {
            Schedule::Closed { think, .. } => (None, None, think),
            Schedule::Open { rate, poisson, .. } => {
                let gaps = if poisson { Gaps::Poisson } else { Gaps::Even };
                (Some(rate), Some(gaps), None)
            }
        };
        let rules = choice.rules;
        LoadOptions {
            command: Vec::new(),
            results: Vec::new(),
            http: None,
            requests: Vec::new(),
            clients: choice.clients,
            threads: choice.threads,
            protocol: choice.protocol,
            lean: (choice.mode == Mode::Lean).then_some(true),
            rate,
            gaps,
            latency_limit: choice.schedule.latency_limit().map(Length),
            think: think.map(Length),
            ramp: (!choice.ramp.is_zero()).then_some(Length(choice.ramp)),
            max_tries: (choice.max_tries != 1).then_some(choice.max_tries),
            connect: rules.reconnect.then_some(true),
            on_error: (rules.on_error != OnError::default()).then_some(rules.on_error),
            pooler: (choice.pooler != Pooler::None).then(|| choice.pooler.clone()),
            duration: Some(Length(choice.duration)),
            warmup: Some(choice.warm_up.map_or(WarmUp::Auto, |time| WarmUp::Fixed(Length(time)))),
        }
    }

    /// What has no effect on top of the load of `base`: the key, and why.
    pub fn without_effect(&self, base: &LoadOptions) -> Option<(&'static str, &'static str)> {
        let open = self.rate.or(base.rate).is_some();
        match self {
            LoadOptions { think: Some(_), .. } if open => {
                Some(("think", "a rate and a think time exclude each other: leave one out"))
            }
            LoadOptions { gaps: Some(_), .. } if !open => {
                Some(("gaps", "gaps need a rate: add rate"))
            }
            _ => None,
        }
    }

    /// What no load can have: the key, and why.
    pub fn problem(&self) -> Option<(&'static str, String)> {
        match (self.clients, self.rate) {
            (Some(0), _) => Some(("clients", "a load has at least one client".to_owned())),
            (_, Some(rate)) if !rate.is_finite() || rate <= 0.0 => {
                Some(("rate", format!("{rate} is not a number of transactions a second above 0")))
            }
            _ if self.duration.is_some_and(|duration| duration.0.is_zero()) => {
                Some(("duration", "the time must be longer than zero".to_owned()))
            }
            _ => None,
        }
    }

    /// What is changed, in words.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.command.is_empty() {
            words.push(format!("load by {}", self.command.join(" ")));
        }
        if !self.results.is_empty() {
            words.push(format!("results in {}", self.results.join(", ")));
        }
        if !self.requests.is_empty() {
            words.push(format!("requests of {}", self.requests.join(", ")));
        }
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
        say("connect", self.connect.map(|connect| connect.to_string()));
        say("on_error", self.on_error.map(|what| what.name().to_owned()));
        say("pooler", self.pooler.as_ref().map(Pooler::to_string));
        say("duration", length(self.duration));
        say("warmup", self.warmup.map(String::from));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit() -> Length {
        Length(Duration::from_millis(50))
    }

    #[test]
    fn another_rate_keeps_the_shape_of_the_load() {
        let open = |rate, poisson, latency_limit| Schedule::Open { rate, poisson, latency_limit };
        let before = open(2e3, false, Some(limit().0));
        let rate = LoadOptions { rate: Some(3e3), ..LoadOptions::default() };
        assert_eq!(rate.schedule(before), open(3e3, false, Some(limit().0)));
        let gaps = LoadOptions { gaps: Some(Gaps::Poisson), ..rate.clone() };
        assert_eq!(gaps.schedule(before), open(3e3, true, Some(limit().0)));
        // A closed loop has no such shape.
        let think = Some(Duration::from_millis(1));
        let closed = Schedule::Closed { think, latency_limit: None };
        assert_eq!(rate.schedule(closed), open(3e3, true, None));
        let clients = LoadOptions { clients: Some(4), ..LoadOptions::default() };
        assert_eq!(clients.schedule(before), before);
        assert_eq!(clients.schedule(closed), closed);
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let (closed, open) =
            (LoadOptions::default(), LoadOptions { rate: Some(1e3), ..LoadOptions::default() });
        let none = LoadOptions::default;
        let think = LoadOptions { think: Some(limit()), ..none() };
        let gaps = LoadOptions { gaps: Some(Gaps::Even), ..none() };
        for (change, base, key) in [
            (&think, &open, Some("think")),
            (&think, &closed, None),
            (&gaps, &closed, Some("gaps")),
            (&gaps, &open, None),
            (&open, &think, None),
        ] {
            assert_eq!(change.without_effect(base).map(|(key, _)| key), key, "{change:?}");
        }
    }

    #[test]
    fn a_load_is_what_its_options_say_and_gives_them_back() {
        let whole = LoadOptions {
            command: Vec::new(),
            results: Vec::new(),
            http: None,
            requests: Vec::new(),
            clients: Some(3),
            threads: Some(2),
            protocol: Some(Protocol::Simple),
            lean: Some(true),
            rate: Some(100.0),
            gaps: Some(Gaps::Even),
            latency_limit: Some(limit()),
            think: None,
            ramp: Some(limit()),
            max_tries: Some(4),
            connect: Some(true),
            on_error: Some(OnError::StopClient),
            pooler: Some(Pooler::Gateway),
            duration: Some(limit()),
            warmup: Some(WarmUp::Auto),
        };
        assert_eq!(LoadOptions::of(&whole.choice()), whole);
        let closed = LoadOptions { rate: None, gaps: None, think: Some(limit()), ..whole };
        assert_eq!(LoadOptions::of(&closed.choice()), closed);
        let written = serde_json::to_string(&closed).unwrap();
        assert_eq!(serde_json::from_str::<LoadOptions>(&written).unwrap(), closed);
        assert!(serde_json::from_str::<LoadOptions>(r#"{"client": 3}"#).is_err());
    }
}
