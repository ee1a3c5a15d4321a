//! What each form holds, and that no value leaves its quotes.

use proptest::prelude::*;

use super::*;
use crate::{Disk, Line, Scope, parse_line};

const OF_ANOTHER_TEAM: &str = include_str!("../config_env/another_team.env");

fn whole() -> Profile {
    Profile::from_config_env(OF_ANOTHER_TEAM.as_bytes()).unwrap()
}

fn of(entries: &[(&str, &str, Option<Scope>)]) -> Profile {
    let mut profile = Profile::default();
    for (name, value, scope) in entries {
        profile.set(Entry::new(name, value, scope.clone()).unwrap());
    }
    profile
}

fn written(profile: &Profile, format: Format) -> Exported {
    export(profile, format, &Devices::default())
}

#[test]
fn names_of_forms_come_back() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    assert!("yaml".parse::<Format>().unwrap_err().contains("postgresql-conf"));
}

#[test]
fn files_of_the_server_hold_its_settings() {
    let conf = written(&whole(), Format::PostgresqlConf);
    assert!(conf.text.contains("shared_buffers = '20GB'\n"));
    assert!(!conf.text.contains("swappiness") && conf.left_out.is_empty());
    let sql = written(&whole(), Format::AlterSystem).text;
    assert!(sql.contains("ALTER SYSTEM SET max_wal_size = '100GB';\n"));
    assert!(sql.contains("SELECT pg_reload_conf();\n"));
    let restart = sql.lines().last().unwrap();
    assert!(restart.contains("shared_buffers") && !restart.contains("max_wal_size"), "{restart}");

    let table = Some(Scope::Object("app.Orders".to_owned()));
    let column = Some(Scope::Object("orders.note".to_owned()));
    let profile = of(&[
        ("wal_segment_size", "64MB", None),
        ("table.fillfactor", "70", table.clone()),
        ("table.persistence", "unlogged", table),
        ("column.compression", "lz4", column),
        ("table.fillfactor", "80", None),
    ]);
    let sql = written(&profile, Format::AlterSystem);
    assert_eq!(
        sql.text,
        "ALTER TABLE \"app\".\"Orders\" SET (fillfactor = '70');\n\
         ALTER TABLE \"app\".\"Orders\" SET UNLOGGED;\n\
         ALTER TABLE \"orders\" ALTER COLUMN \"note\" SET COMPRESSION lz4;\n"
    );
    assert_eq!(sql.left_out.len(), 2, "{:?}", sql.left_out);
    assert!(sql.left_out[0].contains("initdb"));
}

#[test]
fn what_the_version_of_the_profile_does_not_take_is_told() {
    let text = "PG_IO_METHOD=worker\nPG_IO_COMBINE_LIMIT=1MB\nPG_MAINTENANCE_WORK_MEM=64kB\n\
                PG_WAL_COMPRESSION=lz4\nPG_AUTOVACUUM_MAX_WORKERS=4\n";
    let of = |version: &str| {
        let text = format!("{version}{text}");
        let profile = Profile::from_config_env(text.as_bytes()).unwrap();
        let forms = [Format::PostgresqlConf, Format::AlterSystem, Format::Ansible];
        let counts = forms.map(|form| written(&profile, form).left_out.len());
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        written(&profile, Format::AlterSystem)
    };
    let any = of("");
    assert_eq!(any.left_out, [""; 0]);
    assert!(!any.text.contains("take a restart of the server: autovacuum_max_workers"));
    assert_eq!(of("PG_VERSION=18.1\n").left_out, [""; 0]);
    let old = of("PG_VERSION=17\n");
    assert_eq!(old.left_out.len(), 2, "{:?}", old.left_out);
    assert!(old.left_out[0].contains("io_method = worker: PostgreSQL 17 does not have it"));
    assert!(old.left_out[1].contains("1MB is outside 1 .. 32"), "{:?}", old.left_out);
    assert!(old.text.contains("autovacuum_max_workers\n"), "{}", old.text);
    assert_eq!(of("PG_VERSION=16\n").left_out.len(), 3);
    assert_eq!(of("PG_VERSION=14.20\n").left_out.len(), 4);
}

