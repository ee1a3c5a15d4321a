//! Random requests of many clients against a model, while the service and its server are killed.

mod common;

use std::sync::Arc;

use common::{Database, Served};
use walwright_documents::{Isolation, Options};
use walwright_testing::documents::{CHECKS, Modelled, Shared, check_shared};

const CLIENTS: u64 = 16;
const STEPS: u64 = 150;
const KILLS: u64 = 6;
/// Of their requests, those that clients leave in the middle.
const LEAVES: f64 = 0.02;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_answer_is_one_that_cannot_be_whatever_is_killed() {
    let database = Database::new(&[]).await;
    // Each service isolates its transactions otherwise.
    let levels = [Isolation::RepeatableRead, Isolation::Serializable, Isolation::ReadCommitted];
    let mut levels = levels.into_iter().cycle();
    let mut options =
        || Options { isolation: levels.next().expect("a cycle"), ..Options::default() };
    let mut served = database.serve(&options()).await;
    let address = served.address;
    Modelled::make_counter(address).await.expect("a counter");
    let shared = Arc::new(Shared::default());
    let clients = (0..CLIENTS).map(|number| {
        let mut client = Modelled::new(number, CLIENTS, LEAVES, 1, address, &shared);
        tokio::spawn(async move {
            for _ in 0..STEPS {
                client.step().await.expect("an answer that can be");
            }
            client
        })
    });
    let clients: Vec<_> = clients.collect();
    for kill in 1..=KILLS {
        let due = CLIENTS * STEPS * kill / (KILLS + 1);
        while shared.sent() < due {
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
            shared.settled();
            let options = options();
            served = Served::at(address, database.store(&options).await, &options).await;
        }
    }
    let mut ended = Vec::new();
    for client in clients {
        ended.push(client.await.expect("no panic"));
    }
    served.end().await;
    database.settled().await;
    let options = options();
    let served = Served::at(address, database.store(&options).await, &options).await;
    let session = database.session().await;
    for client in &mut ended {
        client.end(&session).await.expect("a state that can be");
    }
    for check in CHECKS {
        let wrong: i64 = session.query_one(check, &[]).await.expect(check).get(0);
        assert_eq!(wrong, 0, "{check}");
    }
    let shared_ones = check_shared(&session).await.expect("an answer");
    shared_ones.expect("references that can be");
    let (sent, unknown) = (shared.sent(), shared.unknown());
    assert!(sent >= CLIENTS * STEPS / 2 && unknown < sent / 2, "{:?}", shared.counts());
    served.end().await;
}
