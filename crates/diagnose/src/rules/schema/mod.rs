//! What the schema costs: indexes, keys, partitions, row versions, vacuum and age.
//!
//! Each rule takes a definition from the catalog and what the load did with it. A
//! definition that the load does not touch costs nothing and is no finding, and
//! nothing is advised that exists. Costs are bounded by a model whose constants are
//! stated where they are used; the interval says how little the model knows.

mod age;
mod children;
mod foreign_keys;
mod hot;
mod indexes;
mod keys;
mod partitions;
mod replica_identity;
mod statement_text;
#[cfg(test)]
mod testing;
mod toast;
mod vacuum;
mod view;

use super::threshold::matters;
use crate::{Finding, Kind, Reading};
pub(super) use keys::INDEX_BLOCKS_READ;
use view::View;
pub(super) use view::bounded;

/// The findings of this family.
pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    let Some(view) = View::of(reading) else { return Vec::new() };
    let rules: [fn(&View) -> Vec<Finding>; 10] = [
        foreign_keys::findings,
        children::findings,
        indexes::findings,
        hot::findings,
        keys::findings,
        partitions::findings,
        replica_identity::findings,
        toast::findings,
        vacuum::findings,
        age::findings,
    ];
    rules.iter().flat_map(|rule| rule(&view)).collect()
}

/// A problem where the cost matters, else information.
fn by_cost(finding: Finding) -> Finding {
    let matters =
        finding.impact.as_ref().is_some_and(|impact| matters(impact, finding.gain.as_ref()));
    Finding { kind: if matters { Kind::Problem } else { Kind::Information }, ..finding }
}
