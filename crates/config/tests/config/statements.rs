//! Statements on the schema of a real server: made, undone, and what is left after a crash at
//! any point.

use walwright_config::{ApplyError, Restart, make_changes, undo_changes};
use walwright_server::{Major, Stop};
use walwright_store::ledger::{Change, Intent, Step};

use crate::testbed::Testbed;

/// A set of two statements and a setting, as the ledger notes it.
fn statements(testbed: &Testbed, database: &str) -> Intent {
    let statement = |sql: &str, undo: &str| Change::Statement {
        sql: sql.to_owned(),
        undo: undo.to_owned(),
        database: database.to_owned(),
    };
    let mut intent = testbed.intent("PG_WORK_MEM=9MB\n");
    intent.changes.extend([
        statement("ALTER TABLE t SET (fillfactor = 50)", "ALTER TABLE t RESET (fillfactor)"),
        statement("CREATE INDEX CONCURRENTLY extra ON t (id)", "DROP INDEX extra"),
    ]);
    intent
}

#[test]
fn statements_are_undone_however_far_they_came() {
    let testbed = Testbed::new(Major::V18);
    testbed.execute("CREATE TABLE t (id int)");
    let state = "SELECT concat(reloptions, (SELECT count(*) FROM pg_indexes WHERE tablename = 't'),
        current_setting('work_mem')) FROM pg_class WHERE relname = 't'";
    let before = testbed.ask(state);
    let (ledger, stop) = (testbed.ledger(), Stop::new());
    let make = |intent| {
        let (mut never, mut hold) = (Restart::Never, testbed.hold());
        let hold = Some(&mut hold);
        testbed.runtime.block_on(make_changes(&ledger, hold, intent, &mut never, &stop))
    };
    let made = make(statements(&testbed, "postgres")).expect("made");
    assert_eq!(testbed.ask(state), "{fillfactor=50}19MB");
    assert_eq!(testbed.roll_back(made.id, &mut Restart::Never).restored.len(), 3);
    assert_eq!(testbed.ask(state), before);

    // The second fails: there is such an index, which is not ours to drop.
    testbed.execute("CREATE INDEX extra ON t (id)");
    let with_index = testbed.ask(state);
    let error = make(statements(&testbed, "postgres")).unwrap_err();
    assert!(matches!(&error, ApplyError::Undone { what, .. } if what.contains("already exists")));
    assert_eq!(testbed.ask(state), with_index);
    testbed.execute("DROP INDEX extra");

    // One that is in no transaction leaves something behind when it fails.
    testbed.execute("INSERT INTO t VALUES (1), (1)");
    let mut intent = statements(&testbed, "postgres");
    if let Some(Change::Statement { sql, .. }) = intent.changes.last_mut() {
        *sql = sql.replacen("INDEX", "UNIQUE INDEX", 1);
    }
    let error = make(intent).unwrap_err();
    let told = |what: &str| what.contains("extra half done");
    assert!(matches!(&error, ApplyError::Undone { what, .. } if told(what)), "{error}");
    assert_eq!(testbed.ask(state), before);

    // Killed while the first is made: whether its transaction committed is the server's to
    // say; and while it is undone.
    let number = "SELECT pg_current_xact_id()::text";
    for (undoing, committed) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut intent = statements(&testbed, "postgres");
        intent.changes.remove(0);
        let id = ledger.begin(intent).unwrap().id;
        let sql = match undoing {
            false => "ALTER TABLE t SET (fillfactor = 50)",
            true => "ALTER TABLE t RESET (fillfactor)",
        };
        if undoing {
            testbed.execute("ALTER TABLE t SET (fillfactor = 50)");
        }
        testbed.runtime.block_on(async {
            let client = walwright_server::connect_for_workload(&testbed.params).await.unwrap();
            client.batch_execute("BEGIN").await.unwrap();
            let transaction = client.query_one(number, &[]).await.unwrap().get(0).unwrap();
            let step = match undoing {
                false => Step::Making { transaction },
                true => Step::Undoing { transaction },
            };
            ledger.step(id, 0, step).unwrap();
            client.batch_execute(sql).await.unwrap();
            let end = if committed { "COMMIT" } else { "ROLLBACK" };
            client.batch_execute(end).await.unwrap();
        });
        let undone = testbed.roll_back(id, &mut Restart::Never);
        assert_eq!(undone.restored.len(), usize::from(undoing != committed), "{undone:?}");
        assert_eq!(testbed.ask(state), before, "undoing {undoing}, committed {committed}");
    }

    // Of what runs in no transaction nobody can tell; undoing it is tried.
    for there in [true, false] {
        let mut intent = statements(&testbed, "postgres");
        intent.changes.drain(..2);
        let id = ledger.begin(intent).unwrap().id;
        ledger.step(id, 0, Step::Making { transaction: None }).unwrap();
        if there {
            testbed.execute("CREATE INDEX extra ON t (id)");
        }
        let undone = testbed.roll_back(id, &mut Restart::Never);
        assert_eq!(
            (undone.restored.len(), undone.notes.len()),
            (usize::from(there), usize::from(!there))
        );
        assert_eq!(testbed.ask(state), before);
    }

    // And nothing is undone in another database.
    let id = ledger.begin(statements(&testbed, "another")).unwrap().id;
    ledger.step(id, 1, Step::Made).unwrap();
    let (set, mut hold) = (ledger.set(id).unwrap().unwrap(), testbed.hold());
    let mut never = Restart::Never;
    let undone = undo_changes(&ledger, &set, Some(&mut hold), &mut never);
    let error = testbed.runtime.block_on(undone).unwrap_err().to_string();
    assert!(error.contains("in the database another"), "{error}");
}
