//! What tests of changes to a server share: a server, a lab, and a machine made of files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use walwright_catalog::Profile;
use walwright_config::{
    ApplyError, ApplyPlan, Hold, MachineView, Made, Restart, ServerView, make_changes, undo_changes,
};
use walwright_server::{
    Cluster, ClusterSpec, ConnectParams, Installs, Major, Places, RunningCluster, Stop,
};
use walwright_store::Lab;
use walwright_store::ledger::{Intent, Ledger};

/// A server, a lab and a machine of files.
pub struct Testbed {
    pub runtime: Runtime,
    // Taken out while it restarts.
    pub server: Arc<Mutex<Option<RunningCluster>>>,
    pub params: ConnectParams,
    pub data: PathBuf,
    place: TempDir,
}

impl Testbed {
    pub fn new(major: Major) -> Testbed {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a real disk");
        fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let places = Places::open(Some(place.path().join("cache"))).expect("places");
        let install = Installs::open(None)
            .and_then(|installs| installs.ensure(major, &mut |_| {}))
            .expect("an install");
        let spec = ClusterSpec::new(&places, install);
        let server = Cluster::create(spec).and_then(|cluster| cluster.start()).expect("a server");
        let testbed = Testbed {
            runtime: Runtime::new().expect("a runtime"),
            params: server.connect_params("postgres"),
            data: server.data_dir(),
            server: Arc::new(Mutex::new(Some(server))),
            place,
        };
        for (file, text) in [
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/kernel/sem", "500\t64000\t100\t128\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        ] {
            let path = testbed.root().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
            fs::write(path, text).expect("write");
        }
        testbed
    }

    pub fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    pub fn kernel(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).expect("read").trim().to_owned()
    }

    pub fn ledger(&self) -> Ledger {
        Ledger::of(&Lab::at(Some(self.place.path().join("lab"))))
    }

    pub fn auto(&self) -> String {
        fs::read_to_string(self.data.join("postgresql.auto.conf")).expect("read")
    }

    pub fn execute(&self, sql: &str) {
        self.runtime.block_on(async {
            let client =
                walwright_server::connect_for_workload(&self.params).await.expect("connect");
            client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
    }

    pub fn ask(&self, sql: &str) -> String {
        self.runtime.block_on(async {
            let client =
                walwright_server::connect_for_workload(&self.params).await.expect("connect");
            let row = client.query_one(sql, &[]).await;
            row.unwrap_or_else(|error| panic!("{sql}: {error}")).get(0).unwrap()
        })
    }

    pub fn view(&self) -> ServerView {
        self.runtime.block_on(async {
            let client =
                walwright_server::connect_for_workload(&self.params).await.expect("connect");
            ServerView::of(&client, &self.params).await.expect("a view")
        })
    }

    pub fn plan(&self, text: &str) -> ApplyPlan {
        let profile = Profile::from_config_env(text.as_bytes()).expect("a profile");
        ApplyPlan::of(&profile, Some(&self.view()), Some(&MachineView::at(&self.root())))
    }

    pub fn intent(&self, text: &str) -> Intent {
        self.plan(text).intent("test", Some(&self.view()), &self.root())
    }

    pub fn apply(&self, text: &str, restart: &mut Restart) -> Result<Made, ApplyError> {
        let intent = self.intent(text);
        let (ledger, stop, mut hold) = (self.ledger(), Stop::new(), self.hold());
        self.runtime.block_on(make_changes(&ledger, Some(&mut hold), intent, restart, &stop))
    }

    pub fn hold(&self) -> Hold {
        Hold::of(&self.params)
    }

    pub fn roll_back(&self, id: u64, restart: &mut Restart) -> walwright_config::Undone {
        let (ledger, mut hold) = (self.ledger(), self.hold());
        let set = ledger.set(id).expect("a ledger").expect("a set");
        let undone = undo_changes(&ledger, &set, Some(&mut hold), restart);
        self.runtime.block_on(undone).expect("undone")
    }

    /// Restarts the server as its owner does.
    pub fn owner(&self) -> Restart {
        let server = Arc::clone(&self.server);
        Restart::With(Box::new(move || {
            let mut place = server.lock().map_err(|_| "a test failed".to_owned())?;
            let running = place.take().ok_or("it does not run")?;
            let cluster = running.cluster().clone();
            running.stop().map_err(|error| error.to_string())?;
            *place = Some(cluster.start().map_err(|error| error.to_string())?);
            Ok(())
        }))
    }
}
