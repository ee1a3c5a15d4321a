//! The schema from the catalog of every version.

use walwright_probe::{partition_plans, schema_facts};
use walwright_record::{ForeignKeyAction, ReplicaIdentity, SchemaFacts, SchemaTable, TableKind};
use walwright_server::{Client, Major};

use crate::bench::{block_on, connect, server};

const SCHEMA: &str = r#"
    CREATE SCHEMA "App";
    CREATE TABLE "App".customer (
        id uuid DEFAULT gen_random_uuid() PRIMARY KEY, email text NOT NULL, body text COMPRESSION pglz,
        n bigint GENERATED ALWAYS AS IDENTITY);
    ALTER TABLE "App".customer ALTER COLUMN body SET STORAGE EXTERNAL;
    ALTER TABLE "App".customer REPLICA IDENTITY FULL;
    CREATE TABLE "order" (
        id bigserial PRIMARY KEY, customer uuid REFERENCES "App".customer ON DELETE CASCADE,
        state text, at timestamptz DEFAULT now()) WITH (fillfactor = 80, autovacuum_enabled = off);
    CREATE INDEX open_orders ON "order" (lower(state), at DESC) INCLUDE (customer) WHERE id > 5;
    CREATE INDEX twin ON "order" (state);
    CREATE INDEX state_at ON "order" (state, at);
    CREATE TABLE event (id bigint, day date NOT NULL, what text) PARTITION BY RANGE (day);
    CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
    CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')
        PARTITION BY LIST (what);
    CREATE TABLE event_2a PARTITION OF event_2 FOR VALUES IN ('a');
    CREATE TABLE event_2b PARTITION OF event_2 DEFAULT;
    CREATE INDEX event_id ON event (id);
    CREATE PUBLICATION changes FOR TABLE "order";
    SELECT pg_create_logical_replication_slot('reader', 'pgoutput');
    INSERT INTO "App".customer (email) SELECT 'x' FROM generate_series(1, 2000);
    INSERT INTO "order" (customer, state) SELECT id, 'new' FROM "App".customer;
    DELETE FROM "order" WHERE id <= 100;
    ANALYZE;
"#;

fn table<'f>(facts: &'f SchemaFacts, name: &str) -> &'f SchemaTable {
    facts.tables.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("{name}"))
}

fn schema_on(major: Major) {
    let server = server(major, &[("wal_level", "logical")]);
    block_on(async {
        let client = connect(&server.connect_params("postgres")).await;
        // One by one: a slot is not made in a transaction that has written.
        for statement in SCHEMA.split(";\n") {
            client.batch_execute(statement).await.unwrap_or_else(|e| panic!("{statement}: {e:?}"));
        }
        let facts = schema_facts(&client).await;
        assert_eq!(facts.incomplete, Vec::<String>::new());

        let customer = table(&facts, "customer");
        assert_eq!(customer.sql(), "\"App\".customer");
        assert_eq!(customer.replica_identity, ReplicaIdentity::Full);
        assert_eq!(
            customer.column(1).and_then(|c| c.default.as_deref()),
            Some("gen_random_uuid()")
        );
        let correlation = customer.column(1).unwrap().statistics.as_ref().unwrap().correlation;
        assert!(correlation.unwrap().abs() < 0.3, "{correlation:?}");
        let body = customer.column(3).unwrap();
        assert_eq!((body.storage, body.compression.as_deref()), ('e', Some("pglz")));
        assert_eq!(customer.column(4).and_then(|c| c.default.as_deref()), Some("identity"));
        assert_eq!(customer.gauges.rows, Some(2000));
        assert!(customer.gauges.bytes > Some(8192) && customer.gauges.toast_bytes == Some(0));
        assert!(customer.gauges.xid_age.is_some() && facts.database_xid_age > Some(0));

        let order = table(&facts, "order");
        assert_eq!(order.sql(), "public.\"order\"");
        assert_eq!(order.options["fillfactor"], "80");
        assert_eq!(order.options["autovacuum_enabled"], "off");
        let keys = facts.foreign_keys.as_deref().unwrap();
        let [key] = keys else { panic!("{keys:?}") };
        assert_eq!(
            (key.table, &key.columns[..], key.referenced),
            (order.oid, &[2][..], customer.oid)
        );
        assert_eq!(key.on_delete, ForeignKeyAction::Cascade);
        assert_eq!(
            (key.referenced_name.as_str(), &key.referenced_columns[..]),
            ("App.customer", &["id".to_owned()][..])
        );

        let index = |name: &str| facts.indexes.iter().find(|i| i.name == name).unwrap();
        let open = index("open_orders");
        assert_eq!(open.keys, ["lower(state)", "at"]);
        assert_eq!((&open.key_columns[..], &open.depends_on[..]), (&[0, 4][..], &[1, 2, 3, 4][..]));
        assert_eq!(open.included, ["customer"]);
        assert_eq!(open.predicate.as_deref(), Some("(id > 5)"));
        assert!(open.definition.contains("USING btree (lower(state), at DESC)"));
        let (twin, longer) = (index("twin"), index("state_at"));
        assert_eq!(
            (&twin.keys[..], &twin.key_semantics[..]),
            (&longer.keys[..1], &longer.key_semantics[..1])
        );
        assert_ne!(open.key_semantics[1], longer.key_semantics[1], "the order counts");
        let primary = index("customer_pkey");
        assert!(primary.primary && primary.referenced && primary.unique);
        assert_eq!(primary.constraint.as_deref(), Some("customer_pkey"));
        assert!(primary.bytes > Some(0) && primary.scans.is_some());

        let event = table(&facts, "event");
        assert_eq!(event.kind, TableKind::Partitioned);
        let partitioning = event.partitioning.as_ref().unwrap();
        assert_eq!(partitioning.key, "RANGE (day)");
        assert_eq!(
            (&partitioning.columns[..], partitioning.partitions),
            (&["day".to_owned()][..], 2)
        );
        let second = table(&facts, "event_2");
        assert_eq!(
            (second.parent, table(&facts, "event_2a").parent),
            (Some(event.oid), Some(second.oid))
        );
        let of_partition = facts.indexes_of(table(&facts, "event_1").oid).next().unwrap();
        assert_eq!(of_partition.parent, Some(index("event_id").oid));

        let slots = facts.slots.as_deref().unwrap();
        assert!(slots[0].logical && !slots[0].active && slots[0].retained_bytes.is_some());
        assert_eq!(facts.publications.as_deref().unwrap()[0].name, "changes");
        assert!(facts.toast_compressions.as_deref().unwrap().contains(&"pglz".to_owned()));

        let again = schema_facts(&client).await;
        assert!(again.same_definitions(&facts));
        client.batch_execute("DROP INDEX twin").await.expect("dropped");
        assert!(!schema_facts(&client).await.same_definitions(&facts));

        plans(&client).await;
    });
}

