//! The space of a search: its dimensions together.

use std::collections::BTreeMap;

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::{Dimension, DimensionError, Domain};

/// A value for each dimension, by name, as this crate writes them.
pub type Configuration = BTreeMap<String, String>;

/// Named dimensions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// In the order a model sees them.
    pub dimensions: Vec<Dimension>,
}

impl Space {
    /// The dimension called `name`.
    pub fn dimension(&self, name: &str) -> Option<&Dimension> {
        self.dimensions.iter().find(|dimension| dimension.name == name)
    }

    /// The configuration in which every dimension has its default.
    pub fn home(&self) -> Configuration {
        self.dimensions.iter().map(|d| (d.name.clone(), d.home.clone())).collect()
    }

    /// A configuration with these values and defaults for the rest; values of other
    /// names are left out.
    ///
    /// # Errors
    /// When a value is none of its dimension.
    pub fn configuration<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Configuration, DimensionError> {
        let mut configuration = self.home();
        for (name, value) in values {
            if let Some(dimension) = self.dimension(name) {
                configuration.insert(dimension.name.clone(), dimension.canonical(value)?);
            }
        }
        Ok(configuration)
    }

    /// What differs from another configuration, name and value.
    pub fn changes<'a>(
        &'a self,
        configuration: &'a Configuration,
        from: &'a Configuration,
    ) -> impl Iterator<Item = (&'a Dimension, &'a str)> {
        self.dimensions.iter().filter_map(move |dimension| {
            let value = configuration.get(&dimension.name)?;
            (from.get(&dimension.name) != Some(value)).then_some((dimension, value.as_str()))
        })
    }

    /// What a model sees of a configuration.
    pub fn features(&self, configuration: &Configuration) -> Vec<f64> {
        self.dimensions
            .iter()
            .flat_map(|d| d.features(configuration.get(&d.name).unwrap_or(&d.home)))
            .collect()
    }

    /// Of [`Space::features`], the positions on ranges that have no special values: there, more
    /// or less is all there is.
    pub fn scales(&self) -> Vec<usize> {
        let mut next = 0;
        let mut scales = Vec::new();
        for dimension in &self.dimensions {
            if matches!(&dimension.domain, Domain::Range(range) if range.special.is_empty()) {
                scales.push(next);
            }
            next += dimension.features(&dimension.home).len();
        }
        scales
    }

    /// A random value in every dimension.
    pub fn sample(&self, rng: &mut impl RngExt) -> Configuration {
        self.dimensions.iter().map(|d| (d.name.clone(), d.sample(rng))).collect()
    }
}
