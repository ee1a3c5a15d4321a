//! What follows the search: client options outside, confirmation, crash, promotion.

use std::path::{Path, PathBuf};

use walwright_experiment::{Bench, Configuration};

use super::conduct::{Conductor, confirming_name};
use super::confirm::{CHECKPOINTS, Confirming};
use super::state::{Cause, Phase};
use super::{TuneError, account, client_options, crash, promote, schema_file, starts, words};

/// The promoted configuration, in the tune's directory.
const CONFIGURATION: &str = "config.env";

impl Conductor {
    /// Measures what lies outside the configuration, with the one found where blocks prove it a
    /// gain, and the baseline else: what was proposed to be looked at more closely may not stay.
    pub(super) async fn client_options(&mut self) -> Result<(), TuneError> {
        if self.state.plan.client {
            self.choose_client_options()?;
            self.stage("options of the client");
            let proven = self.conclusion().is_some_and(|end| end.gain.is_gain());
            let beside = if proven {
                self.configuration(&self.found())
            } else {
                self.baseline_configuration()
            };
            while let Some((index, block)) = client_options::next(&self.state.client_options) {
                let client_option = self.state.client_options[index].clone();
                let mut configuration = beside.clone();
                configuration.load = client_option.load.clone();
                configuration.files = client_option.files.clone();
                configuration.units = Some(client_option.units);
                self.measuring(&format!("{}, block {}", client_option.name, block + 1), &[]);
                let seed = self.state.plan.seed.wrapping_add(10_000 + u64::from(block));
                let tried = self.measure(&configuration, seed, &client_option.name).await?;
                let value = tried.as_ref().ok().and_then(|m| self.objective.value(&m.figures));
                let score = value.map(|value| self.objective.score(value));
                self.state.client_options[index].scores.push(score);
                self.folder.save(&self.state)?;
                self.measured(value, tried.as_ref().err());
            }
        }
        let gain = self.conclusion().is_some_and(|end| end.is_proposed);
        self.enter(if gain { Phase::Confirm } else { Phase::Promote })
    }

    /// The client options of this load, found once; what they need on disk is there again after it.
    fn choose_client_options(&mut self) -> Result<(), TuneError> {
        let record = self.diagnosed();
        let (found, left_out) = client_options::client_options(
            &self.state.plan,
            &self.objective,
            record.as_ref(),
            self.folder.path(),
        )?;
        if self.state.client_options.is_empty() {
            for one in &left_out {
                self.say(&format!("{} is not measured: {}", one.name, one.why));
            }
            (self.state.client_options, self.state.client_options_left_out) = (found, left_out);
        }
        Ok(())
    }

    /// The winner against the baseline on fresh data with another seed.
    pub(super) async fn confirm(&mut self) -> Result<(), TuneError> {
        let mut plan = self.state.plan.bench(&self.objective, self.state.plan.confirm_window);
        plan.load.checkpoints = CHECKPOINTS;
        let bench = Bench::new(&self.lab, plan, &confirming_name(&self.state.id))?;
        let bench = bench.on(self.attached.clone());
        self.stage(&format!("confirmation {}", words::again_on(&self.state)));
        bench.prepare(&Configuration::default(), &self.stop, &self.observer).await?;
        let mut pairs = self.state.confirming_pairs();
        while let Some((is_winner, pair)) = self.state.confirmation.next(pairs) {
            let configuration = match is_winner {
                true => self.configuration(&self.found()),
                false => self.baseline_configuration(),
            };
            let changes = if is_winner { self.changes(&self.found()) } else { Vec::new() };
            self.measuring(&format!("confirmation, pair {} of {pairs}", pair + 1), &changes);
            // Both of a pair see the same transactions, which no earlier run saw.
            let seed =
                self.state.plan.seed.wrapping_mul(31).wrapping_add(1_000_003 + u64::from(pair));
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
                throughput: figures.and_then(|figures| figures.get("throughput").copied()),
                checkpoints: figures.and_then(|figures| figures.get("checkpoints").copied()),
                crashed: tried.as_ref().err().cloned(),
            });
            self.folder.save(&self.state)?;
            self.measured(value, tried.as_ref().err());
            let wanted = self.state.confirming_pairs();
            if wanted > pairs {
                self.say(&words::more_pairs(&self.state, &self.objective, wanted - pairs));
                pairs = wanted;
            }
        }
        bench.discard().await?;
        self.state.next_cause = self.cause_of_winner();
        // What is not promoted needs no audit, and may not even start.
        let is_gain = self.state.confirmed().is_gain();
        self.enter(if is_gain { Phase::Crash } else { Phase::Promote })
    }

    /// What holds the winner back, by its last run; `None` where there is no record of it.
    fn cause_of_winner(&self) -> Option<Cause> {
        let last = self.state.confirmation.made.iter().rev().find(|made| made.is_winner)?;
        let record = self.record(last.run.as_ref()?)?;
        let summary = walwright_figures::summary(&record);
        Some(starts::cause(&walwright_diagnose::findings_with(&record, &summary), &summary))
    }

    /// Kills the winner's server and audits it.
    pub(super) async fn crash(&mut self) -> Result<(), TuneError> {
        self.stage(match &self.attached {
            Some(_) => "crash test: killing a test cluster with these settings under load",
            None => "crash test: killing the server under load",
        });
        let mut settings = self.state.plan.settings.clone();
        let found = self.configuration(&self.found());
        settings.extend(found.settings);
        let stretch = crash::stretch(&self.state.plan);
        let settings = settings.into_iter().collect();
        let kernel = self.kernel();
        let set = kernel.set(&found.kernel, &self.stop).await?;
        let audit = tokio::select! {
            audit = crash::crash(&self.state.plan, settings, stretch) => audit,
            () = self.stop.requested() => Err(TuneError::Stopped),
        };
        kernel.bring_back(set).await?;
        self.state.crash = match audit {
            Err(TuneError::Stopped) => return Err(TuneError::Stopped),
            // Its settings may be of another machine than this one.
            Err(error) if self.attached.is_some() => {
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
        match promote::text(&self.state, &self.objective) {
            Ok(text) => self.keep(&text)?,
            Err(TuneError::NothingToPromote { why, .. }) => {
                self.state.not_promoted = Some(why).filter(|_| self.state.confirmed().is_gain());
            }
            Err(error) => return Err(error),
        }
        if self.state.entry.is_none() {
            self.state.entry =
                Some(account::append(&self.lab, &self.state, &self.objective, self.account)?);
        }
        self.enter(Phase::Done)
    }

    /// Writes the promoted configuration beside the state, and its schema.
    fn keep(&mut self, text: &str) -> Result<(), TuneError> {
        self.folder.write(CONFIGURATION, text.as_bytes())?;
        let path: PathBuf = self.folder.path().join(CONFIGURATION);
        if let Some(sql) = schema_file::text(&self.state, &self.objective) {
            let beside = schema_file::path(Path::new(CONFIGURATION));
            self.folder.write(&beside.display().to_string(), sql.as_bytes())?;
            let beside = schema_file::path(&path);
            self.state.promoted_schema = Some(beside.display().to_string());
        }
        self.state.promoted = Some(path.display().to_string());
        Ok(())
    }
}
