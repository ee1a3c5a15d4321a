//! Connections that are lost, servers that end, locks that block.

use std::time::{Duration, Instant};

use walwright_probe::HostScope;
use walwright_record::Source;
use walwright_server::Major;

use crate::bench::{block_on, connect, facts, server, start, until};

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
        probe.snapshot().await;
        let before = seen.samples(Source::Wal).len();
        until("counters go on", || seen.samples(Source::Wal).len() > before + 2).await;
        holder.batch_execute("COMMIT").await.expect("committed");
        waiting.await.expect("joined").expect("updated");
        probe.stop().await.expect("stopped");
    });
}
