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
        // FNV-1a: the same in every build.
        let hash = case.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        if (hash >> 32) % 2 == 0 { Half::Mended } else { Half::Unseen }
    }
}

/// A case: what was said of it, and what its arms gain.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CaseTruth {
    /// System and faults.
    pub case: String,
    /// The record's name in the lab; it begins with the date.
    pub run: String,
    /// Work a second with all faults, in order of the rounds.
    pub planted: Vec<f64>,
    /// What was changed, by name.
    pub arms: BTreeMap<String, ArmTruth>,
}

/// One change against a case: a fault taken away, or advice followed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ArmTruth {
    /// Work a second, in order of the rounds.
    pub rates: Vec<f64>,
    /// Why it could not be measured.
    pub failed: Option<String>,
}

impl CaseTruth {
    /// Gain of an arm over the case as planted, with the ends of its 80 % interval.
    pub fn gain(&self, arm: &ArmTruth) -> Option<(f64, f64, f64)> {
        let confidence = Confidence::new(0.8)?;
        let effect = paired_effect(&self.planted, &arm.rates, confidence, 1).ok()?;
        let ends = effect.change.interval?;
        Some((effect.change.center, ends.low, ends.high))
    }

    /// Whether all arms are clear enough: so that more rounds change no judgement.
    pub fn is_clear(&self) -> bool {
        let arms = self.arms.values().filter(|arm| arm.failed.is_none());
        arms.map(|arm| self.gain(arm)).all(|gain| {
            gain.is_some_and(|(center, low, high)| high - low < 0.06 || low > 0.1 * center.max(0.3))
        })
    }

    fn path(directory: &Path, case: &str) -> PathBuf {
        directory.join(format!("{}.json", case.replace(['/', ' '], "_")))
    }

    /// Reads a case that was measured before.
    pub fn read(directory: &Path, case: &str) -> Option<CaseTruth> {
        let text = std::fs::read_to_string(Self::path(directory, case)).ok()?;
        serde_json::from_str(&text).ok()
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
