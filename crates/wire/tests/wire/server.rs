//! Against a real server: logging in, TLS, queries, cancelling, and streams
//! that do not block.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use walwright_wire::backend::{DATA_ROW, READY_FOR_QUERY};
use walwright_wire::{
    BindTemplate, ChannelBinding, Connector, Format, Host, RootCert, Secret, SslMode,
    SslNegotiation, TagSet, Template, Values, WireError, cancel,
};

use crate::common::{PASSWORD, Testbed, connected, encrypted, failure, one};

#[test]
fn every_way_of_logging_in() {
    let testbed = Testbed::new();
    let mut local = connected(&testbed.unix());
    assert!(local.parameter("server_version").expect("reported").starts_with("18"));
    let pid: u32 = one(&mut local, "SELECT pg_backend_pid()").parse().expect("a number");
    assert_eq!(local.backend_process(), Some(pid));
    local
        .query(&format!(
            "SET password_encryption = md5; \
             CREATE ROLE md5_user LOGIN PASSWORD $$secret$$; \
             RESET password_encryption; \
             CREATE ROLE clear_user LOGIN PASSWORD $${PASSWORD}$$; \
             CREATE ROLE encrypted_user LOGIN PASSWORD $${PASSWORD}$$; \
             CREATE ROLE open_user LOGIN PASSWORD $${PASSWORD}$$; \
             CREATE ROLE trusted_user LOGIN"
        ))
        .expect("roles");

    // Passwords.
    let mut md5 = testbed.tcp("md5_user", SslMode::Disable);
    md5.password = Some(Secret::new("secret"));
    assert_eq!(one(&mut connected(&md5), "SELECT current_user"), "md5_user");
    let mut clear = testbed.tcp("clear_user", SslMode::Disable);
    let error = failure(&clear);
    assert!(matches!(error, WireError::Refused(_)), "{error:?}");
    clear.tls.mode = SslMode::Require;
    connected(&clear);
    for mode in [SslMode::Disable, SslMode::Require] {
        clear.tls.mode = mode;
        clear.require_auth = "password".parse().expect("a method");
        connected(&clear);
    }
    let scram = testbed.tcp("postgres", SslMode::Disable);
    assert!(!encrypted(&mut connected(&scram)));
    let mut wrong = scram.clone();
    wrong.password = Some(Secret::new("wrong"));
    assert_eq!(failure(&wrong).server_error().expect("said").code, "28P01");
    wrong.password = None;
    assert!(matches!(failure(&wrong), WireError::PasswordNeeded { .. }));

    // Ways of authentication that are required.
    for (user, asked) in [
        ("clear_user", "server requested a cleartext password"),
        ("md5_user", "server requested a hashed password"),
        ("trusted_user", "server did not complete authentication"),
    ] {
        let mut strict = testbed.tcp(user, SslMode::Require);
        strict.require_auth = "scram-sha-256".parse().expect("a method");
        let expected =
            format!("authentication method requirement \"scram-sha-256\" failed: {asked}");
        assert_eq!(failure(&strict).to_string(), expected);
        strict.require_auth = "!none,!md5,!password".parse().expect("methods");
        assert!(failure(&strict).to_string().ends_with(asked));
        strict.require_auth = Default::default();
        strict.tls.channel_binding = ChannelBinding::Require;
        assert!(failure(&strict).to_string().contains("channel binding required"), "{user}");
    }
    let mut strict = scram.clone();
    strict.require_auth = "scram-sha-256".parse().expect("a method");
    connected(&strict);
    strict.require_auth = "md5,none".parse().expect("methods");
    assert!(failure(&strict).to_string().ends_with("server requested SASL authentication"));
    strict.user = "trusted_user".into();
    connected(&strict);
    let mut unbound = scram.clone();
    unbound.tls.channel_binding = ChannelBinding::Require;
    assert!(failure(&unbound).to_string().contains("SSL not in use"));

    // TLS.
    assert!(!encrypted(&mut connected(&testbed.tcp("postgres", SslMode::Allow))));
    assert!(encrypted(&mut connected(&testbed.tcp("encrypted_user", SslMode::Allow))));
    assert!(!encrypted(&mut connected(&testbed.tcp("open_user", SslMode::Prefer))));
    let mut mistaken = testbed.tcp("open_user", SslMode::Prefer);
    mistaken.password = Some(Secret::new("wrong"));
    assert_eq!(failure(&mistaken).server_error().expect("said").code, "28P01", "of the second way");
    let mut direct = testbed.tcp("postgres", SslMode::Require);
    direct.tls.negotiation = SslNegotiation::Direct;
    direct.tls.channel_binding = ChannelBinding::Require;
    assert!(encrypted(&mut connected(&direct)));
    direct.tls.mode = SslMode::Prefer;
    assert!(failure(&direct).to_string().contains("weak sslmode"));
    for mode in [SslMode::Prefer, SslMode::Require] {
        assert!(encrypted(&mut connected(&testbed.tcp("postgres", mode))));
    }
    let mut full = testbed.tcp("postgres", SslMode::VerifyFull);
    full.tls.roots = testbed.authority();
    full.tls.channel_binding = ChannelBinding::Require;
    assert!(encrypted(&mut connected(&full)));
    let mut elsewhere = full.clone();
    elsewhere.host = Host::Tcp("elsewhere.example".into());
    assert!(matches!(failure(&elsewhere), WireError::Tls(_)));
    elsewhere.tls.mode = SslMode::VerifyCa;
    assert!(encrypted(&mut connected(&elsewhere)));
    full.tls.roots = RootCert::System;
    assert!(matches!(failure(&full), WireError::Tls(_)), "signed by nobody the system knows");
    full.tls.roots = RootCert::None;
    assert!(failure(&full).to_string().contains("need a root certificate"));
    full.tls.roots = RootCert::File("/nonexistent".into());
    assert!(failure(&full).to_string().contains("/nonexistent"));

    // What is refused without TLS works with it, and says so where it cannot be had.
    connected(&testbed.tcp("encrypted_user", SslMode::Prefer));
    let plain = failure(&testbed.tcp("encrypted_user", SslMode::Disable));
    assert_eq!(plain.server_error().expect("said").code, "28000");
    local.query("ALTER SYSTEM SET ssl = off").expect("set");
    local.query("SELECT pg_reload_conf()").expect("reloaded");
    let deadline = Instant::now() + Duration::from_secs(20);
    while encrypted(&mut connected(&testbed.tcp("postgres", SslMode::Prefer))) {
        assert!(Instant::now() < deadline, "the server still offers TLS");
    }
    let error = failure(&testbed.tcp("postgres", SslMode::Require)).to_string();
    assert!(error.contains("does not support TLS"), "{error}");
}

