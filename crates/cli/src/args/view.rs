//! Arguments that say how work of many runs is shown while it goes on.

use clap::Args;

use crate::show::Style;

/// How much is shown.
#[derive(Debug, Clone, Copy, Args)]
pub struct ViewArgs {
    /// Plain lines instead of the live view.
    #[arg(long, help_heading = "What is seen")]
    pub plain: bool,
    /// Only the result.
    #[arg(short, long, help_heading = "What is seen")]
    pub quiet: bool,
}

impl ViewArgs {
    /// The style that is asked for.
    pub fn style(self) -> Style {
        match (self.quiet, self.plain) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Plain,
            (false, false) => Style::Auto,
        }
    }
}
