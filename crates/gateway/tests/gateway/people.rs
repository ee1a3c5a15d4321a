//! Who is let in, and as whom the server sees them.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use walwright_gateway::{Authentication, Question, Stored, Users, parse_userlist};
use walwright_wire::Secret;

use crate::common::{PASSWORD, Testbed};

async fn as_user(testbed: &Testbed, user: &str, password: &str) -> Result<String, SqlState> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(testbed.port()).user(user).password(password).dbname("postgres");
    let refused = |error: tokio_postgres::Error| error.code().expect("a code").clone();
    let (client, connection) = config.connect(NoTls).await.map_err(refused)?;
    tokio::spawn(async move { connection.await.ok() });
    let row = client.query_one("SELECT current_user::text", &[]).await.map_err(refused)?;
    Ok(row.get(0))
}

#[tokio::test]
async fn a_client_proves_itself_once_and_is_itself_on_the_server() {
    let testbed = Testbed::over_tcp(|_| {});
    let direct = testbed.direct().await;
    direct
        .batch_execute(
            "CREATE ROLE app LOGIN PASSWORD 'open sesame'; CREATE ROLE late LOGIN PASSWORD 'x' \
             VALID UNTIL '2001-01-01'; CREATE ROLE nobody PASSWORD 'x'",
        )
        .await
        .unwrap();
    assert_eq!(as_user(&testbed, "app", "open sesame").await.unwrap(), "app");
    assert_eq!(as_user(&testbed, "postgres", PASSWORD).await.unwrap(), "postgres");
    for (user, password) in
        [("app", "wrong"), ("late", "x"), ("nobody", "x"), ("missing", "x"), ("a'; --", "x")]
    {
        let refused = as_user(&testbed, user, password).await.unwrap_err();
        assert_eq!(refused, SqlState::INVALID_PASSWORD, "{user}");
    }
    direct.batch_execute("ALTER ROLE app PASSWORD 'another'").await.unwrap();
    assert!(as_user(&testbed, "app", "open sesame").await.is_err());
    assert_eq!(as_user(&testbed, "app", "another").await.unwrap(), "app");
    // The gateway itself learns a new password by RELOAD.
    direct.batch_execute("ALTER ROLE postgres PASSWORD 'renewed'").await.unwrap();
    assert!(as_user(&testbed, "app", "another").await.is_err(), "it cannot ask the server");
    testbed.reload(|options| {
        let mut server = (*options.databases[0].server).clone();
        server.addresses[0].password = Some(Secret::new("renewed"));
        options.databases[0].server = Arc::new(server);
    });
    assert_eq!(as_user(&testbed, "app", "another").await.unwrap(), "app");
}

#[tokio::test]
async fn users_of_a_file_need_no_question_to_the_server() {
    let testbed = Testbed::over_tcp(|options| {
        let known = [("app".to_owned(), Stored::Password(Secret::new("open sesame")))].into();
        let users = Users { known, ..Users::default() };
        options.authentication = Authentication::Scram(Arc::new(users));
    });
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE ROLE app LOGIN PASSWORD 'open sesame'").await.unwrap();
    assert_eq!(as_user(&testbed, "app", "open sesame").await.unwrap(), "app");
    assert!(as_user(&testbed, "app", "wrong").await.is_err());
    assert!(as_user(&testbed, "postgres", PASSWORD).await.is_err(), "it is not in the file");
}

/// Lists have an empty password for who needs none, by a certificate for instance. Sessions of
/// one user of the server's would be open to all of them.
#[tokio::test]
async fn an_empty_password_is_none() {
    let testbed = Testbed::over_tcp(|options| {
        let query = Some("SELECT $1, ''".to_owned());
        options.databases[0].forced_user = true;
        options.authentication = Authentication::Scram(Arc::new(Users {
            known: parse_userlist("\"listed\" \"\"").expect("a list"),
            ask_server: true,
            question: Question { query, ..Question::default() },
        }));
    });
    for user in ["listed", "asked"] {
        let refused = as_user(&testbed, user, "").await.unwrap_err();
        assert_eq!(refused, SqlState::INVALID_PASSWORD, "{user}");
    }
}

#[tokio::test]
async fn a_name_is_never_more_than_a_name() {
    let testbed = Testbed::over_tcp(|_| {});
    let direct = testbed.direct().await;
    direct
        .batch_execute(
            "ALTER ROLE postgres SET standard_conforming_strings = off; CREATE TABLE t ()",
        )
        .await
        .unwrap();
    let refused = as_user(&testbed, "\\'; DROP TABLE t; --", "x").await.unwrap_err();
    assert_eq!(refused, SqlState::INVALID_PASSWORD);
    direct.batch_execute("SELECT FROM t").await.unwrap();
}

#[tokio::test]
async fn another_user_of_a_name_does_not_get_the_sessions_of_the_one_before() {
    let testbed = Testbed::over_tcp(|_| {});
    let direct = testbed.direct().await;
    for password in ["open sesame", "another", "a third"] {
        direct
            .batch_execute(&format!("CREATE ROLE app LOGIN PASSWORD '{password}'"))
            .await
            .unwrap();
        assert_eq!(as_user(&testbed, "app", password).await.as_deref(), Ok("app"), "{password}");
        direct.batch_execute("DROP ROLE app").await.unwrap();
    }
}

#[tokio::test]
async fn who_cannot_be_logged_in_at_the_server_is_told_at_once() {
    let testbed = Testbed::over_tcp(|options| {
        options.authentication = Authentication::Trust;
        let mut server = (*options.databases[0].server).clone();
        server.addresses[0].require_auth = "md5".parse().expect("a method");
        options.databases[0].server = Arc::new(server);
    });
    let refused = as_user(&testbed, "postgres", "");
    let refused = tokio::time::timeout(Duration::from_secs(30), refused).await;
    let code = refused.expect("it does not wait for another server").unwrap_err();
    assert_eq!(code, SqlState::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION);
}
