//! Wholeness of the catalogue.

use super::*;

#[test]
fn every_entry_is_whole_and_its_defaults_are_values_of_it() {
    assert_eq!(
        parameters().iter().map(|p| &p.name).collect::<std::collections::BTreeSet<_>>().len(),
        parameters().len(),
        "no name twice"
    );
    for p in parameters() {
        assert!(p.what.ends_with('.') && !p.layer.is_empty(), "{}", p.name);
        for major in 14..=18 {
            if let Some(default) = p.default(major) {
                p.read(default).unwrap_or_else(|error| panic!("{} {major}: {error}", p.name));
            }
        }
        for weaker in p.weaker.keys() {
            p.read(weaker).unwrap_or_else(|error| panic!("{}: {error}", p.name));
        }
        assert_eq!(p.kind == Kind::List, p.numbers.is_some(), "{}: how many numbers", p.name);
        if let Some(search) = &p.search {
            for bound in [&search.from, &search.to].into_iter().chain(&search.special) {
                let share = bound.ends_with("% ram");
                assert!(share || p.read(bound).is_ok(), "{}: {bound}", p.name);
            }
            assert!(["log", "linear"].contains(&search.scale.as_str()), "{}", p.name);
            assert_ne!(p.class, DurabilityClass::X, "{} is never searched", p.name);
        }
    }
}

#[test]
fn the_catalogue_has_every_layer() {
    assert!(parameters().len() >= 150, "{}", parameters().len());
    let layers: std::collections::BTreeSet<&str> =
        parameters().iter().map(|p| p.layer.as_str()).collect();
    for layer in [
        "memory",
        "file descriptors",
        "network",
        "scheduler",
        "arrays",
        "file system",
        "block devices",
        "commit",
        "checkpoints",
        "autovacuum",
        "schema",
        "load",
    ] {
        assert!(layers.iter().any(|name| name.contains(layer)), "{layer}: {layers:?}");
    }
}

#[test]
fn places_and_keys_fit_together() {
    let mut keys = std::collections::BTreeSet::new();
    for p in parameters() {
        let disks: &[Option<Disk>] =
            if p.per_disk { &[Some(Disk::Data), Some(Disk::Wal)] } else { &[None] };
        for disk in disks {
            for key in [p.config_key(*disk)].into_iter().chain(p.alias_keys(*disk)) {
                let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                assert!(key.chars().all(plain) && !key.starts_with('_'), "{}: {key}", p.name);
                assert!(keys.insert(key.clone()), "{}: {key} is another's", p.name);
            }
        }
        let environment = !p.is_setting()
            && !matches!(p.place, Place::Cluster(_) | Place::Table(_) | Place::Index(_));
        if environment && !matches!(p.place, Place::Ddl(_)) {
            let worse = [DurabilityClass::E, DurabilityClass::D, DurabilityClass::X];
            assert!(worse.contains(&p.class), "{} is of the environment", p.name);
        }
        // Without a weaker value the class is that of no value at all.
        let lowers = matches!(p.class, DurabilityClass::D | DurabilityClass::X);
        assert_eq!(lowers, !p.weaker.is_empty(), "{}: what lowers durability", p.name);
        if p.class == DurabilityClass::X {
            assert!(p.search.is_none(), "{} is locked", p.name);
        }
        assert!(!p.source.trim().is_empty() && p.source.len() >= 5, "{}", p.name);
        assert!(p.is_setting() || p.since.is_none(), "{}", p.name);
    }
    let swappiness = parameter("vm.swappiness").unwrap();
    assert_eq!(swappiness.config_key(None), "VM_SWAPPINESS");
    assert_eq!(parameter("fs.aio-max-nr").unwrap().config_key(None), "FS_AIO_MAX_NR");
    assert_eq!(parameter("commit_delay").unwrap().config_key(None), "PG_COMMIT_DELAY");
    let chunk = parameter("array.chunk").unwrap();
    assert_eq!(chunk.config_key(Some(Disk::Wal)), "WAL_RAID_CHUNK");
}

#[test]
fn every_spelling_of_a_weaker_value_is_seen() {
    for (name, value, class) in [
        ("fsync", "false", DurabilityClass::X),
        ("fsync", "yes", DurabilityClass::S),
        ("synchronous_commit", "no", DurabilityClass::D),
        ("synchronous_commit", "on", DurabilityClass::S),
        ("max_wal_senders", "0x0", DurabilityClass::D),
        ("archive_mode", "false", DurabilityClass::D),
        ("archive_mode", "always", DurabilityClass::S),
        ("max_wal_size", "4GB", DurabilityClass::T),
        ("array.level", "0", DurabilityClass::D),
        ("array.level", "10", DurabilityClass::E),
    ] {
        assert_eq!(parameter(name).unwrap().class_of(value), class, "{name} = {value}");
    }
}

#[test]
fn what_can_corrupt_is_locked() {
    for name in ["fsync", "full_page_writes"] {
        let parameter = parameter(name).unwrap();
        assert_eq!(parameter.class, DurabilityClass::X);
        assert!(parameter.weaker.contains_key("off"));
    }
    assert_eq!(parameter("Synchronous_Commit").unwrap().class, DurabilityClass::D);
}

#[test]
fn versions_differ() {
    let workers = parameter("autovacuum_max_workers").unwrap();
    assert_eq!((workers.apply(17), workers.apply(18)), (Apply::Restart, Apply::Reload));
    let ring = parameter("vacuum_buffer_usage_limit").unwrap();
    assert_eq!((ring.default(16), ring.default(17)), (Some("256"), Some("2048")));
    assert!(!ring.is_in(15) && ring.is_in(16));
    assert_eq!(parameter("log_checkpoints").unwrap().default(14), Some("off"));
    let combine = parameter("io_combine_limit").unwrap();
    assert!(combine.read_in(17, "256kB").is_ok() && combine.read_in(17, "512kB").is_err());
    assert!(combine.read_in(18, "512kB").is_ok());
    let maintenance = parameter("maintenance_work_mem").unwrap();
    assert!(maintenance.read_in(16, "64kB").is_err() && maintenance.read_in(17, "64kB").is_ok());
    let compression = parameter("wal_compression").unwrap();
    assert!(compression.read_in(14, "lz4").is_err() && compression.read_in(14, "true").is_ok());
    assert!(compression.read_in(15, "lz4").is_ok());
    let connections = parameter("log_connections").unwrap();
    assert!(connections.read_in(17, "receipt").is_err() && connections.read_in(17, "on").is_ok());
    assert!(connections.read_in(18, "receipt").is_ok());
}