#[test]
fn queries_errors_and_types() {
    let testbed = Testbed::new();
    let mut connection = connected(&testbed.unix());
    let rows = connection.query("SELECT 1, NULL UNION ALL SELECT 2, 'x' ORDER BY 1; SELECT 3");
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(
        rows.expect("rows"),
        [vec![text("1"), None], vec![text("2"), text("x")], vec![text("3")]]
    );
    let error = connection.query("SELECT 1; SELECT 1/0").expect_err("division by zero");
    assert_eq!(error.server_error().expect("said").code, "22012");
    let types = connection.parameter_types("SELECT $1::int4, $2::int8, $3::text");
    assert_eq!(types.expect("types"), [23, 20, 25]);
    assert!(connection.parameter_types("SELECT nonsense").is_err());
    assert_eq!(one(&mut connection, "SELECT 'still fine'"), "still fine");
    let big = one(&mut connection, "SELECT repeat('x', 1000000)");
    assert_eq!(big.len(), 1_000_000);
    connection.query("SELECT pg_terminate_backend(pg_backend_pid())").expect_err("ended");
}

#[test]
fn a_query_is_cancelled_from_outside() {
    let testbed = Testbed::new();
    for options in [testbed.unix(), testbed.tcp("postgres", SslMode::Require)] {
        let connector = Connector::new(options).expect("options");
        let mut sleeper = connector.connect().expect("connected");
        let key = sleeper.cancel_key().expect("given");
        let mut watcher = connected(&testbed.unix());
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(move || sleeper.query("SELECT pg_sleep(600)"));
            let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            while one(&mut watcher, asleep) == "0" {}
            cancel(&connector, &key).expect("asked");
            let error = sleeping.join().expect("no panic").expect_err("cancelled");
            assert_eq!(error.server_error().expect("said").code, "57014");
        });
    }
}

/// One integer.
struct Number(i64);

impl Values for Number {
    fn write_text(&self, _: u32, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.0.to_string().as_bytes());
        true
    }

    fn integer(&self, _: u32) -> Option<i64> {
        Some(self.0)
    }
}

