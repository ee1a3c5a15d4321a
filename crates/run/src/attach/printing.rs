//! Where a command's words go.

use std::path::PathBuf;

/// Where what a command prints goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Printing {
    /// Where walwright's own goes.
    #[default]
    Through,
    /// To standard error alone, because walwright prints its own result on standard output.
    ToErrors,
    /// To this file, so that its last lines can be told where it fails.
    File(PathBuf),
}
