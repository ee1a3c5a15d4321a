// What node-postgres tells of a server, line by line.

// Queries that wait for each other are meant here.
process.noDeprecation = true;

const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const { from: copyFrom, to: copyTo } = require("pg-copy-streams");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");

async function connect(how = {}) {
  const client = new Client(how);
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function fails(what, ask) {
  try {
    const answer = await ask();
    console.log(what, "gave", JSON.stringify(answer?.rows ?? null));
  } catch (error) {
    console.log(what, error.code, error.message);
  }
}

const rows = async (db, text, values) => JSON.stringify((await db.query(text, values)).rows);

async function types(db) {
  const values = [1, 2 ** 40, "12.340", 1.5, true, "tést\n", Buffer.from([0, 255]), null,
    new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 6)), [1, null, 3], ["a", null], { a: [1, null] }];
  const kinds = ["int", "bigint", "numeric", "float8", "bool", "text", "bytea", "text",
    "timestamptz", "int[]", "text[]", "jsonb"];
  for (const [at, kind] of kinds.entries()) {
    console.log("type", kind, await rows(db, `SELECT $1::${kind} AS v`, [values[at]]));
  }
  const got = await db.query({ text: "SELECT 1 AS a, 'x' AS b", rowMode: "array" });
  console.log(JSON.stringify(got.rows), got.fields.map((field) => [field.name, field.dataTypeID]));
}

async function prepared(db) {
  for (let turn = 0; turn < 8; turn += 1) {
    const query = { name: "plus", text: "SELECT $1::int + 1 AS n", values: [turn] };
    console.log("prepared", JSON.stringify((await db.query(query)).rows));
  }
  for (let turn = 0; turn < 120; turn += 1) {
    const query = { name: `number ${turn}`, text: `SELECT ${turn} + $1::int AS n`, values: [turn] };
    if ((await db.query(query)).rows[0].n !== 2 * turn) throw new Error("another's answer");
  }
  await fails("other text of a name", () => db.query({ name: "plus", text: "SELECT 2" }));
  await fails("broken", () => db.query({ name: "broken", text: "SELECT missing" }));
  const changing = { name: "changing", text: "SELECT * FROM changing" };
  await db.query("CREATE TABLE changing (a int)");
  await db.query("INSERT INTO changing VALUES (1)");
  console.log(JSON.stringify((await db.query(changing)).rows));
  await db.query("ALTER TABLE changing ADD b int DEFAULT 5");
  await fails("changed result", () => db.query(changing));
  await db.query("DROP TABLE changing");
}

async function together(db) {
  const all = Array.from({ length: 40 }, (_, n) => db.query("SELECT $1::int AS n", [n]));
  console.log("queued", (await Promise.all(all)).map((answer) => answer.rows[0].n).join());
  const mixed = await Promise.allSettled(["SELECT 1", "SELECT 1 / 0", "SELECT 3"].map((sql) => db.query(sql)));
  console.log(mixed.map((of) => of.reason?.code ?? of.value.rowCount).join());
  const several = await db.query("SELECT 1 AS a; SELECT 2 AS b; UPDATE things SET name = name");
  console.log(several.map((answer) => `${answer.command} ${answer.rowCount}`).join());
}

async function transactions(db) {
  await db.query("BEGIN");
  await db.query("INSERT INTO things VALUES (2000, 'outer')");
  await db.query("SAVEPOINT s");
  await fails("in a savepoint", () => db.query("SELECT nothing"));
  await fails("aborted", () => db.query("SELECT 1"));
  await db.query("ROLLBACK TO s");
  console.log((await db.query("COMMIT")).command);
  await db.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
  console.log(await rows(db, "SHOW transaction_isolation"));
  await fails("divided", () => db.query("SELECT 1 / 0"));
  console.log("of an aborted one", (await db.query("COMMIT")).command);
  console.log(await rows(db, "SELECT id FROM things WHERE id >= 2000"));
}

async function states(db) {
  for (const sql of ["SELEC", "SELECT * FROM missing", "SELECT 'x'::int", "INSERT INTO things VALUES (0, 'twice')",
    "INSERT INTO things VALUES (NULL, 'x')", "SELECT missing()", "COMMIT", ""]) {
    await fails(sql, () => db.query(sql));
  }
  const notices = [];
  db.on("notice", (notice) => notices.push([notice.severity, notice.code, notice.message]));
  await db.query("DO $$ BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; END $$");
  console.log(JSON.stringify(notices));
}