#[test]
fn streams_that_do_not_block_carry_templates_and_large_answers() {
    let testbed = Testbed::new();
    for options in [
        testbed.unix(),
        testbed.tcp("postgres", SslMode::Disable),
        testbed.tcp("postgres", SslMode::Require),
    ] {
        let mut connection = connected(&options);
        connection
            .query(
                "PREPARE p (int4) AS SELECT g, repeat('y', 1000) FROM generate_series(1, $1) AS g",
            )
            .expect("prepared");
        let (mut stream, mut scanner) = connection.into_nonblocking().expect("non-blocking");
        let template = Template::bind_execute(&BindTemplate {
            statement: "p",
            parameters: &[(0, Format::Int4)],
            describe: true,
        })
        .then_sync();
        // More than any socket buffer takes at once, in both directions.
        let mut query = BytesMut::new();
        let sql = format!("SELECT '{}'", "z".repeat(3_000_000));
        frontend::query(&sql, &mut query).expect("no NUL");
        let mut out = query.to_vec();
        template.render(&Number(5000), &mut out).expect("it fits");
        let (mut sent, mut rows, mut ready) = (0, 0, 0);
        let mut blocked = 0_u64;
        let mut buffer = vec![0; 16 * 1024];
        let deadline = Instant::now() + Duration::from_secs(30);
        while ready < 2 {
            assert!(Instant::now() < deadline, "{rows} rows and no end");
            if sent < out.len() || stream.has_unsent() {
                let wrote = if sent < out.len() {
                    stream.write(&out[sent..])
                } else {
                    stream.flush().map(|()| 0)
                };
                match wrote {
                    Ok(count) => sent += count,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            match stream.read(&mut buffer) {
                Ok(0) => panic!("the server closed the connection"),
                Ok(count) => {
                    let mut input = &buffer[..count];
                    while let Some(frame) = scanner.next(&mut input, TagSet::EMPTY).expect("sound")
                    {
                        rows += usize::from(frame.tag == DATA_ROW);
                        ready += usize::from(frame.tag == READY_FOR_QUERY);
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    blocked += 1;
                }
            }
        }
        assert_eq!(rows, 5001);
        assert!(blocked > 0 && scanner.at_boundary());
    }
}

#[test]
fn connections_that_end_leave_nothing_in_the_servers_log() {
    let testbed = Testbed::new();
    for options in [
        testbed.unix(),
        testbed.tcp("postgres", SslMode::Disable),
        testbed.tcp("postgres", SslMode::Require),
    ] {
        let pid =
            |connection: &walwright_wire::Connection| connection.backend_process().expect("told");
        let mut dropped = connected(&options);
        one(&mut dropped, "SELECT 1");
        let (mut terminated, _) = {
            let connection = connected(&options);
            connection.into_nonblocking().expect("taken apart")
        };
        terminated.terminate();
        let bare = connected(&options);
        let processes = [pid(&dropped), pid(&bare)];
        drop((dropped, terminated, bare.into_stream()));
        let mut watcher = connected(&testbed.unix());
        for process in processes {
            let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {process}");
            let deadline = Instant::now() + Duration::from_secs(20);
            while one(&mut watcher, &sql) != "0" {
                assert!(Instant::now() < deadline, "the server has not noticed");
            }
        }
    }
    let log = testbed.log();
    for words in ["unexpected eof", "unexpected EOF", "could not receive data"] {
        assert!(!log.contains(words), "{log}");
    }
}

#[test]
fn an_answer_that_takes_too_long_or_is_too_much_is_given_up() {
    let testbed = Testbed::new();
    for options in [testbed.unix(), testbed.tcp("postgres", SslMode::Require)] {
        let mut connection = connected(&options);
        connection.set_time_limit(Some(Duration::from_millis(200)));
        let error = connection.query("SELECT pg_sleep(600)").expect_err("too long");
        assert!(matches!(error, WireError::Timeout { .. }), "{error:?}");
        // Rows that come all the time are no excuse.
        let mut connection = connected(&options);
        connection.set_time_limit(Some(Duration::from_millis(500)));
        let trickle = "SELECT repeat('x', 9000), pg_sleep(0.01) FROM generate_series(1, 100000)";
        let error = connection.query(trickle).expect_err("too long");
        assert!(matches!(error, WireError::Timeout { .. }), "{error:?}");
        assert!(connection.query("SELECT 1").is_err(), "the old answer is still to come");
    }
    let mut connection = connected(&testbed.unix());
    let much = "SELECT repeat('x', 1000000) FROM generate_series(1, 80)";
    let error = connection.query(much).expect_err("too much");
    assert!(matches!(error, WireError::TooMuch { .. }), "{error:?}");
}
