//! A run whose load is made by programs of others: an application, and a load tool in front
//! of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use walwright_driver::HttpServer;
use walwright_figures::Summary;
use walwright_http::{PageAddress, connect};
use walwright_probe::{LoadParts, ProcessName};
use walwright_record::RunState;
use walwright_server::{ConnectParams, Stop};
use walwright_store::Lab;

use super::target::Target;
use super::{
    Finished, LoadChoice, RunError, RunPlan, TargetPlan, WorkloadPlan, blocking, load_data, run,
};
use crate::attach::child::{Child, CommandEnd, find_program};
use crate::{
    CommandPlan, LogChoice, Observer, PoolWaitPlan, Printing, ProbePlan, Progress, RecordPlan,
    ServerAddress, Until,
};

/// The programs of a study, and what their command lines leave open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyPlan {
    /// What stands between the load and the server.
    pub application: Option<ApplicationPlan>,
    /// What makes the load.
    pub load: StudyLoad,
    /// Values for `{name}` in command lines, environment and addresses.
    pub parameters: BTreeMap<String, String>,
    /// Texts of files by their names, which lie in `{files}`.
    pub files: BTreeMap<String, String>,
    /// Program and first arguments of the guard: see [`CommandPlan::guard`].
    pub guard: Vec<OsString>,
}

/// What makes the load of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StudyLoad {
    /// A tool.
    Tool {
        /// Program and arguments.
        command: Vec<String>,
        /// Files that hold its results, as patterns in `{files}`; without any, what it prints
        /// does.
        results: Vec<String>,
    },
    /// walwright's own clients, which ask the application by HTTP.
    Http {
        /// Its address, such as `http://127.0.0.1:{port}`.
        server: String,
        /// Files of requests, each `path` or `path@weight`.
        requests: Vec<String>,
    },
}

impl StudyLoad {
    /// All that may name a value.
    fn texts(&self) -> impl Iterator<Item = &String> {
        let (words, more) = match self {
            StudyLoad::Tool { command, results } => (command, results.as_slice()),
            StudyLoad::Http { server, requests } => (requests, std::slice::from_ref(server)),
        };
        words.iter().chain(more)
    }
}

impl StudyPlan {
    /// Checks what shows before anything is started.
    ///
    /// # Errors
    /// When a program is not there, a command line names a value that there is none of, or a
    /// value is named by none.
    pub fn check(&self) -> Result<(), RunError> {
        let mut texts: Vec<&String> = self.load.texts().collect();
        let mut programs = Vec::new();
        if let StudyLoad::Tool { command, .. } = &self.load {
            programs.push(command);
        }
        if let Some(of) = &self.application {
            texts.extend(of.command.iter().chain(of.environment.values()).chain(&of.ready));
            texts.extend(of.pool_wait.iter().map(|(metrics, _)| metrics));
            programs.push(&of.command);
        }
        let values = self.values("", 0, 0, Duration::ZERO, Path::new(""));
        let is_plain = |name: &str| {
            !name.is_empty() && !name.contains(['/', '\\', '\0']) && !name.starts_with('.')
        };
        if let Some(name) = self.files.keys().find(|name| !is_plain(name)) {
            return Err(RunError::StudyFile { name: name.clone() });
        }
        for text in &texts {
            filled(text, &values)?;
        }
        let used = |name: &str| texts.iter().any(|text| text.contains(&format!("{{{name}}}")));
        if let Some(name) = self.parameters.keys().find(|name| !used(name)) {
            return Err(RunError::ParameterUnused { name: name.clone() });
        }
        for program in programs {
            let words = program.iter().map(|word| Ok(filled(word, &values)?.into()));
            let words = words.collect::<Result<Vec<OsString>, RunError>>()?;
            find_program(&CommandPlan::of(words, Vec::new()))?;
        }
        Ok(())
    }