#[test]
fn files_of_the_kernel_hold_bare_numbers() {
    let mut profile = whole();
    profile.set(Entry::new("vm.dirty_bytes", "256MB", None).unwrap());
    let thp = "/sys/kernel/mm/transparent_hugepage/enabled";
    profile.set(Entry::new(thp, "never", None).unwrap());
    profile.set(Entry::new("cpufreq.scaling_governor", "performance", None).unwrap());
    let sysctl = written(&profile, Format::Sysctl);
    for line in [
        "vm.swappiness = 1\n",
        "net.ipv4.tcp_rmem = 4096 87380 16777216\n",
        "kernel.sem = 250 32000 100 128\n",
        "vm.dirty_bytes = 268435456\n",
    ] {
        assert!(sysctl.text.contains(line), "{line}{}", sysctl.text);
    }
    assert!(
        sysctl.left_out[0].contains("w /sys/kernel/mm/transparent_hugepage/enabled - - - - never")
    );
    let each = "w /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor - - - - performance";
    assert!(sysctl.left_out[1].ends_with(each), "{:?}", sysctl.left_out);
    let limits = written(&profile, Format::Systemd).text;
    assert_eq!(limits, "[Service]\nLimitNOFILE=65535\nLimitNPROC=65535\n");
}

#[test]
fn rules_name_the_devices() {
    let given = Devices { data: vec!["/dev/nvme1n1".to_owned()], wal: vec!["a\"b".to_owned()] };
    let rules = export(&whole(), Format::Udev, &given);
    let line = |device: &str, what: &str| {
        format!(
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{device}\", ATTR{{{what}}}"
        )
    };
    assert!(rules.text.contains(&format!("{}=\"64\"\n", line("md0", "queue/read_ahead_kb"))));
    assert!(rules.text.contains(&format!("{}=\"4096\"\n", line("md1", "queue/read_ahead_kb"))));
    assert!(rules.text.contains(&format!("{}=\"8192\"\n", line("md0", "md/stripe_cache_size"))));
    assert!(rules.text.contains(&format!("{}=\"none\"\n", line("nvme1n1", "queue/scheduler"))));
    assert!(!rules.text.contains("a\"b") && rules.left_out[0].contains("no name"));
    // An array passes requests on: what its members have is told where they are not known.
    for array in ["md0", "md1"] {
        assert!(!rules.text.contains(&line(array, "queue/scheduler")), "{}", rules.text);
        assert!(!rules.text.contains(&line(array, "queue/nr_requests")), "{}", rules.text);
        assert!(rules.text.contains(&line(array, "queue/rotational")), "{}", rules.text);
    }
    let told: Vec<&String> = rules.left_out.iter().filter(|t| t.contains("members of")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("nr_requests") && told[0].contains("--wal-device"), "{told:?}");
    let scope = || Some(Scope::Disk(Disk::Data));
    let both = of(&[("queue/nr_requests", "64", scope()), ("queue/scheduler", "none", scope())]);
    let given = Devices { data: vec!["sda".to_owned()], wal: Vec::new() };
    let text = export(&both, Format::Udev, &given).text;
    assert!(text.find("queue/scheduler") < text.find("queue/nr_requests"), "{text}");
    let mapped = of(&[("queue/scheduler", "none", Some(Scope::Disk(Disk::Data)))]);
    let given = Devices { data: vec!["dm-0".to_owned()], wal: Vec::new() };
    let rules = export(&mapped, Format::Udev, &given);
    assert!(rules.text.is_empty() && rules.left_out[0].contains("members of dm-0"));
    let profile = of(&[
        ("queue/scheduler", "none", Some(Scope::Disk(Disk::Wal))),
        ("queue/write_cache", "write back", Some(Scope::Disk(Disk::Wal))),
    ]);
    let rules = written(&profile, Format::Udev);
    assert!(rules.text.is_empty());
    assert!(rules.left_out.iter().any(|said| said.contains("--wal-device")));
    assert!(rules.left_out.iter().any(|said| said.contains("not set")));
    let stripes = of(&[("md/stripe_cache_size", "4096", None)]);
    let given = Devices { data: vec!["sda".to_owned()], wal: Vec::new() };
    let rules = export(&stripes, Format::Udev, &given);
    assert!(rules.text.is_empty());
    assert!(rules.left_out[0].starts_with("md/stripe_cache_size:"), "{:?}", rules.left_out);
}

#[test]
fn arrays_and_file_systems_are_commands() {
    let script = written(&whole(), Format::Storage).text;
    for line in [
        "mdadm --create /dev/md0 --level=10 --raid-devices=8 --chunk=64K \
         ${DATA_MEMBERS:?name the 8 disks of 50 GB}\n",
        "mkfs.xfs -d su=256k,sw=4,agcount=8 -l su=4k /dev/md1\n",
        "# left out nodiratime: noatime implies it\n",
        "mount -o noatime,logbufs=8,logbsize=256k /dev/md1 /wal\n",
    ] {
        assert!(script.contains(line), "{line}\n{script}");
    }
    assert!(written(&of(&[("work_mem", "8MB", None)]), Format::Storage).text.is_empty());
    let mount = Some(Scope::Disk(Disk::Data));
    let script =
        written(&of(&[("array.mount_point", "/my data; rm", mount)]), Format::Storage).text;
    assert!(script.contains("mkdir -p \"/my data; rm\"\n"), "{script}");
}

