"""What asyncpg tells of a server, line by line."""

import asyncio
import io
import os
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import asyncpg


def connect(**how):
    # It takes a directory for a socket only as an argument.
    return asyncpg.connect(host=os.environ["PGHOST"], **how)


async def fails(what, answer):
    try:
        print(what, "gave", await answer)
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        print(what, type(error).__name__, getattr(error, "sqlstate", None), str(error).splitlines()[0])


async def types(db):
    for kind, value in [
        ("int2", 1), ("int4", 2), ("int8", 2**40), ("float4", 1.5), ("float8", 2.5), ("numeric", Decimal("12.340")),
        ("bool", True), ("text", "tést\n"), ("bytea", b"\x00\xff"), ("date", date(2026, 1, 2)),
        ("timestamptz", datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc)), ("interval", timedelta(days=1)),
        ("uuid", uuid.UUID(int=7)), ("int4[]", [1, None]), ("text[]", ["a", None]), ("jsonb", '{"a": null}'),
        ("inet", "10.0.0.1"), ("int4range", asyncpg.Range(1, 5)), ("point", asyncpg.Point(1, 2)),
    ]:
        print(kind, await db.fetchval(f"SELECT $1::{kind}", value), await db.fetchval(f"SELECT $1::{kind}", None))
    await db.execute("DROP TYPE IF EXISTS mood, pair; CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE TYPE pair AS (a int, b mood)")
    print(await db.fetchval("SELECT $1::mood", "bad"), await db.fetchval("SELECT $1::pair", (1, "good")), await db.fetchval("SELECT ARRAY[ROW(2, 'bad')::pair]"))
    await db.execute("DROP TYPE pair, mood")


async def prepared(db):
    statement = await db.prepare("SELECT $1::int + 1 AS sum, $2::text AS text")
    print(statement.get_parameters(), statement.get_attributes())
    print([await statement.fetchrow(i, str(i)) for i in range(10)])
    for turn in range(150):
        assert await db.fetchval(f"SELECT {turn} + $1::int", turn) == 2 * turn
    await db.executemany("INSERT INTO things VALUES ($1, $2)", [(i, f"thing {i}") for i in range(500)])
    await fails("executemany", db.executemany("INSERT INTO things VALUES ($1, $2)", [(900, "x"), (1, "twice"), (901, "y")]))
    print(await db.fetchval("SELECT count(*) FROM things"))
    print(await db.fetchmany("INSERT INTO things VALUES ($1, $2) RETURNING id", [(910, "a"), (911, "b")]))
    await db.execute("CREATE TABLE changing (a int)")
    read = await db.prepare("SELECT * FROM changing")
    print(await read.fetch())
    await db.execute("ALTER TABLE changing ADD b int")
    await fails("changed result", read.fetch())
    await fails("the same by the connection", db.fetch("SELECT * FROM changing"))
    await db.execute("DROP TABLE changing")


async def transactions(db):
    async with db.transaction():
        await db.execute("INSERT INTO things VALUES (2000, 'outer')")
        try:
            async with db.transaction():
                await db.execute("INSERT INTO things VALUES (2001, 'inner')")
                await db.execute("SELECT nothing")
        except asyncpg.UndefinedColumnError as error:
            print("savepoint", error.sqlstate)
        print(db.is_in_transaction())
    print(await db.fetch("SELECT id FROM things WHERE id >= 2000"))
    transaction = db.transaction()
    await transaction.start()
    await fails("in transaction", db.execute("SELECT 1 / 0"))
    await fails("aborted", db.execute("SELECT 1"))
    await transaction.rollback()
    print(db.is_in_transaction())
    for isolation in ("read_committed", "repeatable_read", "serializable"):
        async with db.transaction(isolation=isolation, readonly=True):
            print(await db.fetchval("SHOW transaction_isolation"))
            await fails("write", db.execute("INSERT INTO things VALUES (1, 'x')")) if isolation == "serializable" else None
            if isolation == "serializable":
                break


async def states(db):
    for statement in [
        "SELEC", "SELECT * FROM missing", "INSERT INTO things VALUES (0, 'twice')", "SELECT 1 / 0", "SELECT missing()",
        "DO $$ BEGIN RAISE EXCEPTION 'own' USING ERRCODE = 'ZZ001'; END $$", "INSERT INTO things VALUES (NULL, 'x')",
        "SELECT 1; SELECT 2; SELECT 1 / 0",
    ]:
        await fails(statement, db.execute(statement))
        await fails(statement, db.fetch(statement))
    told = []
    db.add_log_listener(lambda _, message: told.append((message.severity, message.sqlstate, message.message)))
    await db.execute("DO $$ BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; END $$")
    await asyncio.sleep(0)
    print(told)


