//! What reads bytes from outside, as functions of bytes: targets for fuzzing.
//!
//! A [`Target`] has samples, which are real inputs, and a function that feeds any bytes to the
//! product. The function panics only where the product does. `tests/targets.rs` feeds them
//! mutated samples, so many as a test may take or as `PROPTEST_CASES` says; `fuzz/` at the
//! root of the repository feeds them what libFuzzer finds.

mod driver;
mod files;
mod records;
mod texts;
mod wire;

/// Something that reads bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, in the letters of a file's name.
    pub name: &'static str,
    /// Real inputs.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Reads bytes, whatever they are.
    pub feed: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 13] = [
    texts::SCRIPT,
    texts::ARGUMENTS,
    texts::CONFIG_ENV,
    texts::VALUES,
    texts::EXPERIMENT_PLAN,
    texts::CLIENT_LOG,
    files::WORKLOAD,
    files::POSTGRESQL_CONF,
    files::LAB,
    records::STORE,
    records::COLUMNS,
    wire::BACKEND,
    driver::DRIVER,
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Longest sample, in bytes: what is longer is cut, so that mutations meet what is read.
const LONGEST: usize = 12_000;

/// Samples of texts.
fn samples(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes()[..text.len().min(LONGEST)].to_vec()).collect()
}
