// What pgjdbc tells of a server, line by line.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.util.*;
import java.util.concurrent.*;
import org.postgresql.PGConnection;

public class PgjdbcProgram {
    interface Asks {
        Object ask() throws Exception;
    }

    static Connection connect(String... more) throws SQLException {
        String socket = System.getenv("PGHOST") + "/.s.PGSQL." + System.getenv("PGPORT");
        Properties how = new Properties();
        how.setProperty("user", System.getenv("PGUSER"));
        how.setProperty("sslmode", "disable");
        how.setProperty("socketFactory", "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg");
        how.setProperty("socketFactoryArg", socket);
        for (int at = 0; at < more.length; at += 2) how.setProperty(more[at], more[at + 1]);
        return DriverManager.getConnection("jdbc:postgresql://localhost/" + System.getenv("PGDATABASE"), how);
    }

    static void fails(String what, Asks asks) throws Exception {
        try {
            System.out.println(what + " gave " + asks.ask());
        } catch (SQLException error) {
            System.out.println(what + " " + error.getSQLState() + " " + error.getMessage().lines().findFirst().orElse(""));
        }
    }

    static String rows(Connection db, String sql, Object... arguments) throws SQLException {
        try (PreparedStatement statement = db.prepareStatement(sql)) {
            for (int at = 0; at < arguments.length; at++) statement.setObject(at + 1, arguments[at]);
            try (ResultSet got = statement.executeQuery()) {
                List<List<String>> all = new ArrayList<>();
                while (got.next()) {
                    List<String> row = new ArrayList<>();
                    for (int at = 1; at <= got.getMetaData().getColumnCount(); at++) row.add(got.getString(at));
                    all.add(row);
                }
                return all.toString();
            }
        }
    }

    static int run(Connection db, String sql) throws SQLException {
        try (Statement statement = db.createStatement()) {
            statement.execute(sql);
            return statement.getUpdateCount();
        }
    }

    static void types(Connection db) throws Exception {
        Object[] values = {1, 1L << 40, new BigDecimal("12.340"), 1.5, true, "tést\n", new byte[] {0, -1},
            UUID.fromString("00000000-0000-0000-0000-000000000007"), Timestamp.valueOf("2026-01-02 03:04:05.000006"),
            java.sql.Date.valueOf("2026-01-02"), db.createArrayOf("int4", new Integer[] {1, null, 3})};
        for (Object value : values) System.out.println("type " + rows(db, "SELECT ?", value));
        // From the fifth run on it is prepared on the server, and its results are binary.
        try (PreparedStatement plus = db.prepareStatement("SELECT ?::int + 1, ?::numeric, ?::timestamptz")) {
            for (int turn = 0; turn < 12; turn++) {
                plus.setInt(1, turn);
                plus.setBigDecimal(2, new BigDecimal(turn).movePointLeft(1));
                plus.setTimestamp(3, new Timestamp(turn * 1000L));
                try (ResultSet got = plus.executeQuery()) {
                    got.next();
                    System.out.println("prepared " + got.getInt(1) + " " + got.getBigDecimal(2) + " " + got.getTimestamp(3).getTime());
                }
            }
        }
    }

    static void changes(Connection db) throws Exception {
        run(db, "CREATE TABLE changing (a int)");
        run(db, "INSERT INTO changing VALUES (1)");
        String read = "SELECT * FROM changing";
        try (PreparedStatement statement = db.prepareStatement(read)) {
            for (int turn = 0; turn < 8; turn++) statement.executeQuery().close();
            run(db, "ALTER TABLE changing ADD b int DEFAULT 5");
            fails("changed result", () -> statement.executeQuery().getMetaData().getColumnCount());
        }
        System.out.println(rows(db, read));
        run(db, "DROP TABLE changing");
    }

    static void batches(Connection db) throws Exception {
        try (PreparedStatement insert = db.prepareStatement("INSERT INTO things VALUES (?, ?)", Statement.RETURN_GENERATED_KEYS)) {
            for (int n = 0; n < 600; n++) {
                insert.setInt(1, 1000 + n);
                insert.setString(2, "batch " + n);
                insert.addBatch();
            }
            System.out.println("batch " + Arrays.stream(insert.executeBatch()).sum());
            insert.setInt(1, 1700);
            insert.setString(2, "kept?");
            insert.addBatch();
            insert.setInt(1, 1000);
            insert.addBatch();
            fails("broken batch", insert::executeBatch);
        }
        System.out.println(rows(db, "SELECT count(*) FROM things WHERE id >= 1000"));
    }

    static void transactions(Connection db) throws Exception {
        db.setAutoCommit(false);
        run(db, "INSERT INTO things VALUES (2000, 'outer')");
        Savepoint savepoint = db.setSavepoint();
        fails("in a savepoint", () -> run(db, "SELECT nothing"));
        fails("aborted", () -> run(db, "SELECT 1"));
        db.rollback(savepoint);
        db.commit();
        db.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        System.out.println(rows(db, "SHOW transaction_isolation"));
        db.rollback();
        db.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        db.setReadOnly(true);
        fails("read only", () -> run(db, "INSERT INTO things VALUES (2001, 'x')"));
        db.rollback();
        db.setReadOnly(false);
        // A portal with a limit of rows.
        try (Statement statement = db.createStatement()) {
            statement.setFetchSize(100);
            ResultSet got = statement.executeQuery("SELECT generate_series(1, 1050)");
            int sum = 0;
            while (got.next()) sum += got.getInt(1);
            System.out.println("portal " + sum);
        }
        db.rollback();
        db.setAutoCommit(true);
        System.out.println(rows(db, "SELECT id FROM things WHERE id >= 2000"));
    }

