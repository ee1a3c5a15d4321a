//! What a role without privileges is told.

use walwright_probe::{HostScope, settings};
use walwright_record::Source;
use walwright_server::Major;

use crate::bench::{block_on, connect, facts, server, start, until};

#[test]
fn a_plain_role_sees_its_own_and_is_told_the_rest() {
    let server = server(Major::V18, &[]);
    block_on(async {
        let params = server.connect_params("postgres");
        let admin = connect(&params).await;
        admin.batch_execute("CREATE ROLE plain LOGIN; CREATE TABLE t (a int)").await.expect("role");
        let plain = connect(&params.clone().with_user("plain")).await;
        let known = facts(&plain).await;
        assert!(!known.superuser && !known.monitor);
        assert!(known.local, "the processes are here, whatever the role");
        assert!(known.not_observable.iter().any(|s| s.contains("pg_monitor")), "{known:?}");
        assert!(facts(&admin).await.not_observable.is_empty());

        let all = settings(&params).await.expect("settings");
        let some = settings(&params.clone().with_user("plain")).await.expect("settings");
        assert!(some.len() < all.len());
        assert!(some.iter().all(|setting| setting.name != "data_directory"));

        let (probe, seen) = start(&params.clone().with_user("plain"), HostScope::of(&known)).await;
        until("ticks", || seen.samples(Source::Waits).len() > 3).await;
        until("counters", || !seen.rows(Source::Wal).is_empty()).await;
        // The administrator's session is hidden: not told as one on the processor.
        let rows = seen.rows(Source::Waits);
        assert!(rows.iter().all(|row| row.text("backend_type").is_some()));
        let report = probe.stop().await.expect("stopped");
        assert!(
            report.not_observable.iter().any(|s| s.contains("missing from the wait events")),
            "{:?}",
            report.not_observable
        );
    });
}

#[test]
fn a_remote_server_shows_nothing_of_its_machine() {
    let server = server(Major::V14, &[("shared_preload_libraries", "")]);
    block_on(async {
        let params = server.connect_params("postgres");
        let (probe, seen) = start(&params, HostScope::default()).await;
        until("counters", || !seen.rows(Source::Wal).is_empty()).await;
        until("walwright itself", || !seen.rows(Source::Processes).is_empty()).await;
        let report = probe.stop().await.expect("stopped");
        for source in [Source::Cpu, Source::Disk, Source::Memory, Source::Pressure] {
            assert!(seen.samples(source).is_empty(), "{source:?}");
        }
        let groups = seen.rows(Source::Processes);
        assert!(groups.iter().all(|row| row.text("process_group") == Some("walwright")));
        assert_eq!((report.backend_cpu, report.machine_share()), (None, None));
        let says = |what: &str| report.not_observable.iter().any(|s| s.contains(what));
        assert!(says("the server's machine") && says("pg_stat_statements"), "{report:?}");
    });
}
