//! The names of variables while scripts are compiled.

use std::collections::{HashMap, HashSet};

use super::error::{Fault, Located, ScriptError, closest};
use super::expr_parser::{self, Resolve};
use super::program::Slot;
use super::token::{CommandReader, is_name_part, is_name_start};
use super::value::Value;

pub(crate) fn is_valid_name(name: &str) -> bool {
    name.bytes().next().is_some_and(is_name_start) && name.bytes().all(is_name_part)
}

/// Expressions outside scripts (row counts, columns) that share variables.
pub(crate) struct Scope {
    names: Names,
}

impl Scope {
    /// A scope whose expressions may use these names.
    pub(crate) fn new<'n>(known: impl IntoIterator<Item = &'n str>) -> Self {
        let mut names = Names::default();
        for name in known {
            names.settable.insert(name.to_owned());
        }
        Scope { names }
    }

    /// Compiles an expression; `place` says where it was written.
    pub(crate) fn compile(&mut self, place: &str, text: &str) -> Result<super::Expr, ScriptError> {
        // An expression in a file of its own lines may span them freely.
        let text = text.replace(['\n', '\r'], " ");
        let error = |(at, fault): Located| ScriptError::at(place, &text, at, fault);
        let tokens = CommandReader::new(&text, 0).tokens().map_err(error)?;
        let mut reads = Vec::new();
        let mut resolve = Reads { names: &mut self.names, reads: &mut reads };
        let expr = expr_parser::parse(&tokens, &mut resolve).map_err(error)?;
        for (offset, name) in reads {
            if !self.names.may_be_set(&name) {
                let mut known: Vec<&str> = self.names.settable.iter().map(String::as_str).collect();
                known.sort_unstable();
                let fault = Fault::new(format!("undefined variable \"{name}\""))
                    .hint(format!("the variables here are :{}", known.join(", :")));
                return Err(error((offset, fault)));
            }
        }
        Ok(expr)
    }

    /// The slot of a name that expressions compiled from here on may use too.
    pub(crate) fn define(&mut self, name: &str) -> Slot {
        self.names.define(name)
    }

    /// The slot of a name that a compiled expression uses.
    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.names.slots.get(name).copied()
    }

    /// How many slots the compiled expressions use.
    pub(crate) fn slot_count(&self) -> usize {
        self.names.by_slot.len()
    }
}

/// The names of variables: their slots, and which of them something may set.
#[derive(Default)]
pub(super) struct Names {
    pub(super) by_slot: Vec<String>,
    slots: HashMap<String, Slot>,
    pub(super) settable: HashSet<String>,
    /// Names that `\text` or `\uuid` sets.
    pub(super) texts: HashSet<String>,
    pub(super) gset_prefixes: Vec<String>,
    /// Names read outside quotes.
    pub(super) plain: HashSet<String>,
    /// Names that stand in quotes and that only a `\gset` without prefix could
    /// set.
    pub(super) doubtful: HashSet<String>,
}

impl Names {
    pub(super) fn slot(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = Slot(self.by_slot.len() as u32);
        self.by_slot.push(name.to_owned());
        self.slots.insert(name.to_owned(), slot);
        slot
    }

    pub(super) fn define(&mut self, name: &str) -> Slot {
        self.settable.insert(name.to_owned());
        self.slot(name)
    }

    pub(super) fn define_text(&mut self, name: &str) -> Slot {
        self.texts.insert(name.to_owned());
        self.define(name)
    }

    /// Whether a `\set`, `-D`, a `\gset` or the run itself may set the name.
    pub(super) fn may_be_set(&self, name: &str) -> bool {
        self.is_meant(name) || self.gset_prefixes.iter().any(String::is_empty)
    }

    /// Whether something may set the name that speaks of it: not just a
    /// `\gset` without prefix, which may set any name.
    pub(super) fn is_meant(&self, name: &str) -> bool {
        let mut prefixes = self.gset_prefixes.iter().filter(|prefix| !prefix.is_empty());
        self.settable.contains(name) || prefixes.any(|prefix| name.starts_with(prefix.as_str()))
    }

    /// Start values for the doubtful names: the text that stands there, which
    /// is what pgbench leaves while nothing has set the variable.
    pub(super) fn literal_starts(&self) -> Vec<(Slot, Value)> {
        let only_quoted = self.doubtful.difference(&self.plain);
        let slots = only_quoted.filter_map(|name| {
            let slot = self.slots.get(name)?;
            Some((*slot, Value::Text(format!(":{name}").into())))
        });
        slots.collect()
    }

    pub(super) fn undefined(&self, name: &str) -> Fault {
        let fault = Fault::new(format!("undefined variable \"{name}\""));
        let mut known: Vec<&str> = self.settable.iter().map(String::as_str).collect();
        known.sort_unstable();
        match closest(name, known) {
            Some(near) => fault.hint(format!("did you mean :{near}?")),
            None => fault.hint(format!(
                "no \\set or \\gset sets it; define it with -D {name}=value, or write \\:{name} for a plain colon"
            )),
        }
    }
}

/// Gives slots to the variables of an expression and remembers the reads.
pub(super) struct Reads<'r> {
    pub(super) names: &'r mut Names,
    pub(super) reads: &'r mut Vec<(usize, String)>,
}

impl Resolve for Reads<'_> {
    fn variable(&mut self, name: &str, offset: usize) -> Slot {
        self.reads.push((offset, name.to_owned()));
        self.names.slot(name)
    }
}
