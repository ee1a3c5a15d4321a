//! Sets of message types.

/// A set of message types, by their type byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TagSet(pub(crate) u128);

impl TagSet {
    /// No type at all.
    pub const EMPTY: TagSet = TagSet(0);
    /// Every type.
    pub const ALL: TagSet = TagSet(u128::MAX);

    /// The types named; bytes above 127 are no type and are left out.
    pub const fn of(tags: &[u8]) -> Self {
        let mut set = 0;
        let mut i = 0;
        while i < tags.len() {
            if tags[i] < 128 {
                set |= 1 << tags[i];
            }
            i += 1;
        }
        TagSet(set)
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: TagSet) -> Self {
        TagSet(self.0 | other.0)
    }

    /// Whether a type is in the set.
    #[inline]
    pub const fn contains(self, tag: u8) -> bool {
        tag < 128 && self.0 & (1 << tag) != 0
    }
}
