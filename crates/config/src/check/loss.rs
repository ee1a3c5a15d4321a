//! Values that can lose data, which a check names before anything else.

use std::cmp::Reverse;

use serde::Serialize;
use walwright_catalog::{DurabilityClass, Entry, Parameter, Profile, parameter};

use super::same;
use super::sight::Sight;

/// A value that lowers durability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The parameter, with what it is for.
    pub name: String,
    /// The value.
    pub value: String,
    /// Whether the profile wants it; else the server has it, and the profile leaves it.
    pub wanted: bool,
    /// D or X.
    pub class: DurabilityClass,
    /// What can be lost with it.
    pub loss: String,
}

impl Loss {
    fn of(parameter: &Parameter, name: String, value: &str, wanted: bool) -> Option<Loss> {
        let class = parameter.class_of(value);
        if !matches!(class, DurabilityClass::D | DurabilityClass::X) {
            return None;
        }
        let loss = parameter.weakness(value)?.to_owned();
        Some(Loss { name, value: value.to_owned(), wanted, class, loss })
    }

    fn wanted(entry: &Entry) -> Option<Loss> {
        Loss::of(entry.parameter, entry.title(), &entry.value, true)
    }
}

/// What a profile wants that can lose data, the worst first.
pub fn losses(profile: &Profile) -> Vec<Loss> {
    sorted(profile.entries.iter().filter_map(Loss::wanted).collect())
}

/// The same, with what the server has and the profile leaves as it is. Without a profile the
/// review of the settings says it.
pub(super) fn found(sight: &Sight) -> Vec<Loss> {
    let Some(profile) = sight.profile() else { return Vec::new() };
    let mut losses = losses(profile);
    for setting in sight.server().iter().flat_map(|server| &server.settings) {
        let Some(parameter) = parameter(&setting.name) else { continue };
        let is_default = parameter
            .default(sight.major().unwrap_or(u32::MAX))
            .is_some_and(|default| same(parameter, &setting.value, default));
        if !sight.wants(&parameter.name) && !is_default {
            losses.extend(Loss::of(parameter, parameter.name.clone(), &setting.value, false));
        }
    }
    sorted(losses)
}

fn sorted(mut losses: Vec<Loss>) -> Vec<Loss> {
    losses.sort_by_key(|loss| Reverse(loss.class.severity()));
    losses
}
