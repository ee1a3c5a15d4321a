//! A service on a server with the workload's data, and a client of it.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::{Config, NoTls};
use walwright_documents::{Options, Pool, Service, Store};
use walwright_run::{LoadOptions, RunPlan, ServerAddress, Silent, TargetPlan, WorkloadPlan};
use walwright_server::{
    Cluster, ClusterSpec, Installs, Major, Places, RunningCluster, Secret, Stop,
};

/// A server with the tables of the workload.
pub struct Database {
    server: RunningCluster,
}

impl Database {
    /// Made with these options of the workload.
    pub async fn new(options: &[(&str, &str)]) -> Database {
        let server = tokio::task::spawn_blocking(|| {
            let places = Places::open(None).expect("places");
            let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {});
            let mut spec = ClusterSpec::new(&places, install.expect("an install"));
            spec.settings = vec![("fsync".to_owned(), "off".to_owned())];
            Cluster::create(spec).and_then(|cluster| cluster.start()).expect("a server")
        });
        let server = server.await.expect("no panic");
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let plan = RunPlan {
            target: TargetPlan::Attached {
                server: ServerAddress::Dsn(Secret::new("")),
                init: true,
                replace: Vec::new(),
                window: None,
            },
            workload: WorkloadPlan {
                name: Some("documents".to_owned()),
                scale: Some(1),
                options: options.iter().map(owned).collect(),
                ..WorkloadPlan::default()
            },
            load: LoadOptions::default().choice(),
            load_jobs: None,
            storage_dir: None,
            probe: None,
            label: None,
            command: String::new(),
        };
        let observer: Arc<walwright_run::Observer> = Arc::new(Silent);
        let params = server.connect_params("postgres");
        walwright_run::fill(&plan, &params, &[], &Stop::new(), &observer).await.expect("data");
        Database { server }
    }

    /// How it is reached.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(self.server.socket_dir()).port(self.server.port());
        config.user("postgres").dbname("postgres");
        config
    }

    /// A session beside the service.
    pub async fn session(&self) -> tokio_postgres::Client {
        loop {
            // It may be in its recovery.
            if let Ok((client, connection)) = self.config().connect(NoTls).await {
                tokio::spawn(connection);
                return client;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Documents in it.
    pub async fn store(&self, options: &Options) -> Store {
        let pool = Pool::new(self.config(), NoTls, options.pool.clone());
        Store::open(pool, options).await.expect("the tables")
    }

    /// A service of it.
    pub async fn serve(&self, options: &Options) -> Served {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Served::at(address, self.store(options).await, options).await
    }

    /// Waits until a service that was killed has no session left, in which something could
    /// still be committed.
    pub async fn settled(&self) {
        let left =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walwright documents'";
        let session = self.session().await;
        while session.query_one(left, &[]).await.expect("an answer").get::<_, i64>(0) > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Kills one of its sessions' processes, at which the server ends all and recovers.
    pub async fn crash(&self) {
        let session = self.session().await;
        let Ok(row) = session.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await else {
            return;
        };
        let pid: i32 = row.get(0);
        // SAFETY: kill takes no pointers; the process is one of our own server.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// A service that serves.
pub struct Served {
    pub address: SocketAddr,
    task: JoinHandle<()>,
    stop: Stop,
}

impl Served {
    pub async fn at(address: SocketAddr, store: Store, options: &Options) -> Served {
        let service = Service::bind(address, store, options.clone()).await.expect("an address");
        let address = service.address().expect("an address");
        let stop = Stop::new();
        let asked = stop.clone();
        let task = tokio::spawn(async move {
            service.serve(asked.requested(), Duration::from_secs(20)).await;
        });
        Served { address, task, stop }
    }

    /// Cuts it off in the middle of whatever it does.
    pub async fn kill(self) {
        self.task.abort();
        _ = self.task.await;
    }

    /// Asks it to end, and waits for that.
    pub async fn end(self) {
        self.stop.request();
        self.task.await.expect("no panic");
    }
}
