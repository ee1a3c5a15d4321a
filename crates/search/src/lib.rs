//! The mathematics of a search for a configuration: which configuration to measure
//! next, and what may be said at the end.
//!
//! Pure: no server, no clock, no files. [`Searcher`] is a state machine that is asked
//! for a configuration and told what it showed; it can be written down and read back
//! between any two of these, and from its seed it always asks the same. The parts stand
//! alone:
//!
//! - [`Space`]: named dimensions, their values, and the features a model sees of them;
//! - [`Design`]: Plackett–Burman designs, effects with intervals, cheap orders;
//! - [`Process`]: a Gaussian process that knows noise and drift;
//! - [`acquisition`]: the knowledge gradient and the probability of running;
//! - [`ablation`]: everything minus one, with intervals.
//!
//! A score is the natural logarithm of what is to be large (of throughput, or of one
//! over a cost): a difference of 0.05 is 5 % more or less, whatever the unit.

pub mod ablation;
pub mod acquisition;
mod budget;
mod design;
mod dimension;
mod edge;
mod hyper;
mod kernel;
mod likelihood;
mod optimise;
mod process;
mod random;
mod screening;
mod searcher;
mod slice;
mod solved;
mod space;
mod trial;

pub use ablation::{Ablation, Effect};
pub use budget::Budget;
pub use design::{Design, Runs};
pub use dimension::{Dimension, DimensionError, Domain, Range, RangeError};
pub use hyper::Hyper;
pub use process::{Look, Observation, Prediction, Process};
pub use screening::{Group, Screening};
pub use searcher::{
    Ask, Conclusion, LEAST_SIGMA, Line, Options, SearchError, Searcher, Standing, Start, WORTH,
};
pub use space::{Configuration, Space};
pub use trial::{Outcome, Purpose, Trial};
