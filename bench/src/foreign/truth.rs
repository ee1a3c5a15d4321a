//! What was measured of a case, kept so that it is measured once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use walwright_stats::{Confidence, paired_effect};

/// Which half of the cases one belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// Rules may be mended on it.
    Mended,
    /// It is only looked at.
    Unseen,
}

impl Half {
    /// The half of a case, by its name alone.
    pub fn of(case: &str) -> Half {
        // Chosen before any case was looked at: it divides systems, controls and cases of
        // several faults evenly.
        let salted = format!("98 {case}");
        if (fnv(&salted) >> 32).is_multiple_of(2) { Half::Mended } else { Half::Unseen }
    }
}

/// FNV-1a: the same in every build.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn digest(text: &str) -> String {
    format!("{:016x}", fnv(text))
}

/// What the changes against a case gain.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseTruth {
    /// System and faults.
    pub case: String,
    /// What the case was made of when it was measured, as a short digest.
    pub made_of: String,
    /// Day of the last measurement.
    pub date: String,
    /// Processor it was measured on.
    pub machine: String,
    /// What was changed, by name.
    pub arms: BTreeMap<String, ArmTruth>,
}

/// One change against a case: a fault taken away, or advice followed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ArmTruth {
    /// Work a second with all faults, in order of the rounds.
    pub planted: Vec<f64>,
    /// Work a second with the change, in the same rounds.
    pub rates: Vec<f64>,
    /// Why it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl ArmTruth {
    /// Gain over the case as planted, with the ends of its 80 % interval.
    pub fn gain(&self) -> Option<(f64, f64, f64)> {
        let confidence = Confidence::new(0.8)?;
        let rounds = self.planted.len().min(self.rates.len());
        let (planted, rates) = (&self.planted[..rounds], &self.rates[..rounds]);
        let effect = paired_effect(planted, rates, confidence, 1).ok()?;
        let ends = effect.change.interval?;
        Some((effect.change.center, ends.low, ends.high))
    }

    /// Whether more rounds would change no judgement.
    pub fn is_clear(&self) -> bool {
        self.failed.is_some()
            || self
                .gain()
                .is_some_and(|(center, low, high)| high - low < 0.06 || low > 0.1 * center.max(0.3))
    }
}

impl CaseTruth {
    /// Nothing measured yet of a case that is made of `made_of`.
    pub fn new(case: &str, made_of: &str) -> CaseTruth {
        CaseTruth {
            case: case.to_owned(),
            made_of: digest(made_of),
            date: String::new(),
            machine: String::new(),
            arms: BTreeMap::new(),
        }
    }

    /// What was measured before of a case that is still made of `made_of`.
    pub fn read(directory: &Path, case: &str, made_of: &str) -> Option<CaseTruth> {
        let text = std::fs::read_to_string(Self::path(directory, case)).ok()?;
        let truth: CaseTruth = serde_json::from_str(&text).ok()?;
        (truth.made_of == digest(made_of)).then_some(truth)
    }

    fn path(directory: &Path, case: &str) -> PathBuf {
        directory.join(format!("{}.json", case.replace(['/', ' '], "_")))
    }

    /// Keeps it: whole, or not at all.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn write(&self, directory: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(directory)?;
        let path = Self::path(directory, &self.case);
        let new = path.with_extension("new");
        std::fs::write(&new, serde_json::to_string_pretty(self)?)?;
        std::fs::rename(&new, &path).with_context(|| format!("writing {}", path.display()))
    }
}
