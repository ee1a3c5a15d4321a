//! The layers that a search covers, and what consent each of them needs.
//!
//! A parameter of the search carries its layer in its name: settings and values of the
//! kernel are called as the catalogue calls them, parts of the schema are named with
//! their table or index.

use serde::Serialize;
use walwright_catalog::{Parameter, Place, parameter};

use super::TunePlan;

/// What consents to all values of the kernel that bear on writes.
const KERNEL: &str = "kernel";
/// What consents to changes of the schema.
const SCHEMA: &str = "schema";

/// Where a parameter of a search lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// A setting of the server.
    Setting,
    /// A value of the kernel, which every process of the machine feels.
    Kernel,
    /// A table's or an index's own.
    Schema,
}

impl Layer {
    /// The layer of the parameter that a search calls so.
    pub fn of(name: &str) -> Layer {
        match parameter(name) {
            Some(of) if is_of_kernel(of) => Layer::Kernel,
            Some(of) if of.is_of_objects() => Layer::Schema,
            Some(_) => Layer::Setting,
            None => Layer::Schema,
        }
    }

    /// In a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Layer::Setting => "setting",
            Layer::Kernel => "kernel",
            Layer::Schema => "schema",
        }
    }

    /// What a value of it goes back to when nothing speaks for another, in words.
    pub(super) fn home(self) -> &'static str {
        match self {
            Layer::Setting => "its default",
            Layer::Kernel => "the machine's own value",
            Layer::Schema => "the schema as it was",
        }
    }

    /// The layer that consent by this word covers whole.
    pub(super) fn named(word: &str) -> Option<Layer> {
        [(KERNEL, Layer::Kernel), (SCHEMA, Layer::Schema)]
            .into_iter()
            .find(|(name, _)| word.eq_ignore_ascii_case(name))
            .map(|(_, layer)| layer)
    }

    /// The layer that a word of a person is about: one it names whole, or that of a
    /// parameter.
    pub(super) fn meant(word: &str) -> Layer {
        Layer::named(word).unwrap_or_else(|| Layer::of(word))
    }
}

/// Whether the kernel keeps it.
pub(super) fn is_of_kernel(of: &Parameter) -> bool {
    matches!(of.place, Place::Sysctl | Place::File(_) | Place::Queue(_) | Place::Md(_))
}

impl TunePlan {
    /// Whether there is consent by this name.
    pub(super) fn consents(&self, name: &str) -> bool {
        self.consent.iter().any(|consent| consent.eq_ignore_ascii_case(name))
    }

    /// Whether there is consent to a whole layer.
    pub(super) fn consents_to(&self, layer: Layer) -> bool {
        self.consent.iter().any(|consent| Layer::named(consent) == Some(layer))
    }

    /// Whether the search is not restricted to others: by its name, that of the parameter
    /// it is of (`table.fillfactor (public.t)`), or its layer's.
    pub(super) fn lets_search(&self, name: &str, layer: Layer) -> bool {
        let parameter = name.split(" (").next().unwrap_or(name);
        let means = |only: &String| {
            only.eq_ignore_ascii_case(name)
                || only.eq_ignore_ascii_case(parameter)
                || Layer::named(only) == Some(layer)
        };
        self.only.is_empty() || self.only.iter().any(means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::plan;

    #[test]
    fn a_name_tells_its_layer_and_consent_covers_names_or_layers() {
        assert_eq!(Layer::of("commit_delay"), Layer::Setting);
        assert_eq!(Layer::of("vm.swappiness"), Layer::Kernel);
        for schema in ["index public.unused", "table.fillfactor", "table.fillfactor (public.t)"] {
            assert_eq!(Layer::of(schema), Layer::Schema, "{schema}");
        }
        assert_eq!(
            [Layer::meant("kernel"), Layer::meant("schema")],
            [Layer::Kernel, Layer::Schema]
        );
        let mut with = plan();
        assert!(!with.consents_to(Layer::Kernel) && with.lets_search("anything", Layer::Schema));
        with.consent = vec!["Kernel".to_owned(), "synchronous_commit".to_owned()];
        with.only = vec!["schema".to_owned(), "vm.swappiness".to_owned()];
        assert!(with.consents_to(Layer::Kernel) && !with.consents_to(Layer::Schema));
        assert!(with.consents("SYNCHRONOUS_COMMIT"));
        assert!(with.lets_search("index public.unused", Layer::Schema));
        assert!(with.lets_search("vm.swappiness", Layer::Kernel));
        assert!(!with.lets_search("vm.dirty_bytes", Layer::Kernel));
        with.only = vec!["table.fillfactor".to_owned()];
        assert!(with.lets_search("table.fillfactor (public.t)", Layer::Schema));
        assert!(!with.lets_search("index public.unused", Layer::Schema));
    }
}