/// What the plans of statements say, and that looking leaves nothing behind.
async fn plans(client: &Client) {
    client.batch_execute("SELECT pg_stat_statements_reset()").await.expect("reset");
    for statement in [
        "SELECT what FROM event WHERE id = $1::bigint",
        "SELECT what FROM event WHERE day = '2026-01-05' AND id = $1::bigint",
        "UPDATE event SET what = what WHERE day = '2026-01-06' AND id = $1::bigint",
        "SELECT o.id FROM \"order\" o JOIN event e ON e.id = o.id WHERE o.id = $1::bigint",
    ] {
        client.query(statement, &[&1_i64]).await.unwrap_or_else(|e| panic!("{statement}: {e:?}"));
    }
    let mut facts = schema_facts(client).await;
    partition_plans(client, client, true, &mut facts).await;
    let event = table(&facts, "event").oid;
    let ids = |like: &'static str| async move {
        let sql = format!(
            "SELECT queryid::text FROM pg_stat_statements WHERE query LIKE '{like}' AND query NOT LIKE '%pg_stat%'"
        );
        client.query_one(&sql, &[]).await.expect(like).get::<String>(0).unwrap()
    };
    let plan =
        |id: String| facts.plans.iter().find(|p| p.query_id == id && p.table == event).cloned();
    let unpruned = plan(ids("SELECT what FROM event WHERE id%").await).expect("a plan");
    assert_eq!((unpruned.scanned, unpruned.partitions, unpruned.key_in_conditions), (3, 3, false));
    let joined = plan(ids("SELECT o.id FROM%").await).expect("a plan");
    assert_eq!((joined.scanned, joined.key_in_conditions), (3, false));
    // A condition on the key leaves nothing to scan for NULL, or names the key.
    for pruned in ["SELECT what FROM event WHERE day%", "UPDATE event SET%"] {
        let found = plan(ids(pruned).await);
        assert!(found.as_ref().is_none_or(|p| p.key_in_conditions), "{pruned}: {found:?}");
    }
    let left = client.query_one("SELECT count(*) FROM pg_prepared_statements WHERE from_sql", &[]);
    assert_eq!(left.await.expect("count").get::<i64>(0).unwrap(), 0);
    let setting = client.query_one("SHOW search_path", &[]).await.expect("a setting");
    assert_eq!(
        setting.get::<String>(0).unwrap(),
        "\"$user\", public",
        "nothing stays in the session"
    );
}

#[test]
fn schema_on_14() {
    schema_on(Major::V14);
}

#[test]
fn schema_on_15() {
    schema_on(Major::V15);
}

#[test]
fn schema_on_16() {
    schema_on(Major::V16);
}

#[test]
fn schema_on_17() {
    schema_on(Major::V17);
}

#[test]
fn schema_on_18() {
    schema_on(Major::V18);
}

#[test]
fn a_plain_role_on_a_busy_server_gets_what_it_may_see() {
    let server = server(Major::V18, &[]);
    block_on(async {
        let params = server.connect_params("postgres");
        let admin = connect(&params).await;
        admin
            .batch_execute(
                "CREATE ROLE plain LOGIN; CREATE TABLE held (a int); CREATE TABLE free (b int);
                 CREATE INDEX held_a ON held (a); INSERT INTO free SELECT 1; ANALYZE free",
            )
            .await
            .expect("tables");
        let lock = "BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE";
        admin.batch_execute(lock).await.expect("a locked table");
        let client = connect(&params.clone().with_user("plain")).await;
        let facts = schema_facts(&client).await;
        let names: Vec<&str> = facts.tables.iter().map(|t| t.name.as_str()).collect();
        assert!(names.contains(&"held") && names.contains(&"free"), "{names:?}");
        assert_eq!(table(&facts, "free").columns[0].statistics, None, "not its table");
        let sizes = facts.incomplete.iter().any(|s| s.contains("sizes") && s.contains("lock"));
        assert!(sizes, "{:?}", facts.incomplete);
        assert_eq!(table(&facts, "free").gauges.bytes, None, "unknown is not zero");
    });
}
