//! The built-in workloads: directories under `builtin/`, embedded.

/// A file of a workload: its name in the directory and its text.
type File = (&'static str, &'static str);

macro_rules! file {
    ($name:literal, $path:literal) => {
        ($name, include_str!(concat!("../../builtin/", $path)))
    };
}

const TPCB: &[File] = &[
    file!("workload.toml", "tpcb/workload.toml"),
    file!("schema.sql", "tpcb/schema.sql"),
    file!("after_load.sql", "tpcb/after_load.sql"),
    file!("before_run.sql", "tpcb/before_run.sql"),
    file!("tpcb.sql", "tpcb/tpcb.sql"),
];

// The tables and data of tpcb with other scripts, as in pgbench.
const SIMPLE_UPDATE: &[File] = &[
    file!("workload.toml", "simple-update/workload.toml"),
    file!("schema.sql", "tpcb/schema.sql"),
    file!("after_load.sql", "tpcb/after_load.sql"),
    file!("before_run.sql", "tpcb/before_run.sql"),
    file!("simple-update.sql", "simple-update/simple-update.sql"),
];

const SELECT_ONLY: &[File] = &[
    file!("workload.toml", "select-only/workload.toml"),
    file!("schema.sql", "tpcb/schema.sql"),
    file!("after_load.sql", "tpcb/after_load.sql"),
    file!("before_run.sql", "tpcb/before_run.sql"),
    file!("select-only.sql", "select-only/select-only.sql"),
];

const AUTOCOMMIT: &[File] = &[
    file!("workload.toml", "autocommit/workload.toml"),
    file!("schema.sql", "autocommit/schema.sql"),
    file!("before_run.sql", "autocommit/before_run.sql"),
    file!("insert.sql", "autocommit/insert.sql"),
];

const EVENTS: &[File] = &[
    file!("workload.toml", "events/workload.toml"),
    file!("schema.sql", "events/schema.sql"),
    file!("after_load.sql", "events/after_load.sql"),
    file!("ingest.sql", "events/ingest.sql"),
];

const DOCUMENTS: &[File] = &[
    file!("workload.toml", "documents/workload.toml"),
    file!("schema.sql", "documents/schema.sql"),
    file!("after_load.sql", "documents/after_load.sql"),
    file!("references.sql", "documents/references.sql"),
    file!("before_run.sql", "documents/before_run.sql"),
    file!("post.sql", "documents/post.sql"),
    file!("put.sql", "documents/put.sql"),
    file!("get.sql", "documents/get.sql"),
    file!("find.sql", "documents/find.sql"),
    file!("query.sql", "documents/query.sql"),
    file!("delete.sql", "documents/delete.sql"),
    file!("bulk.sql", "documents/bulk.sql"),
];

const TPCC: &[File] = &[
    file!("workload.toml", "tpcc/workload.toml"),
    file!("schema.sql", "tpcc/schema.sql"),
    file!("after_load.sql", "tpcc/after_load.sql"),
    file!("new-order.sql", "tpcc/new-order.sql"),
    file!("payment.sql", "tpcc/payment.sql"),
    file!("order-status.sql", "tpcc/order-status.sql"),
    file!("delivery.sql", "tpcc/delivery.sql"),
    file!("stock-level.sql", "tpcc/stock-level.sql"),
];

/// All built-in workloads, the default first.
pub(crate) const BUILTINS: &[(&str, &[File])] = &[
    ("tpcb", TPCB),
    ("simple-update", SIMPLE_UPDATE),
    ("select-only", SELECT_ONLY),
    ("autocommit", AUTOCOMMIT),
    ("events", EVENTS),
    ("documents", DOCUMENTS),
    ("tpcc", TPCC),
];

/// pgbench's built-in scripts on its tables: the name there, the workload here that runs it
/// alone, and the text.
pub(crate) const PGBENCH_SCRIPTS: &[(&str, &str, &str)] = &[
    ("tpcb-like", "tpcb", include_str!("../../builtin/tpcb/tpcb.sql")),
    (
        "simple-update",
        "simple-update",
        include_str!("../../builtin/simple-update/simple-update.sql"),
    ),
    ("select-only", "select-only", include_str!("../../builtin/select-only/select-only.sql")),
];
