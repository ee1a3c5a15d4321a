//! A server that is held to less memory than the machine has.

use std::fs;
use std::path::Path;

use walwright_server::{Cluster, ClusterError, ClusterSpec, Major, connect_for_workload};

use crate::common::{install, open_dir, places, runtime, until};

const LIMIT: u64 = 256 << 20;

/// Whether this process may limit memory: as root, where a hierarchy of control groups does.
fn may_limit() -> bool {
    let given = fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control").unwrap_or_default();
    let mounted = Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists();
    nix::unistd::geteuid().is_root() && (mounted || given.contains("memory"))
}

/// The group of memory that a process is in.
fn group_of(pid: u32) -> String {
    let all = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let of_memory = all.lines().find(|line| line.contains("memory"));
    of_memory.or(all.lines().last()).unwrap().rsplit(':').next().unwrap().to_owned()
}

#[test]
fn a_server_gets_no_more_memory_than_its_limit() {
    let base = open_dir();
    let mut spec = ClusterSpec::new(&places(base.path()), install(Major::V18));
    spec.memory = Some(LIMIT);
    let cluster = Cluster::create(spec).expect("a cluster");
    let started = cluster.start();
    if !may_limit() {
        let refused = started.expect_err("nobody else may");
        assert!(matches!(refused, ClusterError::MemoryLimit { megabytes: 256, .. }), "{refused}");
        assert!(refused.to_string().contains("MemoryMax=256M"), "{refused}");
        return;
    }
    let server = started.expect("started");
    let group = group_of(server.postmaster_pid());
    assert!(group.contains(&format!("walwright-{}-", std::process::id())), "{group}");
    assert_ne!(group_of(std::process::id()), group);
    let in_v1 = Path::new("/sys/fs/cgroup/memory").join(group.trim_start_matches('/'));
    let in_v2 = Path::new("/sys/fs/cgroup").join(group.trim_start_matches('/'));
    let place = [in_v1, in_v2].into_iter().find(|place| place.is_dir()).expect("its directory");
    let limits = ["memory.limit_in_bytes", "memory.max"];
    let limit = limits.iter().find_map(|file| fs::read_to_string(place.join(file)).ok());
    assert_eq!(limit.unwrap().trim(), LIMIT.to_string());

    // A backend that wants more is ended by the system, and the server recovers.
    runtime().block_on(async {
        let params = server.connect_params("postgres");
        let client = connect_for_workload(&params).await.expect("connected");
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).await.expect("asked");
        let backend: i32 = pid.get(0).unwrap();
        assert_eq!(group_of(backend.cast_unsigned()), group);
        client.batch_execute("SET work_mem = '2GB'").await.expect("set");
        let much = "SELECT count(*) FROM (SELECT array_agg(i) FROM generate_series(1, 100000000) i \
                    GROUP BY i % 7) s";
        client.batch_execute(much).await.expect_err("more than there is");
    });
    drop(server);
    until("its group is gone", || !place.exists());
}
