//! Connections that are lost or lent, servers that end or follow, locks that block.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use walwright_probe::{Connector, HostScope};
use walwright_record::Source;
use walwright_server::Major;

use crate::bench::{block_on, cluster, connect, facts, server, start, start_with, until};

#[test]
fn a_terminated_probe_comes_back_and_the_host_goes_on() {
    let server = server(Major::V18, &[]);
    block_on(async {
        let params = server.connect_params("postgres");
        let client = connect(&params).await;
        let (probe, seen) = start(&params, HostScope::of(&facts(&client).await)).await;
        until("ticks", || seen.samples(Source::Waits).len() > 3).await;
        let ended = client
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE application_name = 'walwright probe'",
                &[],
            )
            .await
            .expect("terminated");
        assert_eq!(ended.len(), 2);
        until("both connections are back", || seen.events("probe_back").len() == 2).await;
        assert_eq!(seen.events("probe_lost").len(), 2);
        let back = seen.events("probe_back").iter().map(|event| event.at).max().expect("back");
        for source in [Source::Waits, Source::Wal, Source::Cpu, Source::Statements] {
            until(source.name(), || {
                seen.samples(source).iter().any(|sample| sample.at > back)
                    || source == Source::Statements && !seen.samples(source).is_empty()
            })
            .await;
        }
        // The complete first sample is not repeated: later ones hold what changed.
        assert!(seen.samples(Source::Tables).len() <= 1);
        let report = probe.stop().await.expect("stopped");
        assert_eq!(report.reconnects, 2);
    });
}

#[test]
fn a_server_that_ends_does_not_hold_up_the_stop() {
    let server = server(Major::V18, &[]);
    block_on(async {
        let params = server.connect_params("postgres");
        let host = HostScope::of(&facts(&connect(&params).await).await);
        let (probe, seen) = start(&params, host).await;
        until("counters", || !seen.samples(Source::Wal).is_empty()).await;
        let stopping = tokio::task::spawn_blocking(move || server.stop_immediately());
        stopping.await.expect("joined").expect("stopped");
        until("the loss is told", || !seen.events("probe_lost").is_empty()).await;
        let before = seen.samples(Source::Cpu).len();
        until("the host is sampled on", || seen.samples(Source::Cpu).len() > before + 2).await;
        let asked = Instant::now();
        probe.stop().await.expect("stopped");
        assert!(asked.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn who_waits_for_whom_and_locks_do_not_blind_the_probe() {
    let server = server(Major::V18, &[]);
    block_on(async {
        let params = server.connect_params("postgres");
        let holder = connect(&params).await;
        holder
            .batch_execute("CREATE TABLE held (a int); INSERT INTO held VALUES (1)")
            .await
            .expect("table");
        let (probe, seen) = start(&params, HostScope::of(&facts(&holder).await)).await;
        holder
            .batch_execute("BEGIN; LOCK TABLE held; UPDATE held SET a = 2")
            .await
            .expect("locked");
        let waiter = connect(&params).await;
        let waiting =
            tokio::spawn(async move { waiter.batch_execute("UPDATE held SET a = 3").await });
        until("the waiter is seen", || {
            seen.rows(Source::Sessions).iter().any(|row| {
                row.number("locks_not_granted") == Some(1.0)
                    && row.number("blocking_idle_in_transaction") == Some(1.0)
                    && row.text("blocked_pids").is_some()
                    && row.number("oldest_idle_in_transaction_seconds") > Some(0.0)
            })
        })
        .await;
        until("its wait is sampled", || {
            seen.rows(Source::Waits).iter().any(|row| {
                row.text("wait_event_type") == Some("Lock")
                    && row.text("wait_event") == Some("relation")
            })
        })
        .await;
        // Sizes need the lock that is held; all else goes on.
        until("tables without sizes", || {
            seen.rows(Source::Tables).iter().any(|row| row.text("relname") == Some("held"))
        })
        .await;
        let before = seen.samples(Source::Wal).len();
        until("counters go on", || seen.samples(Source::Wal).len() > before + 2).await;
        holder.batch_execute("COMMIT").await.expect("committed");
        waiting.await.expect("joined").expect("updated");
        probe.stop().await.expect("stopped");
    });
}

#[test]
fn an_index_being_built_shows_its_progress() {
    let server = server(Major::V18, &[]);
    block_on(async {
        let params = server.connect_params("postgres");
        let holder = connect(&params).await;
        holder.batch_execute("CREATE TABLE held (a int)").await.expect("table");
        let (probe, seen) = start(&params, HostScope::of(&facts(&holder).await)).await;
        holder.batch_execute("BEGIN; INSERT INTO held VALUES (1)").await.expect("written");
        let builder = connect(&params).await;
        let building = tokio::spawn(async move {
            builder.batch_execute("CREATE INDEX CONCURRENTLY made ON held (a)").await
        });
        until("the build waits for the writer", || {
            seen.rows(Source::Progress).iter().any(|row| {
                row.text("command") == Some("CREATE INDEX CONCURRENTLY")
                    && row.text("relation") == Some("public.held")
                    && row.text("phase").is_some_and(|phase| phase.starts_with("waiting"))
            })
        })
        .await;
        holder.batch_execute("COMMIT").await.expect("committed");
        building.await.expect("joined").expect("built");
        until("its end is told by an empty sample", || {
            seen.samples(Source::Progress).last().is_some_and(|sample| sample.rows.is_empty())
        })
        .await;
        until("the new index is sampled", || {
            seen.rows(Source::Indexes).iter().any(|row| row.text("indexrelname") == Some("made"))
        })
        .await;
        probe.stop().await.expect("stopped");
    });
}

#[test]
fn a_session_lent_by_a_pooler_is_left_as_it_is() {
    let server = server(Major::V18, &[]);
    block_on(async {
        let params = server.connect_params("postgres");
        let lent = [connect(&params).await, connect(&params).await];
        tokio::time::sleep(Duration::from_millis(50)).await;
        let pool = Arc::new(Mutex::new(Vec::from(lent)));
        let connector = Connector::new(move || {
            let client = pool.lock().expect("not poisoned").pop();
            async move { client.ok_or("the pool is empty") }
        });
        let (probe, seen) = start_with(connector, HostScope::default()).await;
        until("counters", || !seen.rows(Source::Wal).is_empty()).await;
        // Its sessions still carry the name they were opened with.
        let admin = connect(&params).await;
        let named = admin
            .query("SELECT FROM pg_stat_activity WHERE application_name = 'walwright probe'", &[])
            .await
            .expect("asked");
        assert_eq!(named.len(), 0);
        let report = probe.stop().await.expect("stopped");
        assert!(report.not_observable.iter().any(|s| s.contains("pooler")), "{report:?}");
    });
}

#[test]
fn a_standby_is_sampled_too() {
    let cluster = cluster(Major::V18, &[]);
    std::fs::write(cluster.data_dir().join("standby.signal"), "").expect("a standby");
    let server = cluster.start().expect("started");
    block_on(async {
        let params = server.connect_params("postgres");
        let known = facts(&connect(&params).await).await;
        assert!(known.in_recovery);
        let (probe, seen) = start(&params, HostScope::of(&known)).await;
        until("its position", || {
            seen.rows(Source::Wal).iter().any(|row| row.number("wal_lsn") > Some(0.0))
        })
        .await;
        for source in [Source::Checkpointer, Source::Io, Source::Sessions, Source::Waits] {
            until(source.name(), || !seen.rows(source).is_empty()).await;
        }
        let report = probe.stop().await.expect("stopped");
        assert_eq!(report.not_observable, Vec::<String>::new());
    });
}
