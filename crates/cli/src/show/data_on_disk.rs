//! What the data of an experiment or a tune take on disk, as a line.

use walwright_experiment::DataOnDisk;
use walwright_report::format;

/// What data take on disk, and that `what` takes so many copies of the largest more, as a line.
pub fn space_text(of: &DataOnDisk, what: &str, copies: u64) -> String {
    let bytes = |count: u64| format::bytes(count as f64);
    let free = of.free.map_or(String::new(), |free| format!("; {} are free", bytes(free)));
    let tight = if of.is_tight(copies) { ", which may not be enough" } else { "" };
    format!(
        "the data take {} on disk until it ends, and {what} up to {} more beside WAL{free}{tight}",
        bytes(of.bytes),
        bytes(copies * of.largest)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_may_not_be_enough_is_told_so() {
        let space = DataOnDisk { bytes: 5 << 30, largest: 3 << 30, free: Some(6 << 30) };
        let text = space_text(&space, "each run", 1);
        assert!(
            text.contains("5 GB on disk until it ends, and each run up to 3 GB more"),
            "{text}"
        );
        assert!(text.ends_with("6 GB are free"), "{text}");
        let tight = space_text(&space, "a run and the confirmation", 2);
        assert!(tight.contains("up to 6 GB more"), "{tight}");
        assert!(tight.ends_with("6 GB are free, which may not be enough"), "{tight}");
        assert!(!space_text(&DataOnDisk { free: None, ..space }, "each run", 1).contains("free"));
    }
}