#[test]
fn the_stripe_width_follows_from_the_array() {
    for (level, disks, width) in [
        ("10", 8.0, Some(4.0)),
        ("5", 8.0, Some(7.0)),
        ("4", 8.0, Some(7.0)),
        ("6", 8.0, Some(6.0)),
        ("0", 8.0, Some(8.0)),
        ("1", 2.0, Some(1.0)),
        ("6", 2.0, None),
        ("linear", 2.0, None),
    ] {
        assert_eq!(data_disks(level, disks), width, "{level} of {disks}");
    }
    let of =
        |text: &str| written(&Profile::from_config_env(text.as_bytes()).unwrap(), Format::Storage);
    let array = "DATA_RAID_LEVEL=10\nDATA_DISK_COUNT=8\nDATA_RAID_CHUNK=64k\n";
    let xfs = of(&format!("FS_TYPE=xfs\n{array}XFS_DATA_SUNIT=64k\n"));
    assert!(xfs.text.contains("mkfs.xfs -d su=64k,sw=4 "), "{}", xfs.text);
    let told = of(&format!("FS_TYPE=xfs\n{array}XFS_DATA_SUNIT=64k\nDATA_STRIPE_WIDTH=3\n"));
    assert!(told.text.contains("su=64k,sw=3 "), "{}", told.text);
    let ext4 = of(&format!("FS_TYPE=ext4\n{array}"));
    assert!(ext4.text.contains("-E stride=16,stripe_width=64 "), "{}", ext4.text);
    // Of a width that nobody knows nothing is made up.
    let unknown = of("FS_TYPE=xfs\nXFS_DATA_SUNIT=64k\n");
    assert!(unknown.text.contains("mkfs.xfs \"${DATA_DEVICE"), "{}", unknown.text);
    assert!(unknown.left_out[0].starts_with("xfs.sunit (data):"), "{:?}", unknown.left_out);
}

#[test]
fn blanks_in_mount_options_change_nothing() {
    let mount = "FS_TYPE=xfs\nDATA_MOUNT=/data\n\
                 XFS_MOUNT_OPTS_DATA='noatime, nodiratime , nobarrier, logbsize=256k'\n";
    let script = written(&Profile::from_config_env(mount.as_bytes()).unwrap(), Format::Storage);
    assert!(script.text.contains("# left out nodiratime: noatime implies it\n"));
    assert!(script.text.contains("mount -o noatime,logbsize=256k "), "{}", script.text);
    let after = "FS_TYPE=xfs\nDATA_MOUNT=/data\nXFS_MOUNT_OPTS_DATA='nodiratime, noatime'\n";
    let script = written(&Profile::from_config_env(after.as_bytes()).unwrap(), Format::Storage);
    assert!(script.text.contains("mount -o noatime "), "{}", script.text);
}

#[test]
fn what_no_command_of_storage_holds_is_told() {
    let data = || Some(Scope::Disk(Disk::Data));
    let told = |entries: &[(&str, &str, Option<Scope>)]| {
        let made = written(&of(entries), Format::Storage);
        let names: Vec<String> = made
            .left_out
            .iter()
            .filter_map(|said| Some(said.split_once(": ")?.0.to_owned()))
            .collect();
        (names, made)
    };
    let (names, made) = told(&[
        ("xfs.sunit", "64k", data()),
        ("xfs.agcount", "16", data()),
        ("array.stripe_width", "4", data()),
        ("array.chunk", "64K", data()),
        ("array.bitmap", "none", data()),
        ("array.device", "/dev/md0", data()),
        ("mount.options", "noatime", data()),
        ("xfs.log_sunit", "4k", None),
    ]);
    assert!(made.text.is_empty(), "{}", made.text);
    assert_eq!(
        names,
        [
            "xfs.sunit (data)",
            "xfs.agcount (data)",
            "array.stripe_width (data)",
            "array.chunk (data)",
            "array.bitmap (data)",
            "array.device (data)",
            "mount.options (data)",
            "xfs.log_sunit",
        ]
    );
    let why = made.left_out.join("\n");
    for reason in ["FS_TYPE", "DATA_RAID_LEVEL and DATA_DISK_COUNT", "DATA_MOUNT"] {
        assert!(why.contains(reason), "{reason}\n{why}");
    }
    // A count alone makes no array; another file system takes nothing of XFS.
    let (names, made) = told(&[
        ("fs.type", "ext4", None),
        ("xfs.sunit", "64k", data()),
        ("array.members", "8", data()),
        ("array.stripe_width", "4", data()),
        ("array.device", "/dev/sdb", data()),
    ]);
    assert!(made.text.contains("mkfs.ext4 /dev/sdb\n"), "{}", made.text);
    assert_eq!(
        names,
        ["xfs.sunit (data)", "array.members (data)", "array.stripe_width (data)"],
        "{:?}",
        made.left_out
    );
    // Of what is written nothing is told.
    let (names, made) = told(&[
        ("fs.type", "xfs", None),
        ("xfs.sunit", "64k", data()),
        ("array.level", "10", data()),
        ("array.members", "8", data()),
        ("array.chunk", "64K", data()),
        ("array.stripe_width", "4", data()),
        ("array.device", "/dev/md0", data()),
        ("array.mount_point", "/data", data()),
        ("mount.options", "noatime", data()),
        ("xfs.log_sunit", "4k", None),
    ]);
    assert_eq!(names, [""; 0], "{:?}", made.left_out);
}