    /// What stands for each name.
    fn values(
        &self,
        url: &str,
        port: u16,
        seed: u64,
        length: Duration,
        files: &Path,
    ) -> BTreeMap<String, String> {
        let mut values = self.parameters.clone();
        values.insert("files".to_owned(), files.display().to_string());
        values.insert("url".to_owned(), url.to_owned());
        values.insert("port".to_owned(), port.to_string());
        values.insert("seed".to_owned(), seed.to_string());
        values.insert("seconds".to_owned(), length.as_secs().to_string());
        // So that a plan can start what comes with walwright, wherever it is installed.
        if let Some(own) = self.guard.first() {
            values.insert("walwright".to_owned(), own.to_string_lossy().into_owned());
        }
        values
    }
}

/// An application that is started for each run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationPlan {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// The address that answers once it is ready: `http://…`, by any status below 500, or
    /// `host:port`, by a connection.
    pub ready: Option<String>,
    /// How long that may take.
    pub ready_within: Duration,
    /// Where it tells how long requests wait for its pool: address of the metrics, and the name of
    /// the histogram there.
    pub pool_wait: Option<(String, String)>,
}

/// Time between two looks whether an application is ready.
const LOOK: Duration = Duration::from_millis(50);
/// How long one such look may take.
const ONE_LOOK: Duration = Duration::from_secs(1);
/// How much later than the failure of its load an application's death may be heard of: what it
/// leaves behind is ended first.
const LAST_NEWS: Duration = Duration::from_secs(3);
/// Lines of a program's output that are told where it fails.
const LAST_LINES: usize = 8;
/// Ticks of wait events a second where the plan does not say.
const WAITS_HZ: u32 = 10;

