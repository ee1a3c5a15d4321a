// What pgx tells of a server, line by line.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func connect(dsn string) *pgx.Conn {
	db, err := pgx.Connect(ctx, dsn)
	must(err)
	return db
}

func said(err error) string {
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code + " " + told.Message
	}
	if err == nil {
		return "nothing"
	}
	return err.Error()
}

func row(db interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, sql string, arguments ...any) string {
	rows, err := db.Query(ctx, sql, arguments...)
	if err != nil {
		return said(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	if err != nil {
		return said(err)
	}
	return fmt.Sprint(all)
}

func exec(db *pgx.Conn, sql string, arguments ...any) {
	tag, err := db.Exec(ctx, sql, arguments...)
	fmt.Println(sql, "->", tag, said(err))
}

func types(db *pgx.Conn) {
	values := []any{int32(1), int64(1) << 40, 1.5, true, "tést\n", []byte{0, 255}, nil,
		time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), []int32{1, 3}, []string{"a"}, map[string]any{"a": 1}}
	kinds := []string{"int", "bigint", "float8", "bool", "text", "bytea", "text", "timestamptz", "int[]", "text[]", "jsonb"}
	for at, kind := range kinds {
		fmt.Println("type", kind, row(db, "SELECT $1::"+kind+"::text", values[at]), row(db, "SELECT $1::"+kind, values[at]))
	}
}

func modes(db *pgx.Conn) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for turn := range 3 {
			fmt.Println("mode", mode, row(db, "SELECT $1::int + 1", mode, int32(turn)))
		}
	}
	for turn := range 600 {
		var got int
		must(db.QueryRow(ctx, fmt.Sprintf("SELECT %d + $1::int", turn), turn).Scan(&got))
		if got != 2*turn {
			panic("another's answer")
		}
	}
	_, err := db.Prepare(ctx, "named", "SELECT $1::int * 2")
	fmt.Println("prepared", said(err), row(db, "named", 21))
	fmt.Println("deallocated", said(db.Deallocate(ctx, "named")))
	exec(db, "CREATE TABLE changing (a int)")
	exec(db, "INSERT INTO changing VALUES (1)")
	fmt.Println(row(db, "SELECT * FROM changing"))
	exec(db, "ALTER TABLE changing ADD b int DEFAULT 5")
	fmt.Println("changed result", row(db, "SELECT * FROM changing"))
	fmt.Println("and then", row(db, "SELECT * FROM changing"))
	exec(db, "DROP TABLE changing")
}

func batches(db *pgx.Conn) {
	batch := &pgx.Batch{}
	for n := range 50 {
		batch.Queue("INSERT INTO things VALUES ($1, $2)", 1000+n, fmt.Sprint("batch ", n))
	}
	batch.Queue("SELECT count(*) FROM things WHERE id >= 1000")
	results := db.SendBatch(ctx, batch)
	for range 50 {
		_, err := results.Exec()
		must(err)
	}
	var count int
	must(results.QueryRow().Scan(&count))
	fmt.Println("batch", count, said(results.Close()))
	broken := &pgx.Batch{}
	broken.Queue("INSERT INTO things VALUES (1100, 'kept?')")
	broken.Queue("SELECT 1 / $1::int", 0)
	broken.Queue("INSERT INTO things VALUES (1101, 'skipped')")
	fmt.Println("broken batch", said(db.SendBatch(ctx, broken).Close()))
	fmt.Println(row(db, "SELECT count(*) FROM things WHERE id >= 1100"))

	pipeline := db.PgConn().StartPipeline(ctx)
	for n := range 10 {
		pipeline.SendQueryParams("SELECT $1::int", [][]byte{[]byte(fmt.Sprint(n))}, nil, nil, nil)
	}
	must(pipeline.Sync())
	var got []string
	for range 10 {
		results, err := pipeline.GetResults()
		must(err)
		got = append(got, string(results.(*pgconn.ResultReader).Read().Rows[0][0]))
	}
	fmt.Println("pipeline", got, said(pipeline.Close()))
}

func transactions(db *pgx.Conn) {
	must(pgx.BeginFunc(ctx, db, func(outer pgx.Tx) error {
		_, err := outer.Exec(ctx, "INSERT INTO things VALUES (2000, 'outer')")
		must(err)
		fmt.Println("savepoint", said(pgx.BeginFunc(ctx, outer, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "SELECT nothing")
			return err
		})))
		return nil
	}))
	fmt.Println(row(db, "SELECT id FROM things WHERE id >= 2000"))
	for _, level := range []pgx.TxIsoLevel{pgx.Serializable, pgx.RepeatableRead, pgx.ReadCommitted} {
		must(pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: level, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			fmt.Println(row(tx, "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"))
			return nil
		}))
	}
	exec(db, "BEGIN")
	fmt.Println(row(db, "SELECT 1 / 0"), row(db, "SELECT 1"))
	exec(db, "COMMIT")
}

