//! One dimension of a search: a parameter, where it may lie, and how a model sees it.

use rand::RngExt;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use walwright_catalog::{Apply, Kind, Parameter, Unit, Value, parameter};

/// Chance that a random configuration takes each special value of a dimension; together
/// they take at most half (LlamaTune, VLDB'22, biases them by 0.2).
const SPECIAL_MASS: f64 = 0.15;
/// Chance that it keeps the dimension's default: most parameters do not matter, and a
/// configuration that leaves them alone needs no argument.
const HOME_MASS: f64 = 0.2;
/// Where a screening's other level lies in a range.
const FAR: f64 = 0.7;
/// How far outside its range a model sees a value that was set outside it.
const OUTSIDE: f64 = 3.0;

/// A dimension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dimension {
    /// Name of the parameter.
    pub name: String,
    /// What it is screened together with: the layer it belongs to.
    pub group: String,
    /// Where it may lie.
    pub domain: Domain,
    /// Its default: where it goes back to when nothing speaks for another value.
    pub home: String,
    /// The other level of a screening, where a rule or a diagnosis has one to try.
    pub trial: Option<String>,
    /// Whether a change needs a restart of the server.
    pub restart: bool,
}

/// The values of a dimension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Numbers.
    Range(Range),
    /// Words without an order.
    Words(Vec<String>),
}

/// Numbers between two bounds, and special values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Lowest, in the parameter's unit.
    pub low: f64,
    /// Highest.
    pub high: f64,
    /// Whether equal factors, not equal steps, are equally far.
    pub log: bool,
    /// Whether only whole numbers are values.
    pub whole: bool,
    /// The unit, as `pg_settings.unit` writes it.
    pub unit: Option<String>,
    /// Values that mean something of their own.
    pub special: Vec<f64>,
}

/// Why a parameter makes no dimension.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RangeError {
    /// The catalogue names no range for it.
    #[error("the catalogue names no range to search for {0}")]
    NotSearched(String),
    /// Its range is a share of a memory whose size is not known.
    #[error("the range of {0} is a share of memory, and the machine's memory is not known")]
    NoMemory(String),
    /// A bound that is no number, or bounds in the wrong order.
    #[error("the range of {0} in the catalogue is not one: {1}")]
    Bounds(String, String),
}

/// A value that is none of a dimension.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text} is no value of {name}: {why}")]
pub struct DimensionError {
    /// The dimension.
    pub name: String,
    /// What was written.
    pub text: String,
    /// Why not.
    pub why: String,
}

impl Dimension {
    /// The dimension of a catalogue parameter in a major version, on a machine with so
    /// much memory.
    ///
    /// # Errors
    /// When it has no range, or one that needs an unknown memory.
    pub fn of(
        parameter: &Parameter,
        major: u32,
        memory_bytes: Option<f64>,
    ) -> Result<Dimension, RangeError> {
        let home = parameter.default(major).unwrap_or_default();
        let dimension = Dimension::at_home(parameter, home, memory_bytes)?;
        Ok(Dimension { restart: parameter.apply(major) == Apply::Restart, ..dimension })
    }

    /// The dimension of a catalogue parameter whose default is what a machine or a table
    /// has now: it goes back to `home`, and no change needs a restart of the server.
    ///
    /// # Errors
    /// As [`Dimension::of`], and when `home` is no value of it.
    pub fn at_home(
        parameter: &Parameter,
        home: &str,
        memory_bytes: Option<f64>,
    ) -> Result<Dimension, RangeError> {
        let name = || parameter.name.clone();
        let search = parameter.search.as_ref().ok_or_else(|| RangeError::NotSearched(name()))?;
        let domain = match parameter.kind {
            Kind::Integer | Kind::Real => {
                let bound = |text: &str| bound(parameter, text, memory_bytes);
                let (low, high) = (bound(&search.from)?, bound(&search.to)?);
                if low >= high {
                    return Err(RangeError::Bounds(name(), format!("{low} is not below {high}")));
                }
                Domain::Range(Range {
                    low,
                    high,
                    log: search.scale == "log",
                    whole: parameter.kind == Kind::Integer,
                    unit: parameter.unit.clone(),
                    special: search
                        .special
                        .iter()
                        .map(|text| bound(text))
                        .collect::<Result<_, _>>()?,
                })
            }
            Kind::Bool => Domain::Words(vec!["off".to_owned(), "on".to_owned()]),
            _ => Domain::Words(search.special.clone()),
        };
        let mut dimension = Dimension {
            name: name(),
            group: parameter.layer.clone(),
            domain,
            home: home.to_owned(),
            trial: None,
            restart: false,
        };
        dimension.home = dimension
            .canonical(home)
            .map_err(|error| RangeError::Bounds(name(), error.to_string()))?;
        Ok(dimension)
    }

