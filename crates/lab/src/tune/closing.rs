//! What follows the search: levers outside, confirmation, crash, promotion.

use std::path::PathBuf;

use super::conduct::{Conductor, confirming_name};
use super::confirm::Confirming;
use super::state::Phase;
use super::{TuneError, crash, entry, levers, promote, words};
use crate::experiment::{Bench, Configuration};

impl Conductor {
    /// Measures what lies outside the configuration, with the configuration found.
    pub(super) async fn levers(&mut self) -> Result<(), TuneError> {
        if self.state.plan.client {
            if self.state.levers.is_empty() {
                self.state.levers = levers::levers(&self.bench.plan().base.load);
            }
            self.stage("options of the client");
            while let Some((index, block)) = levers::next(&self.state.levers) {
                let lever = self.state.levers[index].clone();
                let mut configuration = self.settings(&self.found());
                configuration.load = lever.load.clone();
                self.measuring(&format!("{}, block {}", lever.name, block + 1), &[]);
                let seed = self.state.plan.seed + 10_000 + u64::from(block);
                let tried = self.measure(&configuration, seed, &lever.name).await?;
                let value = tried.as_ref().ok().and_then(|m| self.objective.value(&m.figures));
                let score = value.map(|value| self.objective.score(value));
                self.state.levers[index].scores.push(score);
                self.folder.save(&self.state)?;
                self.measured(value, tried.as_ref().err());
            }
        }
        let gain = self.conclusion().is_some_and(|end| end.is_gain);
        self.enter(if gain { Phase::Confirm } else { Phase::Promote })
    }

    /// The winner against the baseline on fresh data with another seed.
    pub(super) async fn confirm(&mut self) -> Result<(), TuneError> {
        let pairs = self.state.plan.confirming_pairs();
        let plan = self.state.plan.bench(&self.objective, self.state.plan.confirm_window);
        let bench = Bench::new(&self.lab, plan, &confirming_name(&self.state.id))?;
        let bench = bench.on(self.guest.clone());
        self.stage(&format!("confirmation {}", words::again_on(&self.state)));
        bench.prepare(&Configuration::default(), &self.stop, &self.observer).await?;
        while let Some((is_winner, pair)) = self.state.confirmation.next(pairs) {
            let configuration = match is_winner {
                true => self.settings(&self.found()),
                false => Configuration::default(),
            };
            let changes = if is_winner { self.changes(&self.found()) } else { Vec::new() };
            self.measuring(&format!("confirmation, pair {} of {pairs}", pair + 1), &changes);
            // Both of a pair see the same transactions, which no earlier run saw.
            let seed = self.state.plan.seed.wrapping_mul(31) + 1_000_003 + u64::from(pair);
            let arm = if is_winner { "confirmed" } else { "baseline" };
            let label = self.label(arm);
            let tried = self.measure_on(&bench, &configuration, seed, label).await?;
            let figures = tried.as_ref().ok().map(|m| &m.figures);
            let value = figures.and_then(|figures| self.objective.value(figures));
            self.state.confirmation.made.push(Confirming {
                is_winner,
                pair,
                run: tried.as_ref().ok().map(|m| m.run.clone()),
                score: value.map(|value| self.objective.score(value)),
                value,
                checkpoints: figures.and_then(|figures| figures.get("checkpoints").copied()),
            });
            self.folder.save(&self.state)?;
            self.measured(value, tried.as_ref().err());
        }
        bench.discard().await?;
        self.enter(Phase::Crash)
    }

    /// Kills the winner's server and audits it.
    pub(super) async fn crash(&mut self) -> Result<(), TuneError> {
        self.stage(match &self.guest {
            Some(_) => "killing a server of our own with these settings under load",
            None => "killing the server under load",
        });
        let mut settings = self.state.plan.settings.clone();
        settings.extend(self.settings(&self.found()).settings);
        let stretch = crash::stretch(&self.state.plan);
        let settings = settings.into_iter().collect();
        let audit = crash::crash(&self.state.plan, settings, stretch);
        let audit = tokio::select! {
            audit = audit => audit,
            () = self.stop.requested() => return Err(TuneError::Stopped),
        };
        self.state.crash = match audit {
            // Its settings may be of another machine than this one.
            Err(error) if self.guest.is_some() => {
                self.say(&format!("not audited: {error}"));
                None
            }
            audit => Some(audit?),
        };
        if let Some(told) = words::crash(&self.state) {
            self.say(&told);
        }
        self.enter(Phase::Promote)
    }

    /// Writes configuration and account.
    pub(super) fn promote(&mut self) -> Result<(), TuneError> {
        if let Ok(text) = promote::text(&self.state, &self.objective) {
            self.folder.replace("config.env.new", "config.env", text.as_bytes())?;
            let path: PathBuf = self.folder.path().join("config.env");
            self.state.promoted = Some(path.display().to_string());
        }
        if self.state.entry.is_none() {
            self.state.entry = Some(entry::append(&self.lab, &self.state, &self.objective)?);
        }
        self.enter(Phase::Done)
    }
}