func states(db *pgx.Conn) {
	for _, sql := range []string{"SELEC", "SELECT * FROM missing", "SELECT 'x'::int", "INSERT INTO things VALUES (0, 'twice')",
		"INSERT INTO things VALUES (NULL, 'x')", "SELECT missing()", ""} {
		exec(db, sql)
	}
}

func copies(db *pgx.Conn) {
	count, err := db.CopyFrom(ctx, pgx.Identifier{"things"}, []string{"id", "name"},
		pgx.CopyFromSlice(5000, func(n int) ([]any, error) { return []any{3000 + n, fmt.Sprint("row ", n)}, nil }))
	fmt.Println("copy in", count, said(err))
	var out bytes.Buffer
	_, err = db.PgConn().CopyTo(ctx, &out, "COPY (SELECT * FROM things WHERE id BETWEEN 3000 AND 3010 ORDER BY 1) TO STDOUT")
	fmt.Printf("%q %s\n", out.String(), said(err))
	_, err = db.PgConn().CopyFrom(ctx, strings.NewReader("nonsense\n"), "COPY things FROM STDIN")
	fmt.Println("wrong copy", said(err))
	_, err = db.CopyFrom(ctx, pgx.Identifier{"things"}, []string{"id", "name"},
		pgx.CopyFromSlice(2, func(int) ([]any, error) { return []any{3000, "twice"}, nil }))
	fmt.Println("copy of what is there", said(err))
}

func cancels(db *pgx.Conn) {
	for range 3 {
		waits, stop := context.WithTimeout(ctx, 200*time.Millisecond)
		_, err := db.PgConn().Exec(ctx, "SELECT 1").ReadAll()
		must(err)
		done := make(chan struct{})
		go func() {
			<-waits.Done()
			must(db.PgConn().CancelRequest(ctx))
			close(done)
		}()
		_, err = db.PgConn().Exec(ctx, "SELECT pg_sleep(20)").ReadAll()
		fmt.Println("cancel", said(err))
		<-done
		stop()
	}
	fmt.Println(row(db, "SELECT 'after cancel'"))
}

func sessions(db *pgx.Conn) {
	other := connect("application_name=first work_mem=5MB")
	fmt.Println(row(other, "SELECT current_setting('work_mem'), current_setting('application_name')"))
	exec(other, "SET work_mem = '7MB'")
	fmt.Println(row(other, "SHOW work_mem"), row(db, "SHOW work_mem"))
	exec(other, "CREATE TEMP TABLE own AS SELECT 1 AS a")
	fmt.Println(row(other, "SELECT * FROM own"), row(db, "SELECT * FROM own"))
	fmt.Println(row(other, "SELECT pg_advisory_lock(77)"), row(db, "SELECT pg_try_advisory_lock(77)"))
	exec(other, "LISTEN channel")
	exec(db, "SELECT pg_notify('channel', 'told')")
	told, err := other.WaitForNotification(ctx)
	must(err)
	fmt.Println(told.Channel, told.Payload)
	must(other.Close(ctx))
	_, err = pgx.Connect(ctx, "database=missing")
	fmt.Println("no such database", said(errors.Unwrap(err)))
}

func large(db *pgx.Conn) {
	text := strings.Repeat("0123456789", 1_000_000)
	var got string
	must(db.QueryRow(ctx, "SELECT $1::text", text).Scan(&got))
	fmt.Println("large", got == text)
}

func many() {
	pool, err := pgxpool.New(ctx, "pool_max_conns=12")
	must(err)
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			_, err := pool.Exec(ctx, "INSERT INTO things VALUES ($1, 'many')", 20000+n)
			must(err)
		})
	}
	all.Wait()
	fmt.Println(row(pool, "SELECT count(*) FROM things WHERE id >= 20000"))
	pool.Close()
}

func main() {
	db := connect("")
	for _, sql := range []string{"DROP TABLE IF EXISTS things, changing", "CREATE TABLE things (id int PRIMARY KEY, name text)",
		"INSERT INTO things SELECT n, 'thing ' || n FROM generate_series(0, 49) n"} {
		exec(db, sql)
	}
	parts := []struct {
		name string
		do   func(*pgx.Conn)
	}{{"types", types}, {"modes", modes}, {"batches", batches}, {"transactions", transactions}, {"states", states},
		{"copies", copies}, {"cancels", cancels}, {"sessions", sessions}, {"large", large}}
	for _, part := range parts {
		fmt.Println("==", part.name)
		part.do(db)
	}
	fmt.Println("== many")
	many()
	exec(db, "DROP TABLE things")
	must(db.Close(ctx))
}