    /// The value as this crate writes it, so that equal values are equal texts.
    ///
    /// # Errors
    /// When it is no value of the dimension.
    pub fn canonical(&self, text: &str) -> Result<String, DimensionError> {
        match &self.domain {
            Domain::Range(range) => self.number(range, text).map(|number| range.text(number)),
            Domain::Words(words) => {
                let known = |word: &str| words.iter().find(|w| w.eq_ignore_ascii_case(word));
                let read = parameter(&self.name)
                    .and_then(|p| p.read(text).ok())
                    .map(|value| value.to_string());
                // A word outside those searched is still the value that someone set.
                known(text)
                    .cloned()
                    .or(read)
                    .ok_or_else(|| self.wrong(text, format!("one of {}", words.join(", "))))
            }
        }
    }

    /// The value, or the end of the range that is nearest to it: what someone advises may lie
    /// where this search must not go.
    ///
    /// # Errors
    /// When it is no value of the dimension.
    pub fn nearest(&self, text: &str) -> Result<String, DimensionError> {
        let value = self.canonical(text)?;
        Ok(match self.position(&value) {
            Some(position) if !(0.0..=1.0).contains(&position) => self.at(position),
            _ => value,
        })
    }

    fn number(&self, range: &Range, text: &str) -> Result<f64, DimensionError> {
        match parameter(&self.name) {
            Some(parameter) => parameter
                .read(text)
                .map_err(|error| self.wrong(text, error.to_string()))?
                .number()
                .ok_or_else(|| self.wrong(text, "a number is needed".to_owned())),
            None => text
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
                .map(|number| if range.whole { number.round() } else { number })
                .ok_or_else(|| self.wrong(text, "a number is needed".to_owned())),
        }
    }

    fn wrong(&self, text: &str, why: String) -> DimensionError {
        DimensionError { name: self.name.clone(), text: text.to_owned(), why }
    }

    /// Where a value lies between the ends of the range, 0 to 1; a value set outside of
    /// it lies outside too. `None` for words, and for special values outside the range.
    pub fn position(&self, value: &str) -> Option<f64> {
        let Domain::Range(range) = &self.domain else { return None };
        let number = self.number(range, value).ok()?;
        if range.special.contains(&number) && !(range.low..=range.high).contains(&number) {
            return None;
        }
        Some(range.position(number))
    }

    /// The value at a position of the range, 0 to 1, rounded to one a person would write.
    /// Words lie one after the other.
    pub fn at(&self, position: f64) -> String {
        let position = position.clamp(0.0, 1.0);
        match &self.domain {
            Domain::Range(range) => range.text(range.at(position)),
            Domain::Words(words) => {
                let last = words.len().saturating_sub(1);
                let index = ((position * words.len() as f64) as usize).min(last);
                words.get(index).cloned().unwrap_or_else(|| self.home.clone())
            }
        }
    }

    /// A random value: the default and special values with a probability of their own,
    /// otherwise anywhere in the range.
    pub fn sample(&self, rng: &mut impl RngExt) -> String {
        let luck = rng.random::<f64>();
        if luck < HOME_MASS {
            return self.home.clone();
        }
        if let Domain::Range(range) = &self.domain {
            let mass = SPECIAL_MASS.min(0.5 / range.special.len().max(1) as f64);
            let which = ((luck - HOME_MASS) / mass) as usize;
            if let Some(special) = range.special.get(which) {
                return range.text(*special);
            }
        }
        self.at(rng.random::<f64>())
    }

    /// A value near another one: a step on the range, now and then a special value, the
    /// default or another word.
    pub fn near(&self, value: &str, step: f64, rng: &mut impl RngExt) -> String {
        match self.position(value) {
            Some(position) if rng.random::<f64>() > 0.2 => {
                self.at(position + step * (2.0 * rng.random::<f64>() - 1.0))
            }
            _ => self.sample(rng),
        }
    }

    /// How a model sees a value: the position, and a mark for each special value, which
    /// may be unlike its neighbours; a mark for each word, two words sharing one.
    pub fn features(&self, value: &str) -> Vec<f64> {
        let mark = |yes: bool| if yes { 1.0 } else { 0.0 };
        match &self.domain {
            Domain::Range(range) => {
                let number = self.number(range, value).ok();
                let mut features = vec![self.position(value).unwrap_or(0.5)];
                features.extend(range.special.iter().map(|s| mark(number == Some(*s))));
                features
            }
            Domain::Words(words) if words.len() <= 2 => {
                vec![mark(words.last().is_some_and(|word| word == value))]
            }
            Domain::Words(words) => words.iter().map(|word| mark(word == value)).collect(),
        }
    }

