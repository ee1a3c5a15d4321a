//! Profiles against the world: read from servers and files, compared with a machine,
//! applied, undone.
//!
//! - [`Imported`] makes a profile of a configuration that is there.
//! - [`MachineView`] and [`ServerView`] are what can be seen of both sides; [`check`]
//!   compares them with a profile or with good practice.
//! - [`ApplyPlan`] says what applying would change and lose. [`make_changes`] makes it:
//!   noted in the [ledger](walwright_store::ledger) first, read back, undone when it fails.
//!   [`undo_changes`] brings back what was, also after a crash. One process at a time
//!   changes a server: the one that has its [`Hold`].
//!
//! What a profile is and how its file is written belongs to the catalogue.

mod alter_system;
mod apply;
mod auto_conf;
mod check;
mod hold;
mod import;
mod kernel_file;
mod machine;
mod objects;
mod plan;
mod query;
mod queue;
mod restart;
mod server;
mod statements;
#[cfg(test)]
mod tree;
mod undo;
mod undone;

pub use apply::unfinished;
pub use apply::{ApplyError, Made, make_changes};
pub use check::{
    Check, CheckInput, CheckItem, Contradiction, Loss, Standing, Weight, check, losses,
};
pub use hold::{Hold, HoldError};
pub use import::{Imported, LeftOut};
pub use machine::{BlockDevice, DiskView, Found, MachineView, Mount, Reading};
pub use plan::{ApplyPlan, Consent, NotApplied, PlannedChange};
pub use restart::Restart;
pub use server::ServerView;
pub use undo::is_same_server;
pub use undo::{UndoError, undo_changes};
pub use undone::Undone;
