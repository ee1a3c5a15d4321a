//! A server that may use some of the machine's processors alone: what a smaller machine has.

use std::num::NonZeroU32;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::ClusterError;

/// The first `count` of the processors that this process may use.
pub(super) fn first(count: NonZeroU32) -> Result<CpuSet, ClusterError> {
    let unknown = |source| ClusterError::Affinity { source };
    let mine = sched_getaffinity(Pid::from_raw(0)).map_err(unknown)?;
    let mut chosen = CpuSet::new();
    let there = (0..CpuSet::count()).filter(|place| mine.is_set(*place).unwrap_or(false));
    let mut found = 0;
    for place in there {
        if found < count.get() {
            chosen.set(place).map_err(unknown)?;
        }
        found += 1;
    }
    if found < count.get() {
        return Err(ClusterError::Processors { asked: count.get(), there: found });
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_are_cannot_be_had() {
        let one = first(NonZeroU32::MIN).expect("a processor");
        let set = (0..CpuSet::count()).filter(|place| one.is_set(*place) == Ok(true));
        assert_eq!(set.count(), 1);
        let said = first(NonZeroU32::MAX).expect_err("so many").to_string();
        assert!(said.contains("4294967295 processors") && said.contains("--processors"), "{said}");
    }
}
