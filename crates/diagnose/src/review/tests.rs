//! The review against the mistakes people make.

use std::collections::BTreeMap;

use proptest::prelude::*;
use walwright_record::{DiskFacts, HostFacts, Source};
use walwright_testing::{Build, row};

use super::*;

const GB: u64 = 1 << 30;

fn machine(memory: u64, processors: u32) -> Machine {
    Machine::of(&HostFacts {
        memory_bytes: Some(memory),
        processors: Some(processors),
        ..HostFacts::default()
    })
}

fn given(settings: &[(&str, &str)], major: u32, machine: Machine) -> ReviewInput<'static> {
    let settings = settings
        .iter()
        .enumerate()
        .map(|(line, (name, value))| {
            let place = format!("postgresql.conf:{}", line + 1);
            ((*name).to_owned(), Given { value: (*value).to_owned(), place })
        })
        .collect::<BTreeMap<_, _>>();
    ReviewInput { settings, major, running: false, asked: None, machine, record: None }
}

fn item<'r>(review: &'r Review, name: &str) -> &'r ReviewItem {
    review.items.iter().find(|item| item.name == name).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn durability_traded_away_is_told_in_words() {
    let review = review(&given(
        &[
            ("fsync", "off"),
            ("synchronous_commit", "off"),
            ("full_page_writes", "no"),
            ("wal_writer_delay", "1s"),
        ],
        18,
        Machine::default(),
    ));
    for name in ["fsync", "synchronous_commit", "full_page_writes"] {
        let item = item(&review, name);
        assert_eq!(
            (item.standing, item.advised.as_deref()),
            (Standing::Problem, Some("on")),
            "{name}"
        );
        assert!(item.can_lose.is_some(), "{name}");
        assert_eq!(item.class, "S", "to go back to on loses nothing");
    }
    assert!(item(&review, "synchronous_commit").why.contains("up to 3000 ms"));
    assert_eq!(review.items[0].standing, Standing::Problem);
    assert_eq!(item(&review, "fsync").place, "postgresql.conf:1");
}

#[test]
fn local_is_on_without_a_standby() {
    // E3: advised ten times as a relaxation; it relaxes nothing.
    let lonely = review(&given(&[("synchronous_commit", "local")], 18, Machine::default()));
    assert_eq!(item(&lonely, "synchronous_commit").standing, Standing::Fine);
    assert!(lonely.contradictions.iter().any(|c| c.contains("the same as on")));
    let with = [("synchronous_commit", "local"), ("synchronous_standby_names", "a")];
    let with = review(&given(&with, 18, Machine::default()));
    assert_eq!(item(&with, "synchronous_commit").standing, Standing::Problem);
}

#[test]
fn memory_is_judged_against_sessions() {
    let over = [("work_mem", "256MB"), ("max_connections", "200"), ("shared_buffers", "2GB")];
    let over = review(&given(&over, 17, machine(8 * GB, 4)));
    let work_mem = item(&over, "work_mem");
    assert_eq!(work_mem.standing, Standing::Problem);
    assert!(work_mem.why.contains("100 GB"), "{}", work_mem.why);
    let fits = [
        ("work_mem", work_mem.advised.as_deref().unwrap()),
        ("max_connections", "200"),
        ("shared_buffers", "2GB"),
    ];
    let fits = review(&given(&fits, 17, machine(8 * GB, 4)));
    assert_eq!(item(&fits, "work_mem").standing, Standing::Fine, "its own advice holds");
    assert_eq!(item(&fits, "shared_buffers").standing, Standing::Fine);
    // Without the machine nothing is said about sizes.
    let unknown = review(&given(&[("work_mem", "256MB")], 17, Machine::default()));
    assert_eq!(item(&unknown, "work_mem").standing, Standing::Fine);
    assert!(unknown.not_observable[0].contains("not known"));
}