async def copies(db):
    rows = [(i, None if i % 7 == 0 else f"row\t{i}") for i in range(3000, 8000)]
    print(await db.copy_records_to_table("things", records=rows))
    print(await db.copy_to_table("things", source=io.BytesIO(b"8000,a\n8001,\n"), format="csv"))
    for form in ("text", "csv", "binary"):
        output = io.BytesIO()
        print(await db.copy_from_query("SELECT * FROM things WHERE id BETWEEN $1 AND $2 ORDER BY 1", 3000, 3020, output=output, format=form), output.getvalue())
    await fails("wrong copy", db.copy_to_table("things", source=io.BytesIO(b"nonsense\n")))
    print(await db.fetchval("SELECT count(*) FROM things"))


async def portals(db):
    async with db.transaction():
        print([row[0] async for row in db.cursor("SELECT generate_series(1, $1::int)", 25, prefetch=10)])
        cursor = await db.cursor("SELECT generate_series(1, 100)")
        print(await cursor.fetch(3), await cursor.forward(10), await cursor.fetchrow())
        other = await db.cursor("SELECT generate_series(5, 9)")
        print(await other.fetch(2), await cursor.fetchrow(), await other.fetch(9), len(await cursor.fetch(1000)))
    await fails("cursor outside", db.cursor("SELECT 1"))


async def cancels(db):
    for _ in range(3):
        try:
            await db.fetch("SELECT pg_sleep(20)", timeout=0.2)
        except asyncio.TimeoutError:
            print("timed out")
        print(await db.fetchval("SELECT 'after cancel'"))
    task = asyncio.ensure_future(db.execute("SELECT pg_sleep(20)"))
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    print(task.cancelled(), await db.fetchval("SELECT 'after cancel'"))


async def sessions(db):
    other = await connect(server_settings={"work_mem": "5MB", "application_name": "first"})
    print(await other.fetchrow("SELECT current_setting('work_mem'), current_setting('application_name')"))
    await other.execute("SET work_mem = '7MB'")
    print(await other.fetchval("SHOW work_mem"), await db.fetchval("SHOW work_mem"))
    await other.execute("RESET work_mem")
    print(await other.fetchval("SHOW work_mem"))
    await other.execute("SET TimeZone = 'Asia/Tokyo'")
    print(other.get_settings().TimeZone)
    await other.execute("CREATE TEMP TABLE own AS SELECT 1 AS a")
    print(await other.fetch("SELECT * FROM own"))
    await fails("temp table of another", db.fetch("SELECT * FROM own"))
    print(await other.fetchval("SELECT pg_try_advisory_lock(77)"), await db.fetchval("SELECT pg_try_advisory_lock(77)"))
    heard = asyncio.Queue()
    await other.add_listener("channel", lambda _, pid, channel, payload: heard.put_nowait((channel, payload)))
    await db.execute("NOTIFY channel, 'told'")
    print(await asyncio.wait_for(heard.get(), 5))
    await other.reset()
    print(await other.fetchval("SHOW TimeZone") != "Asia/Tokyo", await db.fetchval("SELECT pg_try_advisory_lock(77)"), await db.fetchval("SELECT pg_advisory_unlock(77)"))
    await other.close()
    await fails("closed", other_fetch(other))
    await fails("no such database", connect(database="missing"))


async def other_fetch(other):
    return await other.fetch("SELECT 1")


async def large(db):
    text = "0123456789" * 1_000_000
    got = await db.fetchrow("SELECT $1::text, $2::bytea", text, text.encode())
    print("large", got[0] == text, got[1] == text.encode())


async def many(_):
    async with asyncpg.create_pool(host=os.environ["PGHOST"], min_size=4, max_size=10) as pool:
        async def one(i):
            async with pool.acquire() as db, db.transaction():
                await db.execute("INSERT INTO things VALUES ($1, 'many')", 20000 + i)
                return await db.fetchval("SELECT id FROM things WHERE id = $1", 20000 + i)

        print(sum(await asyncio.gather(*(one(i) for i in range(200)))))
        print(await pool.fetchval("SELECT count(*) FROM things WHERE id >= 20000"))


async def main():
    db = await connect()
    print(db.get_server_version(), db.get_settings().client_encoding)
    await db.execute("DROP TABLE IF EXISTS things, changing")
    await db.execute("CREATE TABLE things (id int PRIMARY KEY, name text)")
    for part in (types, prepared, transactions, states, copies, portals, cancels, sessions, large, many):
        print("==", part.__name__)
        await part(db)
    await db.execute("DROP TABLE things")
    await db.close()


asyncio.run(main())
