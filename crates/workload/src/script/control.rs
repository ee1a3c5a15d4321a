//! The structure of a script: conditionals become jumps, pipelines pair up.

use super::error::{Fault, Located};
use super::program::Command;

/// Follows `\if` and pipelines while a script is read.
#[derive(Default)]
pub(crate) struct ControlFlow {
    open: Vec<OpenIf>,
    pipeline: Option<usize>,
    /// Set once a pipeline command stands inside a conditional: then only the
    /// run can tell whether pipelines pair up.
    pipeline_is_conditional: bool,
}

struct OpenIf {
    offset: usize,
    /// The `JumpIfFalse` that waits for the start of the next branch.
    pending: Option<usize>,
    /// The `Jump`s that wait for the end.
    exits: Vec<usize>,
    has_else: bool,
}

impl ControlFlow {
    /// `\if`, whose jump will stand at `index`.
    pub(crate) fn begin(&mut self, offset: usize, index: usize) {
        self.open.push(OpenIf { offset, pending: Some(index), exits: Vec::new(), has_else: false });
    }

    /// `\elif`. The jump that leaves the branch before it is already the last
    /// command; the conditional jump comes next.
    pub(crate) fn elif(&mut self, offset: usize, commands: &mut [Command]) -> Result<(), Located> {
        self.next_branch(offset, "elif", commands)?;
        if let Some(open) = self.open.last_mut() {
            open.pending = Some(commands.len());
        }
        Ok(())
    }

    /// `\else`. The jump that leaves the branch before it is already the last
    /// command.
    pub(crate) fn otherwise(
        &mut self,
        offset: usize,
        commands: &mut [Command],
    ) -> Result<(), Located> {
        self.next_branch(offset, "else", commands)?;
        if let Some(open) = self.open.last_mut() {
            open.has_else = true;
        }
        Ok(())
    }

    fn next_branch(
        &mut self,
        offset: usize,
        command: &str,
        commands: &mut [Command],
    ) -> Result<(), Located> {
        let Some(open) = self.open.last_mut() else {
            return Err((offset, Fault::new(format!("\\{command} without an \\if before it"))));
        };
        if open.has_else {
            return Err((offset, Fault::new(format!("\\{command} after \\else"))));
        }
        open.exits.extend(commands.len().checked_sub(1));
        if let Some(pending) = open.pending.take() {
            set_target(commands, pending);
        }
        Ok(())
    }

    /// `\endif`.
    pub(crate) fn end(&mut self, offset: usize, commands: &mut [Command]) -> Result<(), Located> {
        let Some(open) = self.open.pop() else {
            return Err((offset, Fault::new("\\endif without an \\if before it")));
        };
        for index in open.exits.into_iter().chain(open.pending) {
            set_target(commands, index);
        }
        Ok(())
    }

    /// `\startpipeline`.
    pub(crate) fn start_pipeline(&mut self, offset: usize) -> Result<(), Located> {
        self.note_pipeline();
        if self.pipeline.is_some() && !self.pipeline_is_conditional {
            return Err((
                offset,
                Fault::new("\\startpipeline inside a pipeline")
                    .hint("end the first with \\endpipeline; pipelines do not nest"),
            ));
        }
        self.pipeline = Some(offset);
        Ok(())
    }

    /// `\syncpipeline`.
    pub(crate) fn sync_pipeline(&mut self, offset: usize) -> Result<(), Located> {
        self.note_pipeline();
        self.inside_pipeline(offset, "syncpipeline")
    }

    /// `\endpipeline`.
    pub(crate) fn end_pipeline(&mut self, offset: usize) -> Result<(), Located> {
        self.note_pipeline();
        self.inside_pipeline(offset, "endpipeline")?;
        self.pipeline = None;
        Ok(())
    }

    fn note_pipeline(&mut self) {
        self.pipeline_is_conditional |= !self.open.is_empty();
    }

    fn inside_pipeline(&self, offset: usize, command: &str) -> Result<(), Located> {
        if self.pipeline.is_none() && !self.pipeline_is_conditional {
            return Err((offset, Fault::new(format!("\\{command} without \\startpipeline"))));
        }
        Ok(())
    }

    /// How many `\if`s are open.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// `\gset` and `\aset` need a result, which a pipeline brings only later.
    pub(crate) fn gset(&self, offset: usize, command: &str) -> Result<(), Located> {
        if self.pipeline.is_some() && !self.pipeline_is_conditional {
            return Err((
                offset,
                Fault::new(format!("\\{command} is not allowed in a pipeline"))
                    .hint("end the pipeline before it with \\endpipeline"),
            ));
        }
        Ok(())
    }

    /// The end of the script.
    pub(crate) fn finish(self) -> Result<(), Located> {
        if let Some(open) = self.open.last() {
            return Err((open.offset, Fault::new("\\if without \\endif")));
        }
        match self.pipeline {
            Some(offset) if !self.pipeline_is_conditional => {
                Err((offset, Fault::new("\\startpipeline without \\endpipeline")))
            }
            _ => Ok(()),
        }
    }
}

/// Lets the jump at `index` go to the end of `commands`.
fn set_target(commands: &mut [Command], index: usize) {
    let end = commands.len();
    if let Some(Command::JumpIfFalse { target, .. } | Command::Jump { target }) =
        commands.get_mut(index)
    {
        *target = end;
    }
}
