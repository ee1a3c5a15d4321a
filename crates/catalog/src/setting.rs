//! Every setting of the server, whether or not it bears on writes.

use std::collections::HashMap;
use std::sync::OnceLock;

use strsim::damerau_levenshtein;

use crate::{Apply, Kind, Parameter, parameters};

/// What the catalogue's layers leave out, as `pg_settings` of 14 to 18 shows it.
const FILE: &str = include_str!("../data/other_settings.tsv");

/// Letters that a name may differ in to be told as the one that was meant.
const NEAR: usize = 3;

/// Names that the server still takes for others (`map_old_guc_names` of guc.c).
const OLD_NAMES: [(&str, &str); 2] =
    [("sort_mem", "work_mem"), ("vacuum_mem", "maintenance_work_mem")];

/// Settings that versions before 14 had, and what took their place.
const REMOVED: [(&str, &str); 2] =
    [("checkpoint_segments", "max_wal_size"), ("wal_keep_segments", "wal_keep_size")];

/// The last major version of the file.
const NEWEST: u32 = 18;

/// Every setting of the server, those of the catalogue first.
pub fn settings() -> impl Iterator<Item = &'static Parameter> {
    parameters().iter().filter(|parameter| parameter.is_setting()).chain(others())
}

/// The setting called `name`, of the catalogue or not; case does not matter. A name with a
/// dot is an extension's and not known here.
pub fn setting(name: &str) -> Option<&'static Parameter> {
    static BY_NAME: OnceLock<HashMap<String, &Parameter>> = OnceLock::new();
    let name = name.to_ascii_lowercase();
    let name = OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name.as_str(), |(_, new)| new);
    BY_NAME
        .get_or_init(|| settings().map(|known| (known.name.to_ascii_lowercase(), known)).collect())
        .get(name)
        .copied()
}

/// The setting of a major version that is spelled most like `name`, if it is near enough to
/// be what was meant; for one that older versions had, what took its place.
pub fn nearest_setting(name: &str, major: u32) -> Option<&'static Parameter> {
    let name = name.to_ascii_lowercase();
    if let Some((_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
        return setting(instead);
    }
    let (distance, near) = settings()
        .filter(|known| known.is_in(major))
        .map(|known| (damerau_levenshtein(&known.name.to_ascii_lowercase(), &name), known))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= NEAR && distance < name.len() / 2).then_some(near)
}

fn others() -> &'static [Parameter] {
    static OTHERS: OnceLock<Vec<Parameter>> = OnceLock::new();
    OTHERS.get_or_init(|| FILE.lines().skip(1).filter_map(row).collect())
}

/// A line of the file: name, first and last version, unit, kind, bounds, words, default, apply.
fn row(line: &str) -> Option<Parameter> {
    let mut cells = line.split('\t');
    let mut cell = || cells.next().map(str::trim).unwrap_or_default();
    let name = cell().to_owned();
    let (since, until) = (cell().parse().ok()?, cell().parse().ok()?);
    let unit = Some(cell()).filter(|unit| !unit.is_empty()).map(str::to_owned);
    let kind = match cell() {
        "bool" => Kind::Bool,
        "integer" => Kind::Integer,
        "real" => Kind::Real,
        "enum" => Kind::Enum,
        _ => Kind::String,
    };
    let bounds = Some([cell().to_owned(), cell().to_owned()]).filter(|[low, _]| !low.is_empty());
    let words = cell();
    let values = words.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let default = cell().to_owned();
    let apply = match cell() {
        "restart" => Apply::Restart,
        "reload" => Apply::Reload,
        // Of the build or the cluster: no configuration file sets it.
        "internal" => Apply::Recreate,
        _ => Apply::Session,
    };
    let default = Some(default).filter(|_| apply != Apply::Recreate);
    let mut setting = Parameter::plain(name, kind, default, apply);
    setting.unit = unit;
    setting.bounds = bounds;
    setting.values = values;
    setting.since = Some(since);
    setting.until = Some(until).filter(|until| *until < NEWEST);
    Some(setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter;

    #[test]
    fn every_line_is_a_setting_that_the_catalogue_does_not_have() {
        for line in FILE.lines().skip(1) {
            let row = row(line).unwrap_or_else(|| panic!("{line}"));
            assert!(parameter(&row.name).is_none(), "{} is in the catalogue too", row.name);
            assert_eq!(setting(&row.name), Some(&row));
            assert_eq!(row.kind == Kind::Enum, !row.values.is_empty(), "{line}");
            let numbers = matches!(row.kind, Kind::Integer | Kind::Real);
            if let Some(default) = row.default(18)
                && (row.kind == Kind::Bool || numbers && row.bounds.is_some())
            {
                row.read(default).unwrap_or_else(|error| panic!("{line}: {error}"));
            }
        }
    }

    #[test]
    fn names_are_found_and_near_ones_told() {
        assert_eq!(setting("TimeZone").unwrap().name, "TimeZone");
        assert_eq!(setting("SORT_MEM").unwrap().name, "work_mem");
        assert!(setting("shared_bufers").is_none() && setting("my.setting").is_none());
        assert!(setting("vm.swappiness").is_none(), "no setting of the server");
        let near = |name: &str, major| nearest_setting(name, major).map(|p| p.name.as_str());
        assert_eq!(near("shared_bufers", 18), Some("shared_buffers"));
        assert_eq!(near("Max_Wal_Sizes", 18), Some("max_wal_size"));
        assert_eq!(near("io_metod", 18), Some("io_method"));
        assert_ne!(near("io_metod", 16), Some("io_method"), "16 has none");
        assert_eq!(near("checkpoint_segments", 18), Some("max_wal_size"));
        assert_eq!(near("xyz", 18), None);
        assert_eq!(near("something_else_entirely", 18), None);
    }
}
