//! Tests that judge where processors went: one after another, and never beside the others.

#[path = "../cli/common/mod.rs"]
mod common;

mod cliff;
mod record_roles;

use std::sync::{Mutex, MutexGuard};

static PROCESSORS: Mutex<()> = Mutex::new(());

/// The machine for one test, until it is dropped.
fn alone() -> MutexGuard<'static, ()> {
    PROCESSORS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
