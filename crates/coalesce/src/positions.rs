//! Sets of positions in a source.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Ranges of positions that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Positions(BTreeMap<u64, u64>);

impl Positions {
    /// Adds a range.
    pub(crate) fn add(&mut self, range: &Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        // Those that begin at or before its end and end at or behind its start.
        while let Some((&other, &other_end)) = self.0.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            start = start.min(other);
            end = end.max(other_end);
            self.0.remove(&other);
        }
        self.0.insert(start, end);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is done from 0 on without a gap.
    pub(crate) fn first_gapless(&self) -> Option<Range<u64>> {
        self.0.get(&0).map(|end| 0..*end)
    }

    /// Reads an `int8multirange` in PostgreSQL's own text, e.g. `{[0,7),[9,12)}`.
    pub(crate) fn parse(text: &str) -> Vec<Range<u64>> {
        let numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect::<Vec<u64>>();
        numbers.as_chunks::<2>().0.iter().map(|[start, end]| *start..*end).collect()
    }
}

/// As `int8multirange` reads it.
impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, (start, end)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}[{start},{end})")?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The same as a set of single positions, and as few ranges as it takes.
        #[test]
        fn ranges_are_the_set_of_their_positions(ranges in prop::collection::vec((0..60_u64, 0..9_u64), 0..30)) {
            let mut positions = Positions::default();
            let mut model = BTreeSet::new();
            for (start, length) in ranges {
                positions.add(&(start..start + length));
                model.extend(start..start + length);
            }
            let read = Positions::parse(&positions.to_string());
            prop_assert_eq!(read.iter().cloned().flatten().collect::<BTreeSet<_>>(), model.clone());
            prop_assert!(read.windows(2).all(|pair| pair[0].end < pair[1].start));
            let gapless = (0..).take_while(|n| model.contains(n)).count() as u64;
            prop_assert_eq!(positions.first_gapless().map_or(0, |range| range.end), gapless);
        }
    }
}
