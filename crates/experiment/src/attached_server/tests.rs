//! A visit to a real server, disturbed.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, Secret};

use super::super::maintenance::Remarks;
use super::*;

#[test]
fn a_run_of_which_someone_undid_the_changes_does_not_count() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let places = Places::open(Some(place.path().join("cache"))).unwrap();
    let install = Installs::open(None).unwrap().ensure(Major::V18, &mut |_| {}).unwrap();
    let server = Cluster::create(ClusterSpec::new(&places, install)).unwrap().start().unwrap();
    let (socket, port) = (server.socket_dir().display().to_string(), server.port());
    let dsn = Secret::new(format!("host={socket} port={port} user=postgres dbname=postgres"));
    let maintenance = Maintenance {
        dsn,
        restart_command: None,
        init: false,
        replace: Vec::new(),
        remarks: Remarks::default(),
    };
    let lab = Lab::at(Some(place.path().join("lab")));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let (attached, _) = AttachedServer::visit(&lab, &maintenance, "test").await.unwrap();

        let arm = Configuration::of_settings([("work_mem", "9MB")]);
        let set = attached.set(&arm, &Stop::new()).await.unwrap();
        assert_eq!(attached.bring_back(set).await.unwrap(), Vec::<String>::new());

        let set = attached.set(&arm, &Stop::new()).await.unwrap();
        let noted = attached.ledger.set(set.unwrap()).unwrap().unwrap();
        let mut never = Restart::Never;
        let mut hold = attached.hold.lock().await;
        let undone = undo_changes(&attached.ledger, &noted, Some(&mut *hold), &mut never);
        undone.await.unwrap();
        drop(hold);
        let notes = attached.bring_back(set).await.unwrap();
        assert!(notes.len() == 1 && notes[0].contains("someone has undone"), "{notes:?}");
        assert_eq!(maintenance.remarks.of_others(), notes);
    });
    server.stop().unwrap();
}

#[test]
fn what_is_not_the_fault_of_an_arm_ends_the_work() {
    let text = || "x".to_owned();
    let left = not_made(ApplyError::Stuck { id: 1, what: text(), why: text() });
    let stands = not_made(ApplyError::Unfinished { id: 1, purpose: text(), state: text() });
    assert!(left.is_of_the_lab() && stands.is_of_the_lab());
    let notes = vec!["left as it is".to_owned()];
    let refused = not_made(ApplyError::Undone { id: 1, what: text(), notes });
    assert!(!refused.is_of_the_lab());
    assert_eq!(refused.to_string(), "x; left as it is");
}
