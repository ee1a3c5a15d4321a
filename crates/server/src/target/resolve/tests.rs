use std::os::unix::fs::PermissionsExt;

use walwright_wire::ChannelBinding;

use super::*;

fn around(env: &[(&str, &str)]) -> Surroundings {
    Surroundings {
        env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        home: None,
        os_user: Some("me".to_owned()),
        socket_dirs: Vec::new(),
    }
}

fn resolve(dsn: &str, env: &[(&str, &str)]) -> Result<ConnectParams, TargetError> {
    ConnectParams::resolve_in(Some(dsn), &around(env))
}

#[test]
fn nothing_given_means_the_local_server() {
    let params = resolve("", &[]).expect("defaults");
    assert_eq!(params.host, Host::Tcp("localhost".into()));
    assert_eq!((params.port, params.user(), params.dbname()), (5432, "me", "me"));
    assert_eq!(params.application_name(), "walwright");
    assert_eq!(params.ssl_mode(), SslMode::Prefer);

    let dir = tempfile::tempdir().expect("temp dir");
    std::fs::write(dir.path().join(".s.PGSQL.5432"), "").expect("write");
    let mut with_socket = around(&[]);
    with_socket.socket_dirs = vec!["/nonexistent".into(), dir.path().to_owned()];
    let params = ConnectParams::resolve_in(None, &with_socket).expect("defaults");
    assert_eq!(params.host, Host::Unix(dir.path().to_owned()));
}

#[test]
fn the_string_wins_over_the_environment() {
    let env = [
        ("PGHOST", "envhost"),
        ("PGPORT", "6000"),
        ("PGUSER", "envuser"),
        ("PGPASSWORD", "envpass"),
        ("PGDATABASE", "envdb"),
        ("PGSSLMODE", "verify-full"),
        ("PGAPPNAME", "app"),
        ("PGCONNECT_TIMEOUT", "7"),
        ("PGCHANNELBINDING", "require"),
        ("PGOPTIONS", "-c a=b"),
    ];
    let params = resolve("host=h user=u", &env).expect("valid");
    assert_eq!(params.host, Host::Tcp("h".into()));
    assert_eq!((params.port, params.user(), params.dbname()), (6000, "u", "envdb"));
    assert_eq!(params.password().map(Secret::expose), Some("envpass"));
    assert_eq!(params.ssl_mode(), SslMode::VerifyFull);
    assert_eq!(params.channel_binding(), ChannelBinding::Require);
    assert_eq!(params.application_name(), "app");
    assert_eq!(params.connect_timeout(), Some(Duration::from_secs(7)));
    assert_eq!(params.options(), Some("-c a=b"));
    assert!(!format!("{params:?} {params}").contains("envpass"));

    let uri = resolve("postgres://u:p%40@[::1]:7/db?sslmode=disable", &env).expect("valid");
    assert_eq!(uri.password().map(Secret::expose), Some("p@"));
    assert_eq!(uri.address(), "database \"db\" as \"u\" at [::1]:7");
}

#[test]
fn a_connect_timeout_of_zero_is_no_limit() {
    let limit = |dsn: &str| resolve(dsn, &[]).expect("valid").connect_timeout();
    assert_eq!(limit("host=h user=u"), Some(Duration::from_secs(15)));
    assert_eq!(limit("host=h user=u connect_timeout=0"), None);
    assert_eq!(limit("host=h user=u connect_timeout=-1"), None);
    assert_eq!(limit("host=h user=u connect_timeout=3"), Some(Duration::from_secs(3)));
}

#[test]
fn options_are_appended() {
    let params = resolve("host=h user=u", &[]).expect("valid").with_options("-c jit=off");
    assert_eq!(params.options(), Some("-c jit=off"));
    let params = params.with_options("-c a=b");
    assert_eq!(params.options(), Some("-c jit=off -c a=b"));
}