#[test]
fn what_does_not_go_together_is_said() {
    let settings = [
        ("wal_level", "minimal"),
        ("max_parallel_workers", "16"),
        ("track_counts", "off"),
        ("commit_delay", "100"),
        ("fsync", "off"),
        ("autovacuum_max_workers", "20"),
    ];
    let found = review(&given(&settings, 18, machine(8 * GB, 4)));
    let said = found.contradictions.join("\n");
    let level = item(&found, "wal_level");
    assert_eq!((level.standing, level.advised.as_deref()), (Standing::Stops, Some("replica")));
    assert!(level.why.contains("max_wal_senders = 10"), "{}", level.why);
    assert!(!found.items.iter().any(|item| item.name == "max_wal_senders"), "it is not fine");
    for words in [
        "max_parallel_workers = 16 is beyond max_worker_processes = 8",
        "autovacuum works by the counts",
        "commit_delay has no effect",
        "waits for nothing",
        "autovacuum_max_workers = 20 is beyond autovacuum_worker_slots = 16",
    ] {
        assert!(said.contains(words), "{words:?} not in\n{said}");
    }
    let defaults = review(&given(&[], 18, machine(8 * GB, 4)));
    assert_eq!(defaults.contradictions, [] as [&str; 0]);
    assert!(defaults.items.iter().all(|i| i.standing != Standing::Problem), "{:?}", defaults.items);
}

#[test]
fn values_the_server_refuses_are_named_with_their_place() {
    let review = review(&given(
        &[("work_mem", "1.5kb"), ("io_method", "worker"), ("autovacuum_naptime", "sometimes")],
        16,
        Machine::default(),
    ));
    let stop = |name: &str| {
        let item = item(&review, name);
        assert_eq!(item.standing, Standing::Stops, "{name}");
        (item.place.as_str(), item.why.as_str())
    };
    assert_eq!(stop("work_mem").0, "postgresql.conf:1");
    assert!(stop("work_mem").1.starts_with("'kb' is no unit"), "{}", stop("work_mem").1);
    assert!(stop("io_method").1.contains("came with 18"), "{}", stop("io_method").1);
    assert!(stop("autovacuum_naptime").1.contains("not a number"));
    assert!(review.fails() && review.verdict.starts_with("the server does not start with 3"));
}

#[test]
fn a_misspelled_name_is_told_and_judged_as_what_was_meant() {
    let found = review(&given(&[("shared_bufers", "21GB")], 18, machine(20 * GB, 8)));
    let stop = item(&found, "shared_bufers");
    assert_eq!((stop.standing, stop.meant.as_deref()), (Standing::Stops, Some("shared_buffers")));
    assert!(stop.why.contains("did you mean shared_buffers?"), "{}", stop.why);
    assert_eq!(item(&found, "shared_buffers").advised.as_deref(), Some("5GB"));
    let extension = review(&given(&[("auto_explain.nonsense", "1")], 18, Machine::default()));
    assert!(!extension.fails(), "what an extension takes is not known");
    let old = review(&given(&[("checkpoint_segments", "64")], 18, Machine::default()));
    assert_eq!(item(&old, "checkpoint_segments").meant.as_deref(), Some("max_wal_size"));
}

#[test]
fn the_word_of_the_servers_program_is_above_ours() {
    let mut input = given(&[("work_mem", "5 parsecs"), ("jit", "on")], 18, Machine::default());
    assert!(review(&input).fails());
    let names = ["work_mem", "jit"].map(str::to_owned);
    let refused = BTreeMap::from([("jit".to_owned(), "not in this build".to_owned())]);
    input.asked = Some(Asked { by: "postgres 18".to_owned(), names: names.into(), refused });
    let found = review(&input);
    assert_eq!(item(&found, "jit").standing, Standing::Stops);
    assert!(item(&found, "jit").why.contains("postgres 18: not in this build"));
    assert!(found.not_observable.iter().any(|said| said.contains("work_mem")), "not read");
    // What runs has been taken.
    input.running = true;
    assert!(!review(&input).fails());
}

