//! The gateway's configuration: imported, checked, read again, and watched at work.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use walwright_wire::{ConnectOptions, Connection, Connector, Host as At, Secret, WireError};

use crate::common::{Host, PASSWORD, Place, finish, signal, until, until_said};

const INI: &str = "\
;; a comment
[databases]
orders = host=127.0.0.1 port=5432 dbname=orders_2026 user=app password='it''s secret' reserve_pool=3
'other db' = host=127.0.0.1 port=5432
* = host=127.0.0.1 port=5432 connect_query='set x to ''hidden'''

[users]
reports = pool_mode=session max_user_connections=4 query_timeout=9

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = 7654
unix_socket_dir =
auth_type = md5
auth_file = users.txt
auth_user = asker
pool_mode = transaction
min_pool_size = 0
server_check_delay = 30.0
pkt_buf = 8192
query_wait_timeout = 2.5
%include more.ini
";
const USERS: &str =
    "\"asker\" \"as:ker\" x\n;\"no\" \"no\"\n\"old\" \"md50123456789abcdef0123456789abcdef\"\n";

#[test]
fn a_configuration_of_pgbouncers_is_converted_and_what_is_lost_is_told() {
    let place = Place::new();
    let ini = place.file("pgbouncer.ini", INI);
    place.file("users.txt", USERS);
    place.file("more.ini", "max_client_conn = 321\n");
    place.run(&["gateway", "import", &ini]).misused(&["line 3", "--output"]);
    let output = place.path("gateway.toml").display().to_string();
    let done = place.run(&["gateway", "import", &ini, "--output", &output]).code(0).says(&[
        "line 3: reserve_pool of orders: ",
        "line 5: connect_query of *: ",
        "line 8: query_timeout of reports: ",
        "line 14: auth_type = md5: ",
        "line 20: pkt_buf: ",
        "hashes let nobody in",
    ]);
    let text = fs::read_to_string(&output).unwrap();
    for unsaid in ["min_pool_size", "server_check_delay", "it's secret", "as:ker", "hidden"] {
        assert!(!text.contains(unsaid) && !done.err().contains(unsaid), "{unsaid}");
    }
    for said in [
        "listen = [\"127.0.0.1:7654\"]",
        "max_clients = 321",
        "query_wait_timeout = \"2500ms\"",
        "mode = \"transaction\"",
        "dbname = \"orders_2026\"",
        "[databases.\"other db\"]",
        "auth_query = \"default\"",
        "# pgbouncer.ini, line 20: pkt_buf: ",
    ] {
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
    for (file, secret) in [
        ("gateway.orders.password", "it's secret\n"),
        ("gateway.pgpass", "*:5432:*:asker:as\\:ker\n"),
    ] {
        let path = place.path(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), secret);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let checked = place.run(&["gateway", "check", &output, "--json"]).code(0).json();
    assert_eq!(checked["databases"].as_array().unwrap().len(), 3, "{checked}");
    place.run(&["gateway", "import", &ini, "--output", &output]).misused(&["is there already"]);

    let bad = place.file("bad.ini", "[pgbouncer]\nlisten_prot = 1\n");
    place.run(&["gateway", "import", &bad]).misused(&["bad.ini, line 2", "write listen_port"]);
    place.run(&["gateway", "import", "missing.ini"]).misused(&["missing.ini"]);
}

#[test]
fn check_tells_what_is_wrong_and_where() {
    let place = Place::new();
    let example = place.run(&["gateway", "check", "--example"]).code(0).out();
    let good = place.file("gateway.toml", &example);
    let done = place.run(&["gateway", "check"]).code(0);
    assert!(done.out().contains("gateway.toml can be served"), "{}", done.out());
    let said = place.run(&["gateway", "check", &good, "--json"]).code(0).json();
    assert_eq!(said["listen"][0], "127.0.0.1:6432");
    assert_eq!(said["tls"], "not offered");
    let server = "server = \"postgres://a@b\"\n";
    for (text, words) in [
        ("[limits]\nquery_timeout = 5", "line 3: 5 has no unit"),
        ("sevrer = 5", "write server"),
        ("[pooling]\nmode = \"sesion\"", "write session"),
        ("[tls]\ncertificate = \"c\"\nkey = \"k\"", "line 3"),
        ("[authentication]\nuserlist = \"u\"", "cannot read"),
        ("[authentication]\nrules = [\"host all all\"]", "rule 1"),
        ("listen = [\"0.0.0.0:1\"]\n[authentication]\ntype = \"trust\"", "line 4: trust"),
        ("[databases.x]\nuser = \"u\"\npassword_file = \"no\"", "line 4"),
    ] {
        let bad = place.file("bad.toml", &format!("{server}{text}"));
        place.run(&["gateway", "check", &bad]).misused(&["bad.toml", words]);
    }
    let bad = place.file("bad.toml", "server = \"postgres://a@b?sslmode=on\"");
    place.run(&["gateway", "check", &bad]).misused(&["bad.toml, line 1", "sslmode"]);
    let bad = place.file("bad.toml", "");
    place.run(&["gateway", "check", &bad]).misused(&["no server is named"]);
    place.run(&["gateway", "check", "missing.toml"]).misused(&["missing.toml"]);
    let nowhere = place.file("nowhere.toml", "server = \"host=/nowhere user=a\"");
    let done = place.run(&["gateway", "check", &nowhere, "--connect", "--json"]).code(1);
    assert!(done.json()["servers"][0]["error"].is_string());
}

fn connected(port: u16, user: &str, password: &str) -> Result<Connection, WireError> {
    let at = At::Tcp("127.0.0.1".to_owned());
    let mut options = ConnectOptions::new(at, port, user, "postgres");
    options.password = Some(Secret::new(password));
    Connector::new(options).and_then(|connector| connector.connect())
}

#[test]
fn sighup_reads_the_files_again_and_top_watches() {
    let (place, host) = (Place::new(), Host::new());
    let people =
        |more: &str| place.file("users.txt", &format!("\"postgres\" \"{PASSWORD}\"\n{more}"));
    let file = |more: &str| {
        let server = host.superuser("postgres");
        let listen = "listen = [\"127.0.0.1:0\"]";
        let text = format!(
            "{listen}\nserver = \"{server}\"\n[authentication]\nuserlist = \"users.txt\"\n{more}"
        );
        place.file("gateway.toml", &text)
    };
    people("");
    let config = file("");
    let log = place.path("log");
    let mut command = place.command(&["gateway", "--config", &config]);
    let gateway = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
    until_said(&log, "Ctrl-C ends it");
    let said = fs::read_to_string(&log).unwrap();
    let port = said.split("listening on 127.0.0.1:").nth(1).unwrap().lines().next().unwrap();
    let port: u16 = port.parse().unwrap();

    host.execute("postgres", "CREATE ROLE late LOGIN PASSWORD 'in time'");
    assert!(connected(port, "late", "in time").is_err(), "nobody knows it yet");
    people("\"late\" \"in time\"\n");
    signal(gateway.id(), libc::SIGHUP);
    until_said(&log, "SIGHUP: the configuration was read again");
    until("the list was read", || connected(port, "late", "in time").is_ok());

    people("");
    file("[limits]\nquery_timeout = 5\n");
    signal(gateway.id(), libc::SIGHUP);
    until_said(&log, "gateway.toml, line 6: 5 has no unit");
    until_said(&log, "all stays as it was");
    let mut client = connected(port, "late", "in time").expect("all stays as it was");
    assert_eq!(client.query("SELECT 1").unwrap()[0][0].as_deref(), Some("1"));

    let dsn = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}");
    let top = ["gateway", "top", &dsn, "--interval", "200ms"];
    let done = place.run(&[&top[..], &["--once"]].concat()).code(0);
    assert!(done.out().contains("transactions/s") && done.out().contains("barriers/s"));
    assert!(!done.out().contains('\x1b') && !done.out().contains(PASSWORD), "{}", done.out());
    let json = place.run(&[&top[..], &["--json"]].concat()).code(0).json();
    assert_eq!(json["pools"][0]["user"], "late", "{json}");
    let watched = place.path("watched");
    let mut endless = place.command(&top);
    let endless = endless.stdout(File::create(&watched).unwrap()).spawn().unwrap();
    until_said(&watched, "transactions/s");
    signal(endless.id(), libc::SIGTERM);
    assert!(finish(endless).exit_code().is_some(), "it ends by itself");
    let stranger = format!("postgres://late:no@127.0.0.1:{port}");
    place.run(&["gateway", "top", &stranger]).refuses(&["console"]);

    drop(client);
    signal(gateway.id(), libc::SIGTERM);
    finish(gateway).code(0);
}
