"""What psycopg 3 tells of a server, line by line."""

import logging
import threading
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import psycopg
from psycopg.types.json import Jsonb


def connect(**how):
    return psycopg.connect("", autocommit=True, **how)


def fails(what, do):
    try:
        print(what, "gave", do())
    except psycopg.Error as error:
        print(what, type(error).__name__, error.sqlstate, error.diag.message_primary)


def types(db):
    values = [
        1, 2**40, 2**70, 1.5, Decimal("12.340"), True, "tést\n", b"\x00\xff", None,
        date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc), timedelta(days=1, seconds=2),
        uuid.UUID(int=7), [1, None, 3], ["a", None], Jsonb({"a": [1, None]}), float("nan"),
    ]
    for value in values:
        for binary in (False, True):
            got = db.cursor(binary=binary).execute("SELECT %s", (value,)).fetchone()
            print("type", binary, got)
    print(db.execute("SELECT %s::int, %s::text, %s::int[]", (None, None, None)).fetchone())
    rows = db.execute("SELECT '(1,a)'::text, int4range(1, 5), '10.0.0.1'::inet, ROW(1, 'x')")
    print([(column.name, column.type_code) for column in rows.description], rows.fetchone())


def prepared(db):
    for turn in range(12):
        print("prepared", db.execute("SELECT %s::int + 1", (turn,), prepare=True).fetchone())
    for turn in range(120):
        row = db.execute(f"SELECT {turn} + %s", (turn,), prepare=True).fetchone()
        assert row == (2 * turn,)
    cursor = db.cursor()
    cursor.executemany("INSERT INTO things VALUES (%s, %s)", [(i, f"thing {i}") for i in range(50)])
    print("executemany", cursor.rowcount)
    db.execute("CREATE TABLE changing (a int)")
    db.execute("INSERT INTO changing VALUES (1)")
    read = "SELECT * FROM changing WHERE a = %s"
    print(db.execute(read, (1,), prepare=True).fetchone())
    db.execute("ALTER TABLE changing ADD b int DEFAULT 5")
    fails("changed result", lambda: db.execute(read, (1,), prepare=True).fetchone())
    db.execute("DROP TABLE changing")


def pipelines(db):
    with db.pipeline():
        cursors = [db.execute("SELECT %s::int", (i,)) for i in range(30)]
    print("pipeline", [cursor.fetchone()[0] for cursor in cursors])

    def broken():
        with db.pipeline() as pipeline:
            db.execute("INSERT INTO things VALUES (1000, 'kept?')")
            db.execute("SELECT 1 / 0")
            db.execute("INSERT INTO things VALUES (1001, 'skipped')")
            pipeline.sync()

    fails("broken pipeline", broken)
    print(db.execute("SELECT count(*) FROM things WHERE id >= 1000").fetchone())

    def transaction():
        with db.pipeline(), db.transaction():
            db.execute("INSERT INTO things VALUES (1002, 'x')")
            return db.execute("SELECT count(*) FROM things WHERE id = 1002").fetchone()

    fails("transaction in a pipeline", transaction)


def transactions(db):
    with db.transaction():
        db.execute("INSERT INTO things VALUES (2000, 'outer')")
        try:
            with db.transaction():
                db.execute("INSERT INTO things VALUES (2001, 'inner')")
                db.execute("SELECT nothing")
        except psycopg.errors.UndefinedColumn as error:
            print("savepoint", error.sqlstate)
        print(db.info.transaction_status.name)
    print(db.execute("SELECT id FROM things WHERE id >= 2000 ORDER BY 1").fetchall())
    db.execute("BEGIN")
    fails("in transaction", lambda: db.execute("SELECT 1 / 0"))
    print(db.info.transaction_status.name)
    fails("aborted", lambda: db.execute("SELECT 1"))
    print(db.execute("COMMIT").statusmessage, db.info.transaction_status.name)
    for level in psycopg.IsolationLevel:
        with connect() as other:
            other.isolation_level = level
            with other.transaction():
                print(level.name, other.execute("SHOW transaction_isolation").fetchone())


def states(db):
    for statement in [
        "SELEC", "SELECT * FROM missing", "SELECT 'x'::int", "INSERT INTO things VALUES (0, 'twice')",
        "SELECT 1 / 0", "SELECT missing()", "DO $$ BEGIN RAISE EXCEPTION 'own' USING ERRCODE = 'ZZ001'; END $$",
        "INSERT INTO things VALUES (NULL, 'x')", "SELECT 1; SELECT 2; SELECT 1 / 0", "COMMIT; SELECT 3", "",
    ]:
        fails(statement, lambda: db.execute(statement).statusmessage)
    notices = []
    db.add_notice_handler(lambda notice: notices.append((notice.severity, notice.sqlstate, notice.message_primary)))
    db.execute("DO $$ BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; END $$")
    db.execute("DROP TABLE IF EXISTS missing")
    print(notices)


def copies(db):
    cursor = db.cursor()
    with cursor.copy("COPY things FROM STDIN") as copy:
        for i in range(3000, 8000):
            copy.write_row((i, None if i % 7 == 0 else f"row\t{i}"))
    print("copy in", cursor.rowcount)
    for form in ("text", "csv", "binary"):
        with cursor.copy(f"COPY (SELECT * FROM things WHERE id BETWEEN 3000 AND 3020 ORDER BY 1) TO STDOUT (FORMAT {form})") as copy:
            print(form, b"".join(copy))

    def wrong():
        with cursor.copy("COPY things FROM STDIN") as copy:
            copy.write("nonsense\n")

    def given_up():
        with cursor.copy("COPY things FROM STDIN") as copy:
            copy.write_row((9000, "x"))
            raise psycopg.DataError("given up")

    fails("wrong copy", wrong)
    fails("given up", given_up)
    print(db.execute("SELECT count(*) FROM things").fetchone())