    /// The level a screening sets against `value`: the one a rule would try, else a special
    /// value, else one towards the farther end of the range, well off its edge: the last
    /// stretch of a range is where servers run out of something.
    pub fn opposite(&self, value: &str) -> String {
        if let Some(trial) = self.trial.as_ref().filter(|trial| *trial != value) {
            return trial.clone();
        }
        match &self.domain {
            Domain::Range(range) => {
                let is_special = |text: &str| range.special.iter().any(|s| range.text(*s) == text);
                match range.special.first() {
                    Some(special) if !is_special(value) => range.text(*special),
                    _ => {
                        let low = self.position(value).unwrap_or(0.0) < 0.5;
                        self.at(if low { FAR } else { 1.0 - FAR })
                    }
                }
            }
            Domain::Words(words) => {
                words.iter().rev().find(|word| *word != value).unwrap_or(&self.home).clone()
            }
        }
    }

    /// A level between `value` and its opposite, this share of the way; the opposite itself
    /// where it is a rule's value, a special one or a word, between which and others nothing
    /// lies.
    pub fn towards_opposite(&self, value: &str, share: f64) -> String {
        let opposite = self.opposite(value);
        let jumps = self.trial.as_ref() == Some(&opposite)
            || matches!(&self.domain, Domain::Range(range)
                if range.special.iter().any(|special| range.text(*special) == opposite));
        match (self.position(value), self.position(&opposite)) {
            (Some(from), Some(to)) if share < 1.0 && !jumps => self.at(from + share * (to - from)),
            _ => opposite,
        }
    }
}

fn bound(parameter: &Parameter, text: &str, memory_bytes: Option<f64>) -> Result<f64, RangeError> {
    let name = || parameter.name.clone();
    let wrong = |why: String| RangeError::Bounds(name(), why);
    let number = match text.strip_suffix("% ram") {
        Some(share) => {
            let memory = memory_bytes.ok_or_else(|| RangeError::NoMemory(name()))?;
            let share: f64 =
                share.trim().parse().map_err(|_| wrong(format!("'{text}' is no share")))?;
            match parameter.unit.as_deref().and_then(Unit::named) {
                Some(Unit::Bytes(size)) => (memory * share / 100.0 / size).floor(),
                _ => return Err(wrong(format!("'{text}' needs a unit of bytes"))),
            }
        }
        None => parameter
            .read(text)
            .map_err(|error| wrong(error.to_string()))?
            .number()
            .ok_or_else(|| wrong(format!("'{text}' is no number")))?,
    };
    Ok(number)
}

impl Range {
    /// The scale on which equal distances are equal.
    fn scaled(&self, number: f64) -> f64 {
        match (self.log, self.low > 0.0) {
            (false, _) => number,
            (true, true) => number.max(self.low / 1024.0).ln(),
            // A logarithmic range from zero counts from one below its first step.
            (true, false) => (1.0 + (number - self.low).max(0.0)).ln(),
        }
    }

    fn position(&self, number: f64) -> f64 {
        let (low, high) = (self.scaled(self.low), self.scaled(self.high));
        ((self.scaled(number) - low) / (high - low)).clamp(-OUTSIDE, 1.0 + OUTSIDE)
    }

    fn at(&self, position: f64) -> f64 {
        let (low, high) = (self.scaled(self.low), self.scaled(self.high));
        let scaled = low + position * (high - low);
        let number = match (self.log, self.low > 0.0) {
            (false, _) => scaled,
            (true, true) => scaled.exp(),
            (true, false) => scaled.exp() - 1.0 + self.low,
        };
        self.rounded(number.clamp(self.low, self.high))
    }

    /// A number that a person would write, which also makes buckets: two significant
    /// digits; of bytes two bits after the first, in whole units.
    fn rounded(&self, number: f64) -> f64 {
        let round_to = |number: f64, step: f64| (number / step).round() * step;
        let rounded = match self.unit.as_deref().and_then(Unit::named) {
            _ if number == 0.0 => 0.0,
            Some(Unit::Bytes(_)) => round_to(number, (number.abs().log2().floor() - 2.0).exp2()),
            _ => {
                let exponent = number.abs().log10().floor() as i32 - 1;
                // Dividing by a whole power keeps 0.55 from becoming 0.55000000000000004.
                if exponent < 0 {
                    let power = 10.0_f64.powi(-exponent);
                    (number * power).round() / power
                } else {
                    round_to(number, 10.0_f64.powi(exponent))
                }
            }
        };
        let whole = if self.whole { rounded.round() } else { rounded };
        // A range may begin above the number that rounding leads to.
        if (self.low..=self.high).contains(&whole) { whole } else { number_within(self, number) }
    }