#[test]
fn yaml_holds_text_and_leaves_out_what_others_decide() {
    let cnpg = written(&whole(), Format::CloudNativePg);
    assert!(cnpg.text.starts_with("spec:\n  postgresql:\n    parameters:\n"));
    assert!(cnpg.text.contains("\n      jit: \"off\"\n"));
    assert!(!cnpg.text.contains("port") && cnpg.left_out.len() == 2, "{:?}", cnpg.left_out);
    let patroni = written(&whole(), Format::Patroni).text;
    assert!(patroni.contains("postgresql:\n  parameters:\n    "));
    let ansible = written(&whole(), Format::Ansible).text;
    for line in [
        "postgresql_settings:\n",
        "  \"shared_buffers\": \"20GB\"\n",
        "sysctl_settings:\n",
        "  \"vm.swappiness\": \"1\"\n",
        "wal_block_queue:\n",
        "systemd_limits:\n  \"LimitNOFILE\": \"65535\"\n",
        "md_settings:\n  \"stripe_cache_size\": \"8192\"\n",
        "\nstorage:\n",
        "  \"fs_type\": \"xfs\"\n",
        "  \"xfs_log_sunit\": \"4\"\n",
    ] {
        assert!(ansible.contains(line), "{line}\n{ansible}");
    }
    let template = of(&[("synchronous_standby_names", "{{ lookup }}", None)]);
    let ansible = written(&template, Format::Ansible).text;
    assert!(ansible.contains(": !unsafe \"{{ lookup }}\""), "{ansible}");
    let fact = of(&[("queue/write_cache", "write back", Some(Scope::Disk(Disk::Wal)))]);
    assert_eq!(written(&fact, Format::Ansible).left_out.len(), 1);
}

#[test]
fn secrets_are_known() {
    for name in [
        "primary_conninfo",
        "Restore_Command",
        "myext.api_token",
        "ldap.bind_password",
        "app.conninfo",
        "myapp.passwd",
        "MyApp.Api_Key",
        "app.aws_access_key_id",
        "app.credentials",
    ] {
        assert!(is_secret(name), "{name}");
    }
    for name in [
        "password_encryption",
        "MD5_password_warnings",
        "work_mem",
        "synchronous_commit",
        "max_index_keys",
        "ssl_key_file",
    ] {
        assert!(!is_secret(name), "{name}");
    }
    for parameter in crate::parameters() {
        assert!(!is_secret(&parameter.name), "{} could never be set", parameter.name);
    }
}

#[test]
fn passwords_are_seen_in_values() {
    for value in [
        "host=a password=hush",
        "host=a PASSWORD = 'hush'",
        "PGPASSWORD=hush psql",
        "passwd=hush",
        "postgres://me:hush@db/app",
        "a, redis://:hush@cache",
        "postgres://me:hu@sh@db/app",
    ] {
        assert!(holds_password(value), "{value}");
    }
    for value in [
        "",
        "host=a user=me",
        "postgres://me@db:5432/app",
        "postgres://db:5432/app",
        "password_encryption",
        "%m [%p] %q%u@%d: ",
    ] {
        assert!(!holds_password(value), "{value}");
    }
}

proptest! {
    /// What is written for the server reads back as the same value.
    #[test]
    fn no_value_leaves_its_quotes(value in "[^\\p{Cc}]{0,30}|['\\\\\"{}$` ]{0,10}") {
        let profile = of(&[("synchronous_standby_names", &value, None)]);
        let conf = written(&profile, Format::PostgresqlConf).text;
        let line = conf.strip_suffix('\n').unwrap();
        let name = "synchronous_standby_names".to_owned();
        prop_assert_eq!(parse_line(line), Ok(Line::Setting { name, value: value.clone() }));
        for format in Format::ALL {
            let _ = written(&profile, format);
        }
        // Quotes inside a literal stand in pairs.
        let sql = written(&profile, Format::AlterSystem).text;
        let sql = sql.lines().next().unwrap();
        prop_assert_eq!(sql.matches('\'').count() % 2, 0, "{}", sql);
    }
}
