//! What reads one text.

use std::hint::black_box;

use walwright_catalog::{Devices, Profile, parameters};
use walwright_experiment::{Metric, PlanFile};
use walwright_record::Timestamp;
use walwright_results::{Format, Printed, read};
use walwright_server::PgVersion;
use walwright_tune::Objective;
use walwright_workload::Workload;
use walwright_workload::script::{
    ClientStart, Command, Program, Rng, ScriptSource, parse_definition, parse_script_argument,
};

use crate::{Target, samples};

/// pgbench scripts: compiled, and what they compute computed.
pub(crate) const SCRIPT: Target =
    Target { name: "script", samples: scripts, feed: |bytes| script(&text(bytes)) };

/// What arguments of the command line and connection strings are made of.
pub(crate) const ARGUMENTS: Target =
    Target { name: "arguments", samples: arguments, feed: |bytes| argument(&text(bytes)) };

/// Profiles, and the forms that they are exported in.
pub(crate) const CONFIG_ENV: Target =
    Target { name: "config_env", samples: config_envs, feed: config_env };

/// Values of settings: a name, a line, a value.
pub(crate) const VALUES: Target = Target { name: "values", samples: values, feed: value };

/// Plans of experiments.
pub(crate) const EXPERIMENT_PLAN: Target =
    Target { name: "experiment_plan", samples: plans, feed: |bytes| plan(&text(bytes)) };