    fn text(&self, number: f64) -> String {
        Value::Number(number, self.unit.as_deref().and_then(Unit::named)).to_string()
    }
}

/// The number itself, whole where it has to be, inside the range.
fn number_within(range: &Range, number: f64) -> f64 {
    if !range.whole {
        return number;
    }
    number.round().clamp(range.low.ceil(), range.high.floor())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use walwright_catalog::parameters;

    use super::*;
    use crate::random::generator;

    const MEMORY: f64 = 8.0 * 1_073_741_824.0;

    fn dimension(name: &str) -> Dimension {
        Dimension::of(parameter(name).unwrap(), 18, Some(MEMORY)).unwrap()
    }

    #[test]
    fn every_searchable_parameter_is_a_dimension_whose_values_the_server_takes() {
        let mut rng = generator(1, 0);
        let mut seen = 0;
        for p in parameters().iter().filter(|p| p.search.is_some() && p.is_in(18)) {
            let Ok(dimension) = Dimension::of(p, 18, Some(MEMORY)) else { continue };
            seen += 1;
            for step in 0..50 {
                for value in [dimension.sample(&mut rng), dimension.at(f64::from(step) / 49.0)] {
                    p.read(&value).unwrap_or_else(|e| panic!("{} {value}: {e}", p.name));
                    assert_eq!(dimension.canonical(&value).unwrap(), value, "{}", p.name);
                    let features = dimension.features(&value);
                    assert_eq!(features.len(), dimension.features(&dimension.home).len());
                    assert!(features.iter().all(|f| f.is_finite()));
                }
            }
            assert_ne!(dimension.opposite(&dimension.home), dimension.home, "{}", p.name);
        }
        assert!(seen >= 25, "{seen}");
    }

    #[test]
    fn values_are_what_a_person_would_write() {
        let buffers = dimension("shared_buffers");
        let value = buffers.at(0.5);
        assert!(value.ends_with("MB") || value.ends_with("GB"), "{value}");
        assert_eq!(buffers.canonical("16384").unwrap(), "128MB");
        assert_eq!(dimension("commit_delay").at(0.1234), "620");
        assert_eq!(dimension("checkpoint_completion_target").at(0.33), "0.63");
    }

    #[test]
    fn special_values_have_probability_and_a_mark_of_their_own() {
        let delay = dimension("commit_delay");
        let mut rng = generator(2, 0);
        let zeros = (0..1_000).filter(|_| delay.sample(&mut rng) == "0").count();
        assert!((250..=450).contains(&zeros), "{zeros}");
        assert_eq!(delay.features("0"), [0.0, 1.0]);
        assert_eq!(delay.features("2500"), [0.5, 0.0]);
        // Automatic is no size at all, so it lies nowhere on the range.
        assert_eq!(dimension("wal_buffers").features("-1"), [0.5, 1.0]);
    }

    #[test]
    fn a_value_that_was_set_outside_the_range_is_seen_outside() {
        let buffers = dimension("shared_buffers");
        let low = buffers.position("16MB").unwrap();
        assert!((-3.0..0.0).contains(&low), "{low}");
        assert!(buffers.position("128MB").unwrap() > low);
        assert!(buffers.canonical("much").is_err());
    }

    #[test]
    fn home_may_be_what_a_machine_has_now() {
        let swappiness = parameter("vm.swappiness").unwrap();
        let here = Dimension::at_home(swappiness, "37", None).unwrap();
        assert_eq!((here.home.as_str(), here.restart), ("37", false));
        assert!(Dimension::at_home(swappiness, "much", None).is_err());
        // The kernel writes bytes as a bare number.
        let bytes = parameter("vm.dirty_background_bytes").unwrap();
        let bytes = Dimension::at_home(bytes, "67108864", None).unwrap();
        assert_eq!(bytes.home, "64MB");
    }

    #[test]
    fn memory_that_is_not_known_makes_no_range() {
        let error = Dimension::of(parameter("shared_buffers").unwrap(), 18, None).unwrap_err();
        assert_eq!(error, RangeError::NoMemory("shared_buffers".to_owned()));
        let error = Dimension::of(parameter("fsync").unwrap(), 18, None).unwrap_err();
        assert!(matches!(error, RangeError::NotSearched(_)));
    }

    proptest! {
        #[test]
        fn rounding_stays_near_and_inside(u in 0.0..=1.0_f64) {
            for name in ["shared_buffers", "max_wal_size", "wal_writer_delay", "work_mem"] {
                let dimension = dimension(name);
                let back = dimension.position(&dimension.at(u)).unwrap();
                prop_assert!((0.0..=1.0).contains(&back), "{name} {back}");
                prop_assert!((back - u).abs() < 0.08, "{name} {u} {back}");
            }
        }
    }
}