async function copies(db) {
  const lines = Array.from({ length: 5000 }, (_, n) => `${3000 + n}\t${n % 7 ? `row ${n}` : "\\N"}\n`);
  const sink = db.query(copyFrom("COPY things FROM STDIN"));
  await pipeline(Readable.from(lines), sink);
  console.log("copy in", sink.rowCount);
  let text = "";
  for await (const piece of db.query(copyTo("COPY (SELECT * FROM things WHERE id BETWEEN 3000 AND 3010 ORDER BY 1) TO STDOUT"))) {
    text += piece;
  }
  console.log(JSON.stringify(text));
  await fails("wrong copy", () => pipeline(Readable.from(["nonsense\n"]), db.query(copyFrom("COPY things FROM STDIN"))));
  console.log(await rows(db, "SELECT count(*) FROM things"));
}

async function portals(db) {
  const cursor = db.query(new Cursor("SELECT generate_series(1, $1::int) AS n", [1000]));
  console.log(JSON.stringify(await cursor.read(3)), (await cursor.read(500)).length);
  await cursor.close();
  let sum = 0;
  for await (const row of db.query(new QueryStream("SELECT generate_series(1, 5000) AS n"))) sum += row.n;
  console.log("stream", sum);
}

async function sessions(db) {
  const other = await connect({ options: "-c work_mem=5MB", application_name: "first" });
  console.log(await rows(other, "SELECT current_setting('work_mem') AS m, current_setting('application_name') AS a"));
  await other.query("SET work_mem = '7MB'");
  console.log(await rows(other, "SHOW work_mem"), await rows(db, "SHOW work_mem"));
  await other.query("SET TimeZone = 'Asia/Tokyo'");
  console.log(await rows(other, "SELECT '2026-01-01 00:00:00+00'::timestamptz::text"));
  await other.query("CREATE TEMP TABLE own AS SELECT 1 AS a");
  console.log(await rows(other, "SELECT * FROM own"));
  await fails("temp table of another", () => db.query("SELECT * FROM own"));
  await other.query("SELECT pg_advisory_lock(77)");
  console.log(await rows(db, "SELECT pg_try_advisory_lock(77)"));
  await other.query("LISTEN channel");
  const heard = new Promise((resolve) => other.once("notification", resolve));
  await db.query("SELECT pg_notify('channel', 'told')");
  const told = await heard;
  console.log(told.channel, told.payload);
  await other.end();
  await fails("no such database", () => connect({ database: "missing" }));
}

async function large(db) {
  const text = "0123456789".repeat(1_000_000);
  const got = (await db.query("SELECT $1::text AS t, $2::bytea AS b", [text, Buffer.from(text)])).rows[0];
  console.log("large", got.t === text, got.b.toString() === text);
}

async function many() {
  const pool = new Pool({ max: 12 });
  pool.on("error", () => {});
  const inserts = Array.from({ length: 100 }, (_, n) => pool.query("INSERT INTO things VALUES ($1, 'many')", [20000 + n]));
  await Promise.all(inserts);
  console.log(await rows(pool, "SELECT count(*) FROM things WHERE id >= 20000"));
  const [one, two] = [await pool.connect(), await pool.connect()];
  await one.query("BEGIN");
  await one.query("UPDATE things SET name = 'one' WHERE id = 0");
  console.log(await rows(two, "SELECT name FROM things WHERE id = 0"));
  await one.query("COMMIT");
  console.log(await rows(two, "SELECT name FROM things WHERE id = 0"));
  one.release();
  two.release();
  await pool.end();
}

async function main() {
  const db = await connect();
  await db.query("DROP TABLE IF EXISTS things, changing");
  await db.query("CREATE TABLE things (id int PRIMARY KEY, name text)");
  await db.query("INSERT INTO things SELECT n, 'thing ' || n FROM generate_series(0, 49) n");
  for (const part of [types, prepared, together, transactions, states, copies, portals, sessions, large]) {
    console.log("==", part.name);
    await part(db);
  }
  console.log("== many");
  await many();
  await db.query("DROP TABLE things");
  await db.end();
}

main();
