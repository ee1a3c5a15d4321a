//! Reading and writing `config.env`: a file of another team, mistakes, and what must hold
//! of any profile.

use proptest::prelude::*;

use super::*;
use crate::{DurabilityClass, Kind};

fn read(text: &str) -> Profile {
    Profile::from_config_env(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

fn problems(text: &str) -> Vec<String> {
    let error = Profile::from_config_env(text.as_bytes()).expect_err("wrong lines");
    error.to_string().lines().map(str::to_owned).collect()
}

/// Written by the naming rule as another team would: quotes, units of their tools, aliases.
const OF_ANOTHER_TEAM: &str = include_str!("another_team.env");

#[test]
fn a_file_of_another_team_is_read_whole() {
    let profile = read(OF_ANOTHER_TEAM);
    let assignments = OF_ANOTHER_TEAM
        .lines()
        .filter(|line| line.contains('=') && !line.trim_start().starts_with('#'));
    assert_eq!(profile.entries.len(), assignments.count());
    assert!(profile.entries.len() >= 104, "{}", profile.entries.len());
    let value = |name: &str, scope: Option<Scope>| {
        profile.get(name, scope.as_ref()).map(|entry| entry.read().unwrap().to_string())
    };
    let wal = || Some(Scope::Disk(Disk::Wal));
    assert_eq!(value("array.chunk", wal()).as_deref(), Some("256kB"));
    assert_eq!(value("xfs.log_sunit", None).as_deref(), Some("4kB"));
    assert_eq!(value("net.ipv4.tcp_rmem", None).as_deref(), Some("4096 87380 16777216"));
    assert_eq!(value("shared_buffers", None).as_deref(), Some("20GB"));
    assert_eq!(value("checkpoint_timeout", None).as_deref(), Some("1h"));
    assert_eq!(profile.class(), DurabilityClass::T);
    assert_eq!(read(&profile.to_config_env()), profile);
}

#[test]
fn a_line_that_cannot_be_read_does_not_show_a_secret() {
    for line in
        ["REPLICATION_PASSWORD='hush", "export DB_DSN=a hush", "X='host=a password=hush' hush"]
    {
        let found = problems(line);
        let key = line.trim_start_matches("export ").split('=').next().unwrap();
        assert!(found[0].starts_with(&format!("line 1: {key}: ")), "{found:?}");
        assert!(!found[0].contains("hush"), "{found:?}");
    }
}

#[test]
fn wrong_lines_are_all_named() {
    let text = "# fine\nVM_SWAPPINESS=1\nVM_SWAPINESS=1\nPG_WORK_MEM=4ms\nPG_WORK_MEM=1kB\n\
                VM_DIRTY_RATIO=120\nPG_MAX_CONNECTIONS=$N\nVM_SWAPPINESS=2\nDATA_SCHEDULER=fast\n\
                NET_IPV4_TCP_RMEM=4096\nKERNEL_SEM=250\nDATA_MOUNT=~/data\n";
    let found = problems(text);
    let expected = [
        "line 3: VM_SWAPINESS=1: no parameter has this key",
        "line 4: PG_WORK_MEM=4ms: work_mem: 'ms' is no unit for it",
        "line 5: PG_WORK_MEM=1kB: work_mem: 1kB is outside 64 ..",
        "line 6: VM_DIRTY_RATIO=120: vm.dirty_ratio: 120 is outside 0 .. 100",
        "line 7: PG_MAX_CONNECTIONS=$N: it needs a shell",
        "line 8: VM_SWAPPINESS=2: it is set in line 2 already",
        "line 9: DATA_SCHEDULER=fast: queue/scheduler: 'fast' is not one of none",
        "line 10: NET_IPV4_TCP_RMEM=4096: net.ipv4.tcp_rmem: '4096' is not 3 whole numbers",
        "line 11: KERNEL_SEM=250: kernel.sem: '250' is not 4 whole numbers",
        "line 12: DATA_MOUNT=~/data: it needs a shell (a home directory)",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let bytes = Profile::from_config_env(b"VM_SWAPPINESS=1\n# caf\xe9\n").unwrap_err();
    assert_eq!(bytes.to_string(), "line 2: it is not UTF-8");
    let unknown = problems("PG_WALL_BUFFERS=1MB\n");
    assert!(unknown[0].contains("no setting wall_buffers"), "{unknown:?}");
}

#[test]
fn what_can_be_read_is_read_beside_what_cannot() {
    let (profile, problems) = Profile::read_config_env(
        b"VM_SWAPPINESS=1\nRESULT_DIR=/var/results\nRESULT_PASSWORD=hush\nPG_WORK_MEM=64MB\n",
    );
    assert_eq!(profile.entries.len(), 2);
    let told: Vec<String> = problems.iter().map(Problem::to_string).collect();
    assert!(told[0].starts_with("line 2: RESULT_DIR=/var/results: no parameter"), "{told:?}");
    assert!(told[1].starts_with("line 3: RESULT_PASSWORD: no parameter"), "{told:?}");
    assert_eq!(problems[1].value, None);
}

#[test]
fn what_belongs_to_an_object_is_split_from_it_at_the_first_equals_sign() {
    let profile = read(
        "TABLE_FILLFACTOR=\"pgbench_branches = 50\"\n\
         TABLE_INDEXES=\"orders=btree (customer_id) WHERE status = 1\"\n",
    );
    let of = |place: usize| {
        let entry = &profile.entries[place];
        (entry.scope.as_ref().unwrap().to_string(), entry.value.as_str())
    };
    assert_eq!(of(0), ("pgbench_branches".to_owned(), "50"));
    assert_eq!(of(1), ("orders".to_owned(), "btree (customer_id) WHERE status = 1"));
    assert_eq!(read(&profile.to_config_env()), profile);
    let twice = problems("TABLE_FILLFACTOR=a=50\nTABLE_FILLFACTOR=\"a = 60\"\n");
    assert!(twice[0].contains("set in line 1 already"), "{twice:?}");
    let nameless = problems("TABLE_FILLFACTOR=\" = 50\"\n");
    assert!(nameless[0].contains("needs the name of its table"), "{nameless:?}");
}

#[test]
fn comments_and_proofs_come_back() {
    let text = "# walwright profile: tpcb, 16 clients\n\
                # machine: 2 processors, 7.7 GB of memory\n\
                # date: 2026-11-21\n\
                # durability class: T (moves cost in time: judge over whole checkpoints)\n\
                \n\
                # A larger WAL, fewer full-page images.\n\
                # proven by wide-wal: transactions/s +12.30 % [+9.10 %, +15.60 %]; on m; 2026-11-21\n\
                PG_MAX_WAL_SIZE=16GB # half the disk\n\
                \n\
                TABLE_FILLFACTOR=pgbench_branches=50\n\
                TABLE_FILLFACTOR=\"my table=70\"\n\
                # the end\n";
    let profile = read(text);
    let origin = profile.origin.as_ref().unwrap();
    assert_eq!(origin.title, "tpcb, 16 clients");
    assert_eq!(origin.date.as_deref(), Some("2026-11-21"));
    let entry = &profile.entries[0];
    let proof = entry.proof.as_ref().unwrap();
    assert_eq!((proof.experiment.as_str(), proof.machine.as_deref()), ("wide-wal", Some("m")));
    assert_eq!(proof.effect.as_ref().unwrap().high, 15.6);
    assert_eq!(entry.comments, ["# A larger WAL, fewer full-page images."]);
    assert_eq!(entry.remark.as_deref(), Some("# half the disk"));
    assert_eq!(profile.entries[2].scope, Some(Scope::Object("my table".to_owned())));
    assert_eq!(profile.trailer, ["# the end"]);
    assert_eq!(profile.to_config_env(), text);
}

#[test]
fn a_comment_that_only_looks_like_a_proof_stays_one() {
    for line in ["# proven by hand: it felt faster", "# proven by x: tps +1 % [0, 2]"] {
        let profile = read(&format!("{line}\nPG_WORK_MEM=8MB\n"));
        assert_eq!(profile.entries[0].comments, [line]);
        assert_eq!(profile.entries[0].proof, None);
    }
}

/// A value that a parameter takes.
fn some_value(parameter: &Parameter, pick: u64, text: &str) -> String {
    match parameter.kind {
        Kind::Bool => ["on", "off"][(pick % 2) as usize].to_owned(),
        Kind::Enum => parameter.values[pick as usize % parameter.values.len()].clone(),
        Kind::List => {
            let numbers = (0..parameter.numbers.unwrap_or(2) as u64).map(|n| pick % (n + 5000));
            numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
        }
        Kind::String => text.to_owned(),
        Kind::Integer | Kind::Real => {
            let bound = |at: usize, else_: f64| {
                let bounds = parameter.bounds.as_ref();
                bounds.and_then(|b| b[at].parse::<f64>().ok()).unwrap_or(else_)
            };
            let (low, high) = (bound(0, 0.0), bound(1, 1e6).min(1e9));
            let value = low + (high - low) * (pick % 1000) as f64 / 999.0;
            if parameter.kind == Kind::Integer {
                format!("{}", value.ceil())
            } else {
                format!("{value}")
            }
        }
    }
}

prop_compose! {
    fn some_entry()(
        which in 0_usize..parameters().len(),
        pick in 0_u64..100_000,
        text in "[^=\\p{Cc}]{0,20}",
        object in prop::option::of("[^=\\p{Cc}]{0,10}[^=\\p{Cc} ]"),
        wal in prop::bool::ANY,
        comment in prop::option::of("# [a-z =]{0,20}[a-z]"),
        proven in prop::option::of((
            "[a-z][a-z0-9-]{0,12}", -2_000_000_i64..2_000_000, prop::option::of("[a-z0-9][a-z0-9., ]{0,10}[a-z]"),
        )),
    ) -> Entry {
        let parameter = &parameters()[which];
        let scope = match (parameter.per_disk, parameter.is_of_objects()) {
            (true, _) => Some(Scope::Disk(if wal { Disk::Wal } else { Disk::Data })),
            (_, true) => object.map(Scope::Object),
            _ => None,
        };
        let value = some_value(parameter, pick, &text);
        let mut entry = Entry::of(parameter, &value, scope).expect("a value of it");
        entry.comments = comment.clone().into_iter().collect();
        entry.remark = comment.filter(|_| wal);
        entry.proof = proven.map(|(experiment, hundredths, machine)| Proof {
            experiment,
            effect: Some(Effect {
                measure: "transactions/s".to_owned(),
                percent: hundredths as f64 / 100.0,
                low: (hundredths - 150) as f64 / 100.0,
                high: (hundredths + 150) as f64 / 100.0,
            }),
            machine,
            date: Some("2026-11-21".to_owned()),
        });
        entry
    }
}

proptest! {
    #[test]
    fn a_profile_comes_back(
        entries in prop::collection::vec(some_entry(), 0..12),
        title in prop::option::of("[a-z ,0-9]{0,20}"),
    ) {
        let mut profile = Profile {
            origin: title.map(|title| Origin { title: title.trim().to_owned(), ..Origin::default() }),
            ..Profile::default()
        };
        entries.into_iter().for_each(|entry| profile.set(entry));
        let text = profile.to_config_env();
        let back = Profile::from_config_env(text.as_bytes());
        prop_assert_eq!(back.as_ref().map_err(ToString::to_string), Ok(&profile), "{}", text);
    }

    #[test]
    fn what_is_said_of_a_proof_never_breaks_the_file(
        said in prop::collection::vec("\\PC{0,20}|[;:\\[\n\r ]{1,5}", 4),
        figures in prop::collection::vec(prop::num::f64::ANY, 3),
    ) {
        let mut entry = Entry::new("work_mem", "8MB", None).unwrap();
        entry.proof = Some(Proof {
            experiment: said[0].clone(),
            effect: Some(Effect {
                measure: said[1].clone(),
                percent: figures[0],
                low: figures[1],
                high: figures[2],
            }),
            machine: Some(said[2].clone()),
            date: Some(said[3].clone()),
        });
        let profile = Profile { entries: vec![entry], ..Profile::default() };
        let back = read(&profile.to_config_env());
        prop_assert_eq!(&back.entries[0].value, "8MB");
        // Once written, it stays as it is.
        let text = back.to_config_env();
        prop_assert_eq!(read(&text).to_config_env(), text);
    }

    #[test]
    fn no_bytes_bring_it_down(bytes in prop::collection::vec(prop::num::u8::ANY, 0..200)) {
        let _ = Profile::from_config_env(&bytes);
    }

    #[test]
    fn no_text_brings_it_down(
        lines in prop::collection::vec("(PG_WORK_MEM|VM_SWAPPINESS|DATA_MOUNT|TABLE_FILLFACTOR|# proven by)=?.{0,30}", 0..6),
    ) {
        let text = lines.join("\n");
        if let Ok(profile) = Profile::from_config_env(text.as_bytes()) {
            let written = profile.to_config_env();
            prop_assert_eq!(read(&written).to_config_env(), written);
        }
    }
}