/// Makes the data of a run as planned, starts the application, and records while the load
/// tool runs.
///
/// # Errors
/// When the server, the application or the load tool cannot be started, is not ready in time
/// or fails: with the last lines that it printed.
pub async fn study(
    lab: &Lab,
    plan: RunPlan,
    study: StudyPlan,
    stop: Stop,
    observer: Arc<Observer>,
) -> Result<Finished, RunError> {
    let workload = plan.workload()?;
    let job = plan.job(&workload)?;
    let (of, told) = (plan.target.clone(), Arc::clone(&observer));
    let clients = plan.load.clients.unwrap_or(workload.defaults.clients);
    let target = blocking(move || Target::prepare(&of, clients, told.as_ref())).await??;
    let data = async {
        let client = target.statements().connect().await?;
        match plan.restored() {
            Some(restored) => load_data::change(&restored.changes, &client).await?,
            None => {
                load_data::load(&job, target.statements(), plan.load_jobs, observer.as_ref())
                    .await?;
            }
        }
        load_data::checkpoint(&target.params).await?;
        load_data::before_run(&job, &client).await?;
        Ok(())
    };
    let measured = match unless(&stop, data).await {
        Ok(()) => match Programs::of(&study, &target.params, &plan.load) {
            Ok(programs) => programs.run(lab, &plan, &study, &stop, &observer).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let closed = blocking(move || target.close(false)).await;
    let finished = measured?;
    closed??;
    Ok(finished)
}

/// Does it, unless someone asks to stop meanwhile.
async fn unless<T>(
    stop: &Stop,
    what: impl Future<Output = Result<T, RunError>>,
) -> Result<T, RunError> {
    tokio::select! {
        done = what => done,
        () = stop.requested() => Err(RunError::Stopped),
    }
}

/// What makes the load of one run.
enum Load {
    Tool { command: CommandPlan, results: Vec<LogChoice> },
    Http { server: HttpServer, requests: Vec<String> },
}

/// The programs of one run, their command lines filled in.
struct Programs {
    application: Option<(CommandPlan, Option<String>)>,
    load: Load,
    pool_wait: Option<PoolWaitPlan>,
    params: ConnectParams,
    /// Holds what they print, and `{files}`.
    printed: tempfile::TempDir,
}

impl Programs {
    fn of(study: &StudyPlan, params: &ConnectParams, load: &LoadChoice) -> Result<Self, RunError> {
        let system = |what| move |source| RunError::System { what, source };
        let printed = tempfile::tempdir().map_err(system("making a place for what is printed"))?;
        let port = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .map_err(system("finding a free port"))?
            .port();
        let length = load.duration + load.warm_up.unwrap_or_default();
        let files = printed.path().join(FILES);
        let written = std::fs::create_dir(&files).and_then(|()| {
            study.files.iter().try_for_each(|(name, text)| std::fs::write(files.join(name), text))
        });
        written.map_err(system("writing the files of the plan"))?;
        let seed = load.seed.unwrap_or_default();
        let values = study.values(&url(params), port, seed, length, &files);
        let words = |command: &[String]| -> Result<Vec<OsString>, RunError> {
            command.iter().map(|word| Ok(filled(word, &values)?.into())).collect()
        };
        // They know the server of their run, whatever the caller's PG* variables name.
        let command = |words: Vec<OsString>, environment, name: &str| CommandPlan {
            environment,
            inherits_server: false,
            printing: Printing::File(printed.path().join(name)),
            ..CommandPlan::of(words, study.guard.clone())
        };
        let application = match &study.application {
            None => None,
            Some(of) => {
                let mut environment = server_variables(params);
                for (name, value) in &of.environment {
                    environment.push((name.clone(), filled(value, &values)?));
                }
                let ready = of.ready.as_ref().map(|ready| filled(ready, &values)).transpose()?;
                Some((command(words(&of.command)?, environment, APPLICATION), ready))
            }
        };
        let load = match &study.load {
            StudyLoad::Tool { command: of, results } => Load::Tool {
                command: command(words(of)?, server_variables(params), LOAD),
                results: results
                    .iter()
                    .map(|file| Ok(LogChoice { path: filled(file, &values)?.into(), format: None }))
                    .collect::<Result<_, RunError>>()?,
            },
            StudyLoad::Http { server, requests } => Load::Http {
                server: filled(server, &values)?.parse()?,
                requests: requests
                    .iter()
                    .map(|file| filled(file, &values))
                    .collect::<Result<_, RunError>>()?,
            },
        };
        let pool_wait = study.application.as_ref().and_then(|of| of.pool_wait.as_ref());
        let pool_wait = pool_wait.map(|(metrics, name)| {
            let metrics = filled(metrics, &values)?;
            let metrics = metrics.parse().map_err(|_| RunError::MetricsAddress(metrics))?;
            Ok::<_, RunError>(PoolWaitPlan { metrics, name: name.clone() })
        });
        let pool_wait = pool_wait.transpose()?;
        Ok(Programs { application, load, pool_wait, params: params.clone(), printed })
    }

    async fn run(
        self,
        lab: &Lab,
        plan: &RunPlan,
        study: &StudyPlan,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<Finished, RunError> {
        let mut application = match &self.application {
            None => None,
            Some((command, ready)) => {
                observer.event(Progress::Step("starting the application"));
                let mut child = Child::start(command)?;
                let within = study.application.as_ref().map_or(ONE_LOOK, |of| of.ready_within);
                unless(stop, self.ready(&mut child, ready.as_deref(), within)).await?;
                Some(child)
            }
        };
        let pid = application.as_ref().and_then(Child::process);
        let has_application = application.is_some();
        let ending = Stop::new();
        let (measured, dead) = {
            let measuring = self.measure(lab, plan, pid, &ending, observer);
            let watching = async {
                tokio::select! {
                    biased;
                    () = stop.requested() => None,
                    end = ended(application.as_mut()) => Some(end),
                }
            };
            tokio::pin!(measuring, watching);
            tokio::select! {
                biased;
                // A load without its application measures nothing more.
                dead = &mut watching => {
                    ending.request();
                    (measuring.await, dead)
                }
                measured = &mut measuring => {
                    let is_well = matches!(&measured, Ok(of) if of.state == RunState::Complete);
                    let heard = match is_well || !has_application {
                        true => None,
                        false => tokio::time::timeout(LAST_NEWS, watching).await.ok().flatten(),
                    };
                    (measured, heard)
                }
            }
        };
        if let Some(end) = dead {
            // Whatever the load says of it, this is why.
            let what = format!("ended during the load {}", by(end.code));
            let run = measured.as_ref().map_or("", |finished| &finished.id.0);
            return Err(self.failed(run, "application", APPLICATION, &what));
        }
        if let Some(child) = &mut application {
            child.end();
            child.ended().await;
        }
        measured
    }

    /// Has the load made, and recorded. `application` is its process.
    async fn measure(
        &self,
        lab: &Lab,
        plan: &RunPlan,
        application: Option<u32>,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<Finished, RunError> {
        // The cluster of this run, whatever the caller's PG* variables name.
        let behind = ServerAddress::Known(Box::new(self.params.clone()));
        let probe = plan.probe.unwrap_or(ProbePlan { waits_hz: WAITS_HZ });
        let (tool, results) = match &self.load {
            Load::Tool { command, results } => (command, results),
            Load::Http { server, requests } => {
                let target = TargetPlan::Attached {
                    server: behind,
                    init: false,
                    replace: Vec::new(),
                    window: None,
                };
                let asking = RunPlan {
                    target,
                    workload: WorkloadPlan {
                        requests: requests.clone(),
                        define: plan.workload.define.clone(),
                        ..WorkloadPlan::default()
                    },
                    load: LoadChoice {
                        http: Some(server.clone()),
                        pool_wait: self.pool_wait.clone(),
                        ..plan.load.clone()
                    },
                    probe: Some(probe),
                    ..plan.clone()
                };
                return Box::pin(run(lab, asking, stop.clone(), Arc::clone(observer))).await;
            }
        };
        let parts = LoadParts {
            applications: application.map(ProcessName::Pid).into_iter().collect(),
            generators: Vec::new(),
            poolers: Vec::new(),
            recognise: true,
            children_generate: true,
        };
        let record = RecordPlan {
            server: Some(behind),
            until: Until::CommandEnds(tool.clone()),
            warm_up: plan.load.warm_up.unwrap_or_default(),
            logs: results.clone(),
            parts,
            pool_wait: self.pool_wait.clone(),
            gateway_metrics: None,
            expects_results: true,
            probe,
            label: plan.label.clone(),
            command_line: plan.command.clone(),
        };
        let recorded = crate::record(lab, record, stop.clone(), Arc::clone(observer)).await?;
        let error = match recorded.code {
            _ if recorded.state != RunState::Complete => None,
            Some(0) if let Some(error) = &recorded.error => {
                // Nobody finds the directory once the run has ended.
                let files = self.files().display().to_string();
                let error = error.to_string().replace(&files, "{files}");
                let what = format!("ended, and its results are not there: {error}");
                Some(self.failed(&recorded.id.0, "load tool", LOAD, &what))
            }
            Some(0) if recorded.record.client.is_none() && !has_throughput(&recorded.summary) => {
                let what = "ended, and neither did it print results that are known here nor did \
                            the server commit anything";
                Some(self.failed(&recorded.id.0, "load tool", LOAD, what))
            }
            Some(0) => None,
            code => {
                let what = format!("ended {}", by(code));
                Some(self.failed(&recorded.id.0, "load tool", LOAD, &what))
            }
        };
        let state = if error.is_some() { RunState::Failed } else { recorded.state };
        let (id, record, summary) = (recorded.id, recorded.record, recorded.summary);
        Ok(Finished { id, state, error, kept: None, record, summary })
    }

    /// Waits until an application answers.
    async fn ready(
        &self,
        child: &mut Child,
        ready: Option<&str>,
        within: Duration,
    ) -> Result<(), RunError> {
        let Some(address) = ready else { return Ok(()) };
        let began = Instant::now();
        loop {
            let asked = address.to_owned();
            if blocking(move || answers(&asked)).await? {
                return Ok(());
            }
            if began.elapsed() > within {
                let what = format!(
                    "does not answer at {address} within {} s; `ready` says where it does, `ready_within` how long that may take",
                    within.as_secs()
                );
                return Err(self.failed("", "application", APPLICATION, &what));
            }
            tokio::select! {
                end = child.ended() => {
                    let what = format!("ended before it was ready {}", by(end.code));
                    return Err(self.failed("", "application", APPLICATION, &what));
                }
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// The directory that `{files}` stands for.
    fn files(&self) -> PathBuf {
        self.printed.path().join(FILES)
    }

    fn failed(&self, run: &str, who: &'static str, name: &str, what: &str) -> RunError {
        let said = last_lines(&self.printed.path().join(name));
        let kept = match run {
            "" => String::new(),
            run => format!("; what was measured is in {run}"),
        };
        RunError::Program { who, what: format!("{what}{kept}"), said }
    }
}

/// Waits for the end of an application; without one, for ever.
async fn ended(application: Option<&mut Child>) -> CommandEnd {
    match application {
        Some(child) => child.ended().await,
        None => std::future::pending().await,
    }
}

fn has_throughput(summary: &Summary) -> bool {
    summary.load.as_ref().is_some_and(|load| load.throughput.is_some())
}

const APPLICATION: &str = "application";
const LOAD: &str = "load";
const FILES: &str = "files";

fn by(code: Option<i32>) -> String {
    match code {
        None => "since its guard was killed".to_owned(),
        Some(code) if code > 128 => format!("by signal {}", code - 128),
        Some(code) => format!("with exit code {code}"),
    }
}

/// The last lines that a program printed, each behind a line break; empty where it printed none.
fn last_lines(path: &Path) -> String {
    let printed = std::fs::read(path).unwrap_or_default();
    let text = walwright_record::redact::text(&String::from_utf8_lossy(&printed)).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].iter();
    last.fold(String::new(), |mut said, line| {
        let _ = write!(said, "\n  {line}");
        said
    })
}

/// Whether somebody answers there. Blocks for a second at most.
fn answers(address: &str) -> bool {
    match address.parse::<PageAddress>() {
        Ok(page) => page.status(ONE_LOOK).is_ok_and(|status| status < 500),
        Err(_) => connect(address, ONE_LOOK).is_ok(),
    }
}

/// `{name}` replaced by its value. Other braces are text.
fn filled(text: &str, values: &BTreeMap<String, String>) -> Result<String, RunError> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let name = after.split_once('}').filter(|(name, _)| is_name(name));
        rest = match name {
            Some((name, behind)) => {
                let value = values.get(name).ok_or_else(|| RunError::Placeholder {
                    name: name.to_owned(),
                    known: values.keys().cloned().collect::<Vec<_>>().join(", "),
                })?;
                out.push_str(value);
                behind
            }
            None => {
                out.push('{');
                after
            }
        };
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

fn server_variables(params: &ConnectParams) -> Vec<(String, String)> {
    let mut variables = vec![
        ("PGHOST".to_owned(), params.host_keyword()),
        ("PGPORT".to_owned(), params.port().to_string()),
        ("PGUSER".to_owned(), params.user().to_owned()),
        ("PGDATABASE".to_owned(), params.dbname().to_owned()),
        ("DATABASE_URL".to_owned(), url(params)),
    ];
    if let Some(password) = params.password() {
        variables.push(("PGPASSWORD".to_owned(), password.expose().to_owned()));
    }
    variables
}

/// As a URI (libpq, "Connection URIs"): a directory's slashes are escaped.
fn url(params: &ConnectParams) -> String {
    let host = params.host_keyword().replace('/', "%2F");
    let password = params.password().map(|of| format!(":{}", of.expose())).unwrap_or_default();
    format!("postgres://{}{password}@{host}:{}/{}", params.user(), params.port(), params.dbname())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn names_in_braces_are_filled_in_and_other_braces_stay() {
        let values = BTreeMap::from([("pool".to_owned(), "25".to_owned())]);
        let of = |text: &str| filled(text, &values).map_err(|error| error.to_string());
        assert_eq!(of("--pool={pool}"), Ok("--pool=25".to_owned()));
        assert_eq!(of("{\"a\": {pool}}"), Ok("{\"a\": 25}".to_owned()));
        assert_eq!(of("{ pool } {} {"), Ok("{ pool } {} {".to_owned()));
        assert!(of("{pol}").unwrap_err().contains("{pol}"), "{:?}", of("{pol}"));
    }

    #[test]
    fn an_answer_below_500_is_readiness() {
        for (status, expected) in [("200 OK", true), ("404 Not", true), ("503 Not", false)] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let answer = format!("HTTP/1.1 {status}\r\n\r\n");
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 16];
                stream.read_exact(&mut request).unwrap();
                assert_eq!(&request, b"GET /healthz HTT");
                stream.write_all(answer.as_bytes()).unwrap();
            });
            assert_eq!(answers(&format!("http://{address}/healthz")), expected, "{status}");
            server.join().unwrap();
            assert!(!answers(&format!("http://{address}/healthz")));
        }
    }
}