#[test]
fn what_would_not_be_honoured_is_refused() {
    for dsn in [
        "sslcrl=/x",
        "require_auth=scram",
        "require_auth=md5,!password",
        "sslnegotiation=direct",
        "sslnegotiation=direct sslmode=prefer",
        "sslnegotiation=sometimes",
        "sslcertmode=require",
        "sslcertmode=maybe",
        "ssl_min_protocol_version=TLSv1.3",
        "min_protocol_version=3.2",
        "oauth_issuer=x",
        "target_session_attrs=read-write",
        "gssencmode=require",
        "host=a,b",
        "port=1,2",
        "port=0",
        "port=70000",
        "hostaddr=name",
        "sslmode=yes",
        "host=@abstract",
        "dbname='host=x'",
        "connect_timeout=soon",
        "sslrootcert=system sslmode=require",
        "service=none",
    ] {
        resolve(dsn, &[]).expect_err(dsn);
    }
    assert!(resolve("target_session_attrs=any gssencmode=prefer", &[]).is_ok());
    assert!(resolve("ssl_min_protocol_version=TLSv1.2 max_protocol_version=latest", &[]).is_ok());
    resolve("host=/run/pg", &[("PGREQUIREPEER", "postgres")]).expect_err("a promise");
    let params = resolve("keepalives_idle=5", &[]).expect("harmless");
    assert!(params.warnings()[0].contains("keepalives_idle"));
    assert_eq!(resolve("hots=x", &[]), Err(TargetError::Unknown(Some("hots".into()))));
    let error = resolve("password=a hunter=2", &[]).expect_err("unknown");
    assert!(!error.to_string().contains("hunter"), "it may be a part of the password");
}

#[test]
fn the_files_in_the_home_directory_are_read() {
    let home = tempfile::tempdir().expect("temp dir");
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("mkdir");
        std::fs::write(&path, text).expect("write");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
        path
    };
    write(".pgpass", "localhost:5432:db:u:from-socket\nsvc:6:*:u:from-file\n");
    write(".pg_service.conf", "[prod]\nhost=svc\nport=6\nuser=u\nsslmode=require\n");
    let root = write(".postgresql/root.crt", "");
    let mut around = around(&[("PGSERVICE", "prod"), ("PGHOST", "ignored")]);
    around.home = Some(home.path().to_owned());
    around.socket_dirs = vec!["/run/pg".into()];

    let params = ConnectParams::resolve_in(Some("dbname=x"), &around).expect("valid");
    assert_eq!(params.host, Host::Tcp("svc".into()), "a service wins over the environment");
    assert_eq!(params.password().map(Secret::expose), Some("from-file"));
    assert_eq!(params.ssl_mode(), SslMode::Require);
    assert_eq!(params.root_cert(), &RootCert::File(root));

    around.env.clear();
    let by_socket = "host=/run/pg user=u dbname=db";
    let params = ConnectParams::resolve_in(Some(by_socket), &around).expect("valid");
    assert_eq!(params.password().map(Secret::expose), Some("from-socket"));
    assert_eq!(params.socket_path(), Some("/run/pg/.s.PGSQL.5432".into()));
}

#[test]
fn how_the_server_may_prove_itself_is_taken_from_string_and_environment() {
    let params = resolve("require_auth=scram-sha-256,md5", &[]).expect("valid");
    assert_eq!(params.require_auth().to_string(), "scram-sha-256,md5");
    let params = resolve("", &[("PGREQUIREAUTH", "!password")]).expect("valid");
    assert_eq!(params.wire_options().require_auth.to_string(), "!password");
    let error = resolve("require_auth=scram", &[]).expect_err("no method").to_string();
    assert!(error.contains("\"scram\" is no authentication method"), "{error}");
}

#[test]
fn the_way_tls_begins_and_whom_it_trusts_allow_no_weaker_mode() {
    let params = resolve("sslnegotiation=direct sslmode=require", &[]).expect("valid");
    assert_eq!(params.wire_options().tls.negotiation, SslNegotiation::Direct);
    let params = resolve("sslnegotiation=direct sslrootcert=system", &[]).expect("valid");
    assert_eq!(params.ssl_mode(), SslMode::VerifyFull);
    let env = [("PGSSLNEGOTIATION", "direct"), ("PGSSLMODE", "allow")];
    for (dsn, env, words) in [
        ("", &env[..], "\"allow\" may not be used with sslnegotiation=direct"),
        ("sslnegotiation=direct", &[], "\"prefer\" may not be used with sslnegotiation=direct"),
        (
            "sslrootcert=system sslmode=verify-ca",
            &[],
            "\"verify-ca\" may not be used with sslrootcert=system",
        ),
    ] {
        let error = resolve(dsn, env).expect_err(dsn).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_client_certificate_may_be_kept_back() {
    let params = resolve("sslcert=/c sslkey=/k sslmode=require", &[]).expect("valid");
    assert_eq!(params.wire_options().tls.certificate, Some("/c".into()));
    let params = resolve("sslcert=/c sslkey=/k sslcertmode=disable", &[]).expect("valid");
    assert_eq!(params.wire_options().tls.certificate, None);
}