#[test]
fn advice_holds_once_it_is_followed() {
    let mut host =
        HostFacts { memory_bytes: Some(32 * GB), processors: Some(8), ..HostFacts::default() };
    host.kernel_settings.insert("vm.nr_hugepages".to_owned(), "11000".to_owned());
    let bad = [
        ("shared_buffers", "21GB"),
        ("max_connections", "5000"),
        ("work_mem", "64MB"),
        ("temp_buffers", "8GB"),
        ("min_wal_size", "16GB"),
        ("wal_level", "minimal"),
        ("archive_mode", "on"),
        ("huge_pages", "on"),
        ("statement_timeout", "10"),
        ("random_page_cost", "0.1"),
    ];
    let mut settings: BTreeMap<&str, String> =
        bad.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let first = review(&given(&bad, 18, Machine::of(&host)));
    assert_eq!(item(&first, "max_connections").advised.as_deref(), Some("100"));
    assert_eq!(item(&first, "work_mem").standing, Standing::Fine, "too many sessions are at fault");
    let buffers = item(&first, "shared_buffers").advised.clone().unwrap();
    assert_eq!(buffers, "8GB");
    assert_eq!(
        item(&first, "vm.nr_hugepages").standing,
        Standing::Fine,
        "11,000 are enough for 8 GB"
    );
    for found in &first.items {
        if let Some(advised) = &found.advised {
            settings.insert(&found.name, advised.clone());
        }
    }
    let followed: Vec<(&str, &str)> =
        settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let second = review(&given(&followed, 18, Machine::of(&host)));
    let left: Vec<&ReviewItem> = second
        .items
        .iter()
        .filter(|item| item.advised.is_some() && item.place != "kernel")
        .collect();
    assert!(left.is_empty() && !second.fails(), "{left:?}");
}

#[test]
fn values_that_hardly_anyone_means_are_named() {
    let odd = [
        ("statement_timeout", "10", "10s"),
        ("lock_timeout", "5", "5s"),
        ("deadlock_timeout", "1ms", "1s"),
        ("random_page_cost", "0.1", "1.1"),
        ("temp_buffers", "1TB", "8MB"),
        ("maintenance_work_mem", "1024", "64MB"),
        ("checkpoint_timeout", "30", "15min"),
        ("autovacuum", "off", "on"),
        ("track_activities", "off", "on"),
        ("track_counts", "off", "on"),
        ("enable_seqscan", "off", "on"),
        ("log_min_messages", "debug1", "warning"),
        ("log_statement", "all", "none"),
        ("default_transaction_read_only", "on", "off"),
        ("zero_damaged_pages", "on", "off"),
        ("jit_above_cost", "10", "100000"),
        ("effective_cache_size", "1TB", "19GB"),
    ];
    let settings: Vec<(&str, &str)> = odd.iter().map(|(name, value, _)| (*name, *value)).collect();
    let found = review(&given(&settings, 18, machine(32 * GB, 8)));
    for (name, _, advised) in odd {
        assert_eq!(item(&found, name).advised.as_deref(), Some(advised), "{name}");
    }
    let problem = |name: &str| item(&found, name).standing == Standing::Problem;
    assert!(problem("statement_timeout") && problem("temp_buffers") && problem("track_counts"));
    assert!(item(&found, "statement_timeout").why.contains("unit left out"));
    assert!(found.fails() && item(&found, "zero_damaged_pages").loses());
}

#[test]
fn what_stops_the_server_beside_another_setting_is_found() {
    for (settings, stops) in [
        (&[("wal_level", "minimal")][..], "wal_level"),
        (&[("max_connections", "10"), ("superuser_reserved_connections", "10")], "max_connections"),
        (&[("max_connections", "262142")], "max_connections"),
        (&[("min_wal_size", "20MB")], "min_wal_size"),
        (&[("huge_pages", "on"), ("shared_memory_type", "sysv")], "huge_pages"),
        (&[("block_size", "8192")], "block_size"),
    ] {
        let found = review(&given(settings, 18, Machine::default()));
        let stopping: Vec<&str> = found
            .items
            .iter()
            .filter(|item| item.standing == Standing::Stops)
            .map(|item| item.name.as_str())
            .collect();
        assert_eq!(stopping, [stops], "{settings:?}");
    }
}

