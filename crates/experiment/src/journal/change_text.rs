//! What an arm changes, read from its text.

use walwright_catalog::{DurabilityClass, parameter};

use crate::grave_words;

/// What a change begins with that an arm of an ablation leaves out.
pub(super) const LEFT_OUT: &str = "not ";

/// What words of a configuration or a baseline begin with that name files, hosts and
/// builds: no statement.
const NAMES: [&str; 4] = ["workload ", "scripts ", "PostgreSQL ", "on "];

/// Name and value of a change that has both; `None` of statements, which may hold an equals
/// sign too.
pub(super) fn named(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(" = ")?;
    let kinds = ["option ", "variable "];
    let own = kinds.into_iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name);
    (!own.contains(char::is_whitespace)).then_some((name, value))
}

/// What a change can lose, or one that is left out could; `None` where nothing of it is in
/// the catalogue.
///
/// What value a statement gives a setting is not read: naming one that can lower durability
/// is enough, as it is where consent is asked for.
pub(super) fn class_of(text: &str) -> Option<DurabilityClass> {
    let text = text.strip_prefix(LEFT_OUT).unwrap_or(text);
    if let Some((name, value)) = named(text) {
        return Some(parameter(name)?.class_of(value));
    }
    if NAMES.into_iter().any(|name| text.starts_with(name)) {
        return None;
    }
    grave_words(text).next().map(|word| word.class())
}
