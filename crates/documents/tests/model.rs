//! Random requests of many clients against a model, while the service and its server are killed.

mod common;
#[path = "common/model.rs"]
mod model;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{Database, Served};
use model::{CHECKS, Modelled, Shared};
use walwright_documents::Options;

const CLIENTS: u64 = 16;
const STEPS: u64 = 150;
const KILLS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_answer_is_one_that_cannot_be_whatever_is_killed() {
    let database = Database::new(&[]).await;
    let options = Options::default();
    let mut served = database.serve(&options).await;
    let address = served.address;
    Modelled::make_counter(address).await;
    let shared = Arc::new(Shared::default());
    let clients = (0..CLIENTS).map(|number| {
        let mut client = Modelled::new(number, address, &shared);
        tokio::spawn(async move {
            for _ in 0..STEPS {
                client.step().await;
            }
            client
        })
    });
    let clients: Vec<_> = clients.collect();
    for kill in 1..=KILLS {
        let due = CLIENTS * STEPS * kill / (KILLS + 1);
        while shared.sent.load(Ordering::Relaxed) < due {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            if clients.iter().all(tokio::task::JoinHandle::is_finished) {
                break;
            }
        }
        if kill % 2 == 0 {
            database.crash().await;
            drop(database.session().await);
        } else {
            served.kill().await;
            database.settled().await;
            served = Served::at(address, database.store(&options).await, &options).await;
        }
    }
    let mut ended = Vec::new();
    for client in clients {
        ended.push(client.await.expect("an answer that cannot be"));
    }
    let session = database.session().await;
    for client in &mut ended {
        client.end(&session).await;
    }
    for check in CHECKS {
        let wrong: i64 = session.query_one(check, &[]).await.expect(check).get(0);
        assert_eq!(wrong, 0, "{check}");
    }
    let sent = shared.sent.load(Ordering::Relaxed);
    let unknown = shared.unknown.load(Ordering::Relaxed);
    assert!(sent >= CLIENTS * STEPS && unknown < sent / 2, "{unknown} of {sent} unknown");
    served.end().await;
}