#[test]
fn huge_pages_are_counted() {
    let mut host = HostFacts { memory_bytes: Some(64 * GB), ..HostFacts::default() };
    host.kernel_settings.insert("vm.nr_hugepages".to_owned(), "0".to_owned());
    host.kernel_settings.insert("meminfo.Hugepagesize".to_owned(), "2048 kB".to_owned());
    let large = given(&[("shared_buffers", "16GB")], 18, Machine::of(&host));
    let large = review(&large);
    assert_eq!(item(&large, "huge_pages").advised.as_deref(), Some("on"));
    let pages: f64 = item(&large, "vm.nr_hugepages").advised.as_deref().unwrap().parse().unwrap();
    assert!((8192.0..9000.0).contains(&pages));
    assert_eq!(item(&large, "vm.nr_hugepages").class, "E");
    let small = review(&given(&[("shared_buffers", "7GB")], 18, Machine::of(&host)));
    assert_eq!(item(&small, "huge_pages").standing, Standing::Fine);
}

#[test]
fn max_wal_size_follows_the_load_and_the_disk() {
    let mut build = Build::new();
    build.load(0, 60, 500).measure(0.0, 60.0);
    for s in 0..60 {
        let t = f64::from(s);
        // 20 MB a second: 6 GB in five minutes.
        let wal =
            row([("wal_bytes", 20e6 * t), ("wal_fpi", 800.0 * t), ("wal_buffers_full", 10.0 * t)]);
        build.sample(t, Source::Wal, [wal]);
    }
    let advice = |free: u64| {
        let disk = DiskFacts { free_bytes: Some(free), ..DiskFacts::default() };
        let host = HostFacts { wal_disk: Some(disk), ..HostFacts::default() };
        let mut input = given(&[], 18, Machine::of(&host));
        input.record = Some(&build.record);
        review(&input)
    };
    let large = advice(500 * GB);
    let max_wal_size = item(&large, "max_wal_size");
    assert_eq!(max_wal_size.advised.as_deref(), Some("12GB"), "{}", max_wal_size.why);
    assert!(max_wal_size.why.contains("each 28 s"), "{}", max_wal_size.why);
    assert_eq!(max_wal_size.class, "T");
    assert_eq!(item(&advice(8 * GB), "max_wal_size").advised.as_deref(), Some("2304MB"));
    assert_eq!(item(&large, "wal_buffers").advised.as_deref(), Some("16MB"));
    assert_eq!(item(&large, "wal_compression").advised.as_deref(), Some("lz4"));
    assert!(large.load.unwrap().contains("of WAL a second"));
}

proptest! {
    #[test]
    fn no_values_bring_it_down(
        values in proptest::collection::vec(("[a-z_.]{1,20}", "[-a-zA-Z0-9.% ]{0,12}"), 0..8),
        known in proptest::collection::vec((0_usize..130, "-?[0-9]{1,12}(kB|MB|ms|s)?"), 0..12),
        memory in 0_u64..u64::MAX,
        processors in 0_u32..100_000,
        major in 13_u32..20,
    ) {
        let names = walwright_catalog::parameters();
        let settings: Vec<(&str, &str)> = values
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(known.iter().map(|(n, value)| (names[n % names.len()].name.as_str(), value.as_str())))
            .collect();
        let review = review(&given(&settings, major, machine(memory, processors)));
        for item in &review.items {
            if let (Some(advised), Some(known)) = (&item.advised, setting(&item.name)) {
                let read = known.read_in(major, advised);
                prop_assert!(read.is_ok(), "{} = {advised}: {read:?}", item.name);
            }
        }
        prop_assert!(serde_json::to_string(&review).is_ok());
    }
}
