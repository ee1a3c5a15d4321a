//! Paths as names, without a look at the disk.

use std::path::{Component, Path};

/// Whether `path`, seen from `base` inside a tree (relative to the tree's root),
/// stays inside that tree. Looks at the names alone, not at links on the way.
pub(crate) fn stays_inside(base: &Path, path: &Path) -> bool {
    let mut depth = base.components().filter(|c| matches!(c, Component::Normal(_))).count();
    for component in path.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_up_too_far_leaves() {
        for (base, path, inside) in [
            ("", "a/../b", true),
            ("", "..", false),
            ("a/b", "../../c", true),
            ("a/b", "../../../c", false),
            ("a", "/etc", false),
            ("a", "./x", true),
        ] {
            assert_eq!(stays_inside(Path::new(base), Path::new(path)), inside, "{base} {path}");
        }
    }
}
