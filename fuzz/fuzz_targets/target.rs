//! The target that `WALWRIGHT_FUZZ` names, of those in `crates/fuzz`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use walwright_fuzz::{TARGETS, Target, target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("WALWRIGHT_FUZZ").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names = TARGETS.map(|target| target.name).join(", ");
        panic!("set WALWRIGHT_FUZZ to one of: {names}")
    })
});

fuzz_target!(|bytes: &[u8]| (CHOSEN.feed)(bytes));
