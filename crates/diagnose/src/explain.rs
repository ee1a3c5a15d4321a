//! What each diagnosis is, for people who want to learn it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::DiagnosisId;

/// A diagnosis explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// What it is.
    pub what: String,
    /// From which figures, and how.
    pub derived: String,
    /// What would show that it is not so.
    pub disproof: String,
}

static ALL: LazyLock<BTreeMap<DiagnosisId, Explanation>> = LazyLock::new(|| {
    toml::from_str(include_str!("explanations.toml"))
        .expect("the explanations are part of the program and a test reads them")
});

impl DiagnosisId {
    /// What it is, how it is derived, what would disprove it.
    pub fn explanation(self) -> &'static Explanation {
        &ALL[&self]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_diagnosis_is_explained() {
        for id in DiagnosisId::ALL {
            let explanation = id.explanation();
            for text in [&explanation.what, &explanation.derived, &explanation.disproof] {
                assert!(text.len() > 20 && text.ends_with('.'), "{id}: {text}");
            }
        }
    }
}
