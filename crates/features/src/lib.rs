//! No code: the manifest states the features of shared dependencies once, for all crates.