def portals(db):
    with db.transaction():
        with db.cursor(name="portal") as cursor:
            cursor.execute("SELECT generate_series(1, 1000)")
            print(cursor.fetchmany(3), cursor.fetchone())
            cursor.scroll(10)
            print(cursor.fetchone(), len(cursor.fetchall()))
    kept = psycopg.ServerCursor(db, "kept", withhold=True)
    kept.execute("SELECT generate_series(1, 10)")
    print("with hold", kept.fetchmany(2), kept.fetchall())
    kept.close()
    print("stream", list(db.cursor().stream("SELECT generate_series(1, 5)")))


def cancels(db):
    for _ in range(3):
        timer = threading.Timer(0.2, db.cancel_safe)
        timer.start()
        fails("cancel", lambda: db.execute("SELECT pg_sleep(20)").fetchone())
        timer.join()
    print(db.execute("SELECT 'after cancel'").fetchone())


def sessions(db):
    with connect(options="-c work_mem=5MB -c search_path=pg_catalog", application_name="first") as other:
        print(other.execute("SELECT current_setting('work_mem'), current_setting('search_path'), current_setting('application_name')").fetchone())
        other.execute("SET work_mem = '7MB'")
        print(other.execute("SHOW work_mem").fetchone(), db.execute("SHOW work_mem").fetchone())
        other.execute("RESET work_mem")
        print(other.execute("SHOW work_mem").fetchone())
        other.execute("SET TimeZone = 'Asia/Tokyo'")
        print(other.info.timezone, other.execute("SELECT '2026-01-01 00:00:00+00'::timestamptz").fetchone())
        other.execute("SET client_encoding = 'LATIN1'")
        print(other.info.encoding, other.execute("SELECT %s", ("é",)).fetchone())
        other.execute("RESET ALL")
        print(other.info.encoding, other.info.timezone)
        other.execute("CREATE TEMP TABLE own AS SELECT 1 AS a")
        print(other.execute("SELECT * FROM own").fetchall())
        fails("temp table of another", lambda: db.execute("SELECT * FROM own"))
        print(other.execute("SELECT pg_advisory_lock(77)").fetchone(), db.execute("SELECT pg_try_advisory_lock(77)").fetchone())
        print(other.execute("SELECT pg_advisory_unlock(77)").fetchone(), db.execute("SELECT pg_try_advisory_lock(77), pg_advisory_unlock(77)").fetchone())
        other.execute("LISTEN channel")
        db.execute("SELECT pg_notify('channel', 'told')")
        print([(told.channel, told.payload) for told in other.notifies(timeout=5, stop_after=1)])
        other.execute("PREPARE own AS SELECT $1::int * 2")
        print(other.execute("EXECUTE own(21)").fetchone())
        other.execute("DEALLOCATE ALL")
        other.execute("DISCARD ALL")
        fails("after DISCARD ALL", lambda: other.execute("SELECT * FROM own"))
    fails("closed", lambda: other.execute("SELECT 1"))
    fails("no such database", lambda: psycopg.connect("dbname=missing"))


def large(db):
    text = "0123456789" * 1_000_000
    for binary in (False, True):
        got = db.cursor(binary=binary).execute("SELECT %s::text, %s::bytea", (text, text.encode())).fetchone()
        print("large", got[0] == text, bytes(got[1]) == text.encode())


def many():
    connections = [connect() for _ in range(12)]
    for i, db in enumerate(connections):
        db.execute("BEGIN" if i < 4 else "SELECT 1")
        db.execute("INSERT INTO things VALUES (%s, 'many')", (20000 + i,))
    print("seen by others", connections[-1].execute("SELECT count(*) FROM things WHERE id >= 20000").fetchone())
    for db in connections:
        db.execute("COMMIT") if db.info.transaction_status.name == "INTRANS" else None
    print("seen by others", connections[-1].execute("SELECT count(*) FROM things WHERE id >= 20000").fetchone())
    xid = connections[0].xid(1, "global", "branch")
    connections[0].autocommit = False
    fails("two-phase", lambda: connections[0].tpc_begin(xid))
    connections[0].execute("INSERT INTO things VALUES (30000, 'two-phase')")
    fails("prepare", connections[0].tpc_prepare)
    fails("rollback", connections[0].tpc_rollback)
    for db in connections:
        db.close()


def main():
    with connect() as db:
        print(db.info.server_version, db.info.encoding, sorted(
            name for name in ("server_version", "client_encoding", "DateStyle", "TimeZone", "integer_datetimes")
            if db.info.parameter_status(name)))
        db.execute("DROP TABLE IF EXISTS things, changing")
        db.execute("CREATE TABLE things (id int PRIMARY KEY, name text)")
        for part in (types, prepared, pipelines, transactions, states, copies, portals, cancels, sessions, large):
            print("==", part.__name__)
            part(db)
        print("== many")
        many()
        db.execute("DROP TABLE things")


# Whether a broken pipeline is logged is a matter of time.
logging.disable()
main()
