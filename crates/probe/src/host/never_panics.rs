//! No text of `/proc` makes a reader panic: this machine's own, mutated.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

use super::cgroup::Cgroup;
use super::processes::{Stat, schedstat_nanos};
use super::roles::Role;
use super::{disk, machine};

/// What replaces a word.
const WORDS: [&str; 14] = [
    "",
    "0",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e308",
    "NaN",
    "(",
    ")",
    ":",
    "\0",
    "\u{fffd}",
    "postgres: a b 127.0.0.1(1) idle",
];

fn texts() -> Vec<String> {
    let files = [
        "stat",
        "meminfo",
        "vmstat",
        "net/dev",
        "net/snmp",
        "diskstats",
        "self/stat",
        "self/schedstat",
        "self/cgroup",
        "pressure/io",
    ];
    let mut all: Vec<String> = files
        .iter()
        .filter_map(|file| fs::read_to_string(Path::new("/proc").join(file)).ok())
        .collect();
    all.push("postgres: 18/main: walwriter".to_owned());
    all.push(
        "some avg10=0.00 avg60=0.12 avg300=0.50 total=123456\nfull avg10=nan total=1".to_owned(),
    );
    all
}

proptest! {
    // `PROPTEST_CASES` counts.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_mutated_texts_of_proc(
        text in prop::sample::select(texts()),
        changes in prop::collection::vec((any::<Index>(), prop::sample::select(&WORDS[..])), 0..5),
        (from, length) in (any::<Index>(), prop_oneof![Just(usize::MAX), 0_usize..200]),
    ) {
        let mut words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
        for (at, word) in &changes {
            if !words.is_empty() {
                let at = at.index(words.len());
                words[at] = word;
            }
        }
        let mutated: String = words.concat();
        // The beginning mostly, some piece now and then.
        let from = if length == usize::MAX { 0 } else { from.index(mutated.len() + 1) };
        let mutated: String = mutated.chars().skip(from).take(length).collect();

        let _ = machine::cpu(&mutated, 100.0);
        let _ = machine::pressure("io", &mutated);
        let _ = machine::memory(&mutated, &mutated);
        let _ = machine::network(&mutated);
        let _ = machine::tcp(&mutated);
        let _ = disk::stats(&mutated, &["sda".to_owned(), "vda".to_owned()]);
        let _ = Stat::parse(&mutated, 100.0);
        let _ = schedstat_nanos(&mutated);
        let _ = Role::from_title(&mutated);
        let _ = Cgroup::parse(&mutated, Path::new("/sys/fs/cgroup"));
    }
}