    static void states(Connection db) throws Exception {
        for (String sql : new String[] {"SELEC", "SELECT * FROM missing", "SELECT 'x'::int", "INSERT INTO things VALUES (0, 'twice')",
            "INSERT INTO things VALUES (NULL, 'x')", "SELECT 1 / 0", "SELECT 1; SELECT 2; SELECT 1 / 0", ""}) {
            fails(sql, () -> run(db, sql));
        }
        try (Statement statement = db.createStatement()) {
            statement.execute("DO $$ BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; END $$");
            for (SQLWarning said = statement.getWarnings(); said != null; said = said.getNextWarning()) {
                System.out.println(said.getSQLState() + " " + said.getMessage());
            }
        }
    }

    static void copies(Connection db) throws Exception {
        var copies = db.unwrap(PGConnection.class).getCopyAPI();
        StringBuilder lines = new StringBuilder();
        for (int n = 3000; n < 8000; n++) lines.append(n).append("\trow ").append(n).append('\n');
        System.out.println("copy in " + copies.copyIn("COPY things FROM STDIN", new StringReader(lines.toString())));
        StringWriter out = new StringWriter();
        copies.copyOut("COPY (SELECT * FROM things WHERE id BETWEEN 3000 AND 3005 ORDER BY 1) TO STDOUT", out);
        System.out.println(out.toString().replace('\n', ';'));
        fails("wrong copy", () -> copies.copyIn("COPY things FROM STDIN", new StringReader("nonsense\n")));
        System.out.println(rows(db, "SELECT count(*) FROM things"));
    }

    static void cancels(Connection db) throws Exception {
        try (Statement statement = db.createStatement()) {
            var timer = Executors.newSingleThreadScheduledExecutor();
            var cancel = timer.schedule(() -> { statement.cancel(); return null; }, 300, TimeUnit.MILLISECONDS);
            fails("cancel", () -> statement.execute("SELECT pg_sleep(20)"));
            cancel.get();
            statement.setQueryTimeout(1);
            fails("timeout", () -> statement.execute("SELECT pg_sleep(20)"));
            timer.shutdown();
        }
        System.out.println(rows(db, "SELECT 'after cancel'"));
    }

    static void sessions(Connection db) throws Exception {
        try (Connection other = connect("ApplicationName", "first", "options", "-c work_mem=5MB")) {
            System.out.println(rows(other, "SELECT current_setting('work_mem'), current_setting('application_name')"));
            run(other, "SET work_mem = '7MB'");
            System.out.println(rows(other, "SHOW work_mem") + rows(db, "SHOW work_mem"));
            run(other, "CREATE TEMP TABLE own AS SELECT 1 AS a");
            System.out.println(rows(other, "SELECT * FROM own"));
            fails("temp table of another", () -> rows(db, "SELECT * FROM own"));
            System.out.println(rows(other, "SELECT pg_advisory_lock(77)") + rows(db, "SELECT pg_try_advisory_lock(77)"));
            run(other, "LISTEN channel");
            run(db, "SELECT pg_notify('channel', 'told')");
            for (var told : other.unwrap(PGConnection.class).getNotifications(5000)) {
                System.out.println(told.getName() + " " + told.getParameter());
            }
            other.setSchema("pg_catalog");
            System.out.println(other.getSchema() + " " + db.getSchema());
        }
        String text = "0123456789".repeat(1_000_000);
        System.out.println("large " + rows(db, "SELECT md5(?), length(?)", text, text));
        System.out.println(db.getMetaData().getDatabaseProductVersion().isEmpty() + " " + db.isValid(5));
    }

    static void many() throws Exception {
        var threads = Executors.newFixedThreadPool(12);
        List<Future<Object>> all = new ArrayList<>();
        for (int client = 0; client < 12; client++) {
            int from = 20000 + 100 * client;
            all.add(threads.submit(() -> {
                try (Connection db = connect()) {
                    for (int n = 0; n < 20; n++) {
                        String got = rows(db, "INSERT INTO things VALUES (?, 'many') RETURNING id", from + n);
                        if (!got.equals("[[" + (from + n) + "]]")) throw new IllegalStateException(got);
                    }
                }
                return null;
            }));
        }
        for (var one : all) one.get();
        threads.shutdown();
    }

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        try (Connection db = connect()) {
            run(db, "DROP TABLE IF EXISTS things, changing");
            run(db, "CREATE TABLE things (id int PRIMARY KEY, name text)");
            run(db, "INSERT INTO things SELECT n, 'thing ' || n FROM generate_series(0, 49) n");
            types(db);
            changes(db);
            batches(db);
            transactions(db);
            states(db);
            copies(db);
            cancels(db);
            sessions(db);
            many();
            System.out.println(rows(db, "SELECT count(*) FROM things WHERE id >= 20000"));
            run(db, "DROP TABLE things");
        }
    }
}