/// Logs of load generators, in every format.
pub(crate) const CLIENT_LOG: Target =
    Target { name: "client_log", samples: client_logs, feed: client_log };

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scripts() -> Vec<Vec<u8>> {
    let mut all = samples(&[
        "\\set a random(1, 100 * :scale)\n\\set b permute(:a, 1000, 7) # 3\n\
         \\if :a > 5 and not (:b is null)\nSELECT $1, 'it''s', \"n\", $$ :a $$ FROM t WHERE id = :a;\n\
         \\elif hash_fnv1a(:a) % 2 = 0\nSELECT 1 \\gset p_\n\\else\n\\sleep 10 us\n\\endif\n\
         \\startpipeline\nINSERT INTO t VALUES (:a, e'\\n', 1.5e3);\n\\syncpipeline\n\\endpipeline\n",
        "\\set x case when :scale > 1 then pow(2, 62) * 4 else least(1, 2.5) end\n\
         \\set y (-9223372036854775807 - 1) / -1\n\\set z int(1e300) << 70 | ~5\n\
         \\set w random_zipfian(1, 10, 1.1) + random_gaussian(1, 9, 3) - random_exponential(1, 9, 2)\n\
         BEGIN; /* c /* d */ */ UPDATE t SET n = n + :x -- e\nWHERE id = :y\\;\nSELECT :w \\aset\nEND;\n",
    ]);
    for name in walwright_workload::workload::builtin_names() {
        let workload = Workload::builtin(name).into_iter();
        let files: Vec<String> = workload
            .flat_map(|one| one.files().map(|(_, text)| text.to_owned()).collect::<Vec<_>>())
            .collect();
        all.extend(samples(&files.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    all
}

fn script(text: &str) {
    let source = ScriptSource { name: "s.sql".into(), text: text.into(), weight: 1 };
    let program = match Program::compile(&[source], &[]) {
        Ok(program) => program,
        Err(error) => {
            let said = error.to_string();
            assert!(
                said.contains("s.sql") || !text.contains(';'),
                "an error without a place: {said}"
            );
            return;
        }
    };
    let _ = program.check_extended();
    let start = ClientStart { client_id: 0, scale: 3, random_seed: 1, default_seed: 2 };
    let (variables, mut rng) = (program.variables(&start), Rng::from_seed(7));
    for command in program.scripts.iter().flat_map(|script| &script.commands) {
        if let Command::Set { expr, .. } = command {
            let _ = black_box(expr.eval(&variables, &mut rng));
        }
    }
}

fn arguments() -> Vec<Vec<u8>> {
    samples(&[
        "my.sql@3",
        "x=5",
        "18.6 (Debian 18.6-1.pgdg120+1)",
        "19beta2",
        "PostgreSQL 14.23",
        "throughput",
        "max:throughput,latency_p99<5ms",
        "1e6 * :latency_p99 + case when :wal_bytes_per_transaction > 1 then 2 else 3 end",
        "postgresql://us%65r:p%40w@[::1]:5433,h2:5434/db?sslmode=verify-full&options=-c%20a%3Db",
        "host=/tmp,b port=5432,5433 user='a \\' b' password=x sslmode=require dbname=d",
    ])
}

fn argument(text: &str) {
    let _ = parse_script_argument(text);
    let _ = parse_definition(text);
    let _ = PgVersion::parse(text);
    let _ = Objective::parse(text);
    let _ = Metric::named("cost", Some(text));
    let _ = Metric::named(text, None);
    let _ = walwright_server::holds_password(text);
    let _ = walwright_record::redact::holds_secret(text);
    let _ = walwright_record::redact::names_secret(text);
}

fn config_envs() -> Vec<Vec<u8>> {
    samples(&[
        include_str!("../../catalog/src/config_env/another_team.env"),
        "PG_VERSION=17\nPG_WORK_MEM='64MB' # why\nexport VM_SWAPPINESS=1\n\
         NET_IPV4_TCP_RMEM=\"4096 87380 16777216\"\nTABLE_FILLFACTOR=public.t=50\n\
         WAL_READ_AHEAD_KB=128\n# unproven: maybe\nDATA_MOUNT_OPTIONS=noatime,nodiratime\n",
    ])
}

fn config_env(bytes: &[u8]) {
    let profile = match Profile::from_config_env(bytes) {
        Ok(profile) => profile,
        Err(error) => {
            assert!(error.to_string().contains("line"), "no place: {error}");
            return;
        }
    };
    let written = profile.to_config_env();
    let again = Profile::from_config_env(written.as_bytes());
    assert!(again.is_ok(), "what was written is not read: {again:?}\n{written}");
    for form in walwright_catalog::Format::ALL {
        black_box(walwright_catalog::export(&profile, form, &Devices::default()));
    }
}

fn values() -> Vec<Vec<u8>> {
    samples(&[
        "shared_buffers\n16384",
        "checkpoint_timeout\n1.5 h",
        "wal_compression\nlz4",
        "vm.dirty_ratio\n0x10",
        "synchronous_commit\noff",
        "net.ipv4.tcp_rmem\n4096 87380 16777216",
        "max_wal_size\n9223372036854775807GB",
    ])
}

fn value(bytes: &[u8]) {
    let text = text(bytes);
    let (name, value) = text.split_once('\n').unwrap_or(("", &text));
    let named = parameters().iter().filter(|one| name.is_empty() || one.name.contains(name));
    for parameter in named {
        if let Ok(value) = parameter.read(value) {
            black_box(value.bytes());
        }
    }
    let _ = walwright_catalog::parse_line(&text);
    let _ = walwright_catalog::Entry::new(name, value, None);
    black_box(walwright_catalog::conf_literal(value));
    black_box(walwright_catalog::shell_word(value));
}

fn plans() -> Vec<Vec<u8>> {
    samples(&[
        include_str!("../../experiment/src/example.toml"),
        "blocks = 1\n[workload]\nfiles = [\"a.sql@3\"]\n[load]\nclients = 2\nduration = \"1s\"\n\
         rate = 1e3\n[server]\ndsn = \"host=db\"\n[[arm]]\nname = \"a\"\n\
         settings = { work_mem = \"9MB\", jit = false, n = 3.5 }\n\
         ddl = [{ sql = \"CREATE INDEX i ON t (n)\", undo = \"DROP INDEX i\" }]\n\
         [[arm]]\nname = \"b\"\nkernel = { \"vm.swappiness\" = 1 }\n",
    ])
}

fn plan(text: &str) {
    match PlanFile::parse(text) {
        Ok(plan) => {
            let _ = plan.metrics();
            black_box((plan.negligible(), plan.title()));
            let written = plan.to_toml().expect("what was read can be written");
            let again = PlanFile::parse(&written);
            assert!(again.is_ok(), "what was written is not read: {again:?}\n{written}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The beginning of a log: some are long.
macro_rules! logs {
    ($($name:literal),*) => {
        [$(include_str!(concat!("../../results/tests/results/real/", $name))),*]
    };
}

fn client_logs() -> Vec<Vec<u8>> {
    let mut all = samples(&logs!(
        "autocannon.json",
        "autocannon_table.txt",
        "autocannon_timeouts.json",
        "k6.csv",
        "k6_export.json",
        "k6_micro.csv",
        "k6_summary_data.json",
        "locust.txt",
        "locust_failures.csv",
        "locust_full_history.csv",
        "locust_stats.csv",
        "locust_stats_history.csv",
        "pgbench_progress.txt",
        "sysbench.txt",
        "wrk.txt"
    ));
    all.extend(samples(&[
        "0 1 4533 0 1795132800 12345\n1 1 2633 0 1795132800 12945 35\n0 2 skipped 0 1795132801 1\n\
         0 3 failed 0 1795132801 5\n0 4 deadlock 0 1795132802 7 12 3\n",
        "1795132800 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 0 0\n\
         1795132801 5958 28373455 181325419133 1071 17963\n",
        "time,operation,latency_ms,status\n2026-11-21T18:09:51.5Z,buy,3.5,ok\n\
         1795132800123456,sell,4,40001\n\"1795132801\",\"a,b\",NaN,\n",
        "Vuser 1:TEST RESULT : System achieved 17099 NOPM from 39188 PostgreSQL TPM\n\
         >>>>> COMBINED METRICS ACROSS ALL USERS\n>>>>> PROC: PAYMENT\n\
         CALLS: 648402 MIN: 0.833ms AVG: 52.601ms MAX: 1257.365ms\nP99: 413.035ms P95: 9ms\n",
        "Results(state=EXIT, nanoSeconds=60000083167, measuredRequests=201) = 3.349 requests/sec \
         (throughput), 3.299 requests/sec (goodput)\n",
        "Summary:\n  Success rate:\t100.00%\n  Average:\t0.0011 secs\n  Requests/sec:\t4472.2547\n\
         50.00% in 0.0011 secs\n[200] 19970 responses\nError distribution:\n  [5] deadline\n",
        "summary =  10120 in 00:00:13 =  781.2/s Avg:     7 Min:     2 Max:    59 Err:  0 (0.00%)\n",
        "http_req_duration....: avg=759.38ms med=78.24ms max=1m0s p(90)=126.57ms\n\
         http_req_failed......: 0.86% 281 out of 32621\nhttp_reqs......: 32621 62.739816/s\n",
        "timeStamp,elapsed,label,responseCode,responseMessage,success,bytes\n\
         1499876018809,2384,a,200,OK,true,220\n1499876021193,95,b,500,Oops,false,220\n",
        "Transaction Type Index,Transaction Name,Start Time (microseconds),Latency (microseconds)\n\
         4,DeleteEmployee,1722222636.414196,6786\n3,UpdateEmployee,1722222636.421013,1045\n",
        "Time (seconds),Requests,Throughput (requests/second),Average Latency (microseconds)\n\
         0,1780,1780.000,5613\n1,1794,1794.000,5582\n",
    ]));
    all
}

fn client_log(bytes: &[u8]) {
    // As it comes from a command: in pieces, on two streams.
    let mut printed = Printed::new(2);
    for (at, piece) in (0..).zip(bytes.chunks(50)) {
        printed.take(
            usize::from(at % 5 == 0),
            piece,
            Timestamp(1_795_132_800_000_000 + at * 300_000),
        );
    }
    drop(black_box(printed.results("f.log")));
    for format in std::iter::once(None).chain(Format::ALL.map(Some)) {
        match read("f.log", format, bytes) {
            Ok(results) => drop(black_box(results)),
            Err(error) => assert!(error.to_string().contains("f.log"), "no place: {error}"),
        }
    }
}
