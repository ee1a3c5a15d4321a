//! What a session of walwright's own does with a server that answers late.

use std::time::Duration;

use walwright_server::{Cluster, ClusterSpec, Major, QueryError, connect};

use crate::common::{install, open_dir, places, runtime};

#[test]
fn a_server_that_is_late_once_is_asked_again_and_twice_is_given_up() {
    let base = open_dir();
    let spec = ClusterSpec::new(&places(base.path()), install(Major::V18));
    let server = Cluster::create(spec).and_then(|cluster| cluster.start()).expect("started");
    let limit = Duration::from_secs(1);
    runtime().block_on(async {
        let client = connect(&server.connect_params("postgres")).await.expect("connected");
        let client = client.with_limit(Some(limit));
        let late = async || client.query("SELECT pg_sleep(600)", &[]).await.map(drop).unwrap_err();
        let error = late().await;
        assert!(matches!(error, QueryError::Late { .. }), "{error}");
        assert!(error.to_string().contains("no answer within 1 s to: SELECT pg_sleep"), "{error}");
        // What was late has been cancelled, and the session is as good as before.
        let row = client.query_one("SELECT 1", &[]).await.expect("answered");
        assert_eq!(row.get::<i32>(0).expect("a number"), 1);
        assert!(matches!(late().await, QueryError::Late { .. }));
        let error = client.query("SELECT 1", &[]).await.map(drop).unwrap_err();
        assert!(matches!(error, QueryError::Lost(_)), "{error}");
        assert!(error.to_string().contains("it did not answer within 1 s"), "{error}");
    });
}
