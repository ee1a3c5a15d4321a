//! Sessions with a server over TLS, as libpq's parameters ask for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use walwright_coalesce::Options;
use walwright_ingest::{Destination, Mapping, Server};
use walwright_server::{
    Cluster, ClusterSpec, ConnectParams, Installs, Major, Places, RunningCluster, Secret, TcpAccess,
};

const PASSWORD: &str = "written and read";

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("key")).expect("signed")
}

/// A server that takes TLS, and nothing else but for role `plain`, with a table events(id).
fn serving(places: &Places, authority: &CertifiedIssuer<'static, KeyPair>) -> RunningCluster {
    let installs = Installs::open(None).expect("installs");
    let install = installs.ensure(Major::V18, &mut |_| {}).expect("an install");
    let mut spec = ClusterSpec::new(places, install);
    spec.tcp = Some(TcpAccess { port: None, password: Secret::new(PASSWORD) });
    spec.settings = [("ssl", "on"), ("ssl_cert_file", "own.crt"), ("ssl_key_file", "own.key")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let cluster = Cluster::create(spec).expect("made");
    let key = KeyPair::generate().expect("key");
    let names = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("params");
    let own = names.signed_by(&key, authority).expect("signed");
    for (name, text) in [
        ("own.crt", own.pem()),
        ("own.key", key.serialize_pem()),
        ("pg_hba.conf", "local all all trust\nhostssl all all all scram-sha-256\n".to_owned()),
    ] {
        let path = cluster.data_dir().join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("private");
        cluster.user().own(&path).expect("the server's");
    }
    cluster.start().expect("started")
}

#[test]
fn rows_go_over_tls_that_is_checked() {
    let base = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let places = Places::open(Some(base.path().join("cache"))).expect("places");
    let (ours, other) = (authority(), authority());
    let server = serving(&places, &ours);
    let root = |name: &str, of: &CertifiedIssuer<'static, KeyPair>| {
        let path = base.path().join(name);
        fs::write(&path, of.pem()).expect("written");
        path.display().to_string()
    };
    let (ours, other) = (root("ours.crt", &ours), root("other.crt", &other));
    let to = |rest: &str| {
        let dsn = format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres password='{PASSWORD}' {rest}",
            server.port()
        );
        Server::of(&ConnectParams::resolve_hosts(&dsn, None).expect("parameters"))
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let checked = format!("sslmode=verify-full channel_binding=require sslrootcert={ours}");
        let checked = to(&checked).expect("a server");
        let client = checked.connect().await.expect("connected");
        client.batch_execute("CREATE TABLE events (id bigint)").await.expect("made");
        let events =
            Destination::connect(&checked, "events", &Mapping::default(), Options::default())
                .await
                .expect("a destination");
        let sessions = "SELECT count(*), count(*) FILTER (WHERE ssl)
                        FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                        WHERE backend_type = 'client backend'";
        let row = client.query_one(sessions, &[]).await.expect("a row");
        let (all, encrypted): (i64, i64) = (row.get(0), row.get(1));
        assert!(all >= 2, "this session, and those that write: {all}");
        assert_eq!(all, encrypted);
        drop(events);

        for (rest, words) in [
            (format!("sslmode=verify-full sslrootcert={other}"), "certificate"),
            ("sslmode=disable".to_owned(), "no encryption"),
        ] {
            let refused = to(&rest).expect("a server").connect().await.expect_err("no way in");
            let text = refused.to_string();
            assert!(text.contains(words) && !text.contains(PASSWORD), "{text}");
        }
    });
    server.stop().expect("stopped");
}
