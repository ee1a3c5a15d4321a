//! The site: it listens, answers, and ends when it is asked to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LOCATION, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{Response, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use walwright_http::PageAddress;
use walwright_record::{RunHeader, RunState};
use walwright_report::Document;
use walwright_report::html::{self, Links};
use walwright_store::Lab;

use crate::actions;
use crate::admission::{Admission, Decision};
use crate::answer::{LINKS, Packed, Refusal, event};
use crate::error::ServeError;
use crate::forms;
use crate::jobs::{Job, Jobs, Program};
use crate::live::{Live, Seen};
use crate::pages::{
    self, Kept, Pages, Query, Study, WatchedGateway, WatchedJob, WatchedRun, WatchedStudy, above,
};

/// Longest that a client may take for the head of a request, and with nothing to say.
const HEAD: Duration = Duration::from_secs(10);
/// Longest that an answer may take to begin: a record of hours is read and judged in seconds.
const ANSWER: Duration = Duration::from_secs(120);
/// Most connections at once; further ones wait.
const CONNECTIONS: usize = 256;
/// Most of them that may watch something, so that there is room for others.
const VIEWERS: usize = 192;
/// Longest body, in bytes.
const BODY: usize = 64 * 1024;
/// A viewer of whom nothing is heard is found gone by this.
const HEARTBEAT: Duration = Duration::from_secs(20);

/// What the site shows, and to whom.
pub struct Options {
    /// The lab.
    pub lab: Lab,
    /// Who may ask for what.
    pub admission: Admission,
    /// How commands are started.
    pub program: Program,
    /// Workloads that runs are made of.
    pub workloads: Vec<String>,
    /// A gateway whose metrics are shown.
    pub gateway: Option<PageAddress>,
    /// Most of one processor that watching one thing may take, whatever the number of viewers.
    pub share: f64,
}

/// A site that listens.
pub struct Site {
    listener: TcpListener,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

pub(crate) struct Shared {
    pub(crate) admission: Admission,
    pub(crate) pages: Pages,
    pub(crate) live: Live,
    jobs: Arc<Jobs>,
    workloads: Vec<String>,
    gateway: Option<PageAddress>,
    assets: HashMap<&'static str, Packed>,
    viewers: Arc<Semaphore>,
    /// Held by whoever judges a record.
    judging: tokio::sync::Mutex<()>,
    stop: watch::Receiver<bool>,
}

type Handle = State<Arc<Shared>>;
type Answer = Result<Response<Body>, Refusal>;

impl Site {
    /// Takes the address.
    ///
    /// # Errors
    /// Where it cannot be had.
    pub async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
        let listener = TcpListener::bind(address).await;
        listener.map_err(|error| ServeError::Listen { address, error })
    }

    /// A site on an address that was taken.
    pub fn new(listener: TcpListener, options: Options) -> Site {
        let (stop, stopped) = watch::channel(false);
        let assets = HashMap::from([
            ("icon.svg", Packed::new("image/svg+xml", html::ICON.to_owned())),
            ("page.css", Packed::new("text/css; charset=utf-8", html::STYLE.to_owned())),
            ("page.js", Packed::new("text/javascript; charset=utf-8", html::SCRIPT.to_owned())),
        ]);
        let shared = Arc::new(Shared {
            admission: options.admission,
            pages: Pages::new(options.lab),
            live: Live::new(options.share),
            jobs: Arc::new(Jobs::new(options.program)),
            workloads: options.workloads,
            gateway: options.gateway,
            assets,
            viewers: Arc::new(Semaphore::new(VIEWERS)),
            judging: tokio::sync::Mutex::default(),
            stop: stopped,
        });
        Site { listener, shared, stop }
    }

    /// Serves until `stop`; then answers what has come, for at most `patience`, asks what was
    /// started here to stop, and returns when it has.
    pub async fn serve(self, stop: impl Future<Output = ()>, patience: Duration) {
        let Site { listener, shared, stop: ending } = self;
        let router = router(Arc::clone(&shared));
        let stopped = async {
            stop.await;
            ending.send_replace(true);
        };
        walwright_http::serve(listener, CONNECTIONS, stopped, patience, |stream| {
            let service = TowerToHyperService::new(router.clone());
            let mut ending = ending.subscribe();
            let ended = async move { _ = ending.wait_for(|ending| *ending).await };
            walwright_http::converse(stream, service, HEAD, ended)
        })
        .await;
        shared.jobs.end().await;
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(runs))
        .route("/runs/{id}", get(run))
        .route("/runs/{id}/series", get(series))
        .route("/runs/{id}/events", get(run_events))
        .route("/compare", get(compare))
        .route("/experiments", get(experiments))
        .route("/experiments/{id}", get(experiment))
        .route("/experiments/{id}/events", get(experiment_events))
        .route("/tunes", get(tunes))
        .route("/tunes/{id}", get(tune))
        .route("/tunes/{id}/events", get(tune_events))
        .route("/journal", get(journal))
        .route("/gateway", get(gateway))
        .route("/gateway/events", get(gateway_events))
        .route("/jobs", get(jobs))
        .route("/jobs/{number}", get(job))
        .route("/jobs/{number}/events", get(job_events))
        .route("/jobs/{number}/stop", post(stop))
        .route("/jobs/run", post(start_run))
        .route("/jobs/prove", post(prove))
        .route("/runs/{id}/label", post(relabel))
        .route("/runs/{id}/note", post(note))
        .route("/assets/{name}", get(asset))
        // Browsers ask for it there, whatever a page says.
        .route(
            "/favicon.ico",
            get(async |of, headers| asset(of, Path("icon.svg".to_owned()), headers).await),
        )
        .fallback(async || -> Answer { Err(Refusal::not_found("there is no such page here")) })
        .layer(DefaultBodyLimit::max(BODY))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&shared), admitted))
        .with_state(shared)
}

/// Lets pass who may, in time, and says to the browser what a page may do.
async fn admitted(State(of): Handle, request: Request, next: Next) -> Response<Body> {
    let decision = of.admission.decide(request.method(), request.uri(), request.headers());
    let asked = request.headers().clone();
    let mut answer = match decision {
        Decision::Pass => match tokio::time::timeout(ANSWER, next.run(request)).await {
            Ok(answer) => answer,
            Err(_) => Refusal::new(StatusCode::GATEWAY_TIMEOUT, "it took too long").into_response(),
        },
        Decision::Enter { cookie, to } => entering(&cookie, &to),
        Decision::Misdirected => Refusal::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this site is not called that: use its address, or start it with --name NAME",
        )
        .into_response(),
        Decision::Foreign => {
            let said = "this was asked for by a page of another site";
            Refusal::new(StatusCode::FORBIDDEN, said).into_response()
        }
        Decision::ReadOnly => {
            let said = "nothing can be changed here: start it with --allow-actions";
            Refusal::new(StatusCode::FORBIDDEN, said).into_response()
        }
        Decision::Unknown => {
            let said = "this needs the token: open the address that `walwright serve` printed";
            let mut answer = Refusal::new(StatusCode::UNAUTHORIZED, said).into_response();
            let challenge = HeaderValue::from_static("Bearer");
            answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            answer
        }
    };
    if let Some(refusal) = answer.extensions_mut().remove::<Refusal>() {
        let links = Links { above: &above("", ""), ..LINKS };
        let page = Packed::page(&refusal.document(), &links);
        let headers = std::mem::take(answer.headers_mut());
        answer = page.answer(refusal.status, &asked);
        answer.headers_mut().extend(headers);
    }
    let headers = answer.headers_mut();
    for (name, value) in RULES {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// What a browser is told with each answer.
const RULES: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, html::POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer` browsers would not tell where a form comes from.
    (REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = self.status;
        answer.extensions_mut().insert(self);
        answer
    }
}

/// Who brought the token gets the cookie, and goes on to where they wanted without it: it
/// stays in no history.
fn entering(cookie: &str, to: &str) -> Response<Body> {
    let mut answer = going_to(to);
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// The way to another page.
fn going_to(address: &str) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(address) = HeaderValue::from_str(address) {
        headers.insert(LOCATION, address);
    }
    answer
}

async fn runs(State(of): Handle, uri: Uri, headers: HeaderMap) -> Answer {
    let asked = Query::of(uri.query().unwrap_or_default());
    let (document, more) = of.work(move |pages| pages.runs(&asked)).await?;
    let may_act = of.admission.may_act(&headers);
    let start = if may_act { forms::run(&of.workloads) } else { String::new() };
    let above = above("/", &format!("{start}{more}"));
    Ok(shown(&document, &Links { above: &above, ..LINKS }, &headers))
}

async fn compare(State(of): Handle, uri: Uri, headers: HeaderMap) -> Answer {
    let asked = Query::of(uri.query().unwrap_or_default());
    let asked = Arc::new(asked);
    let chosen = Arc::clone(&asked);
    let picker = of.work(move |pages| pages.picker(&chosen)).await?;
    let above = above("/compare", &picker);
    let links = Links { above: &above, ..LINKS };
    match of.judge(move |pages| pages.compare(&asked)).await {
        Ok(document) => Ok(shown(&document, &links, &headers)),
        // What cannot be compared is changed here.
        Err(refusal) => {
            Ok(Packed::page(&refusal.document(), &links).answer(refusal.status, &headers))
        }
    }
}

async fn experiments(State(of): Handle, headers: HeaderMap) -> Answer {
    let document = of.work(Pages::experiments).await?;
    Ok(shown(&document, &Links { above: &above("/experiments", ""), ..LINKS }, &headers))
}

async fn tunes(State(of): Handle, headers: HeaderMap) -> Answer {
    let document = of.work(Pages::tunes).await?;
    Ok(shown(&document, &Links { above: &above("/tunes", ""), ..LINKS }, &headers))
}

async fn journal(State(of): Handle, headers: HeaderMap) -> Answer {
    let document = of.work(Pages::journal).await?;
    Ok(shown(&document, &Links { above: &above("/journal", ""), ..LINKS }, &headers))
}

async fn run(State(of): Handle, Path(name): Path<String>, headers: HeaderMap) -> Answer {
    let header = of.header(name.clone()).await?;
    if header.id.0 != name {
        return Ok(going_to(&format!("/runs/{}", header.id)));
    }
    if header.state == RunState::Running {
        return of.seen(of.watch_run(&header, &headers)?, &headers).await;
    }
    let kept = of.ended(header).await?;
    let series = format!("/runs/{}/series", kept.header.id);
    let deeds = match of.admission.may_act(&headers) {
        true => format!("{}{}", forms::remarks(&kept.header), forms::proofs(&kept)),
        false => String::new(),
    };
    let above = above("", &deeds);
    let series = kept.series.is_some().then_some(series.as_str());
    Ok(shown(&kept.document, &Links { series, above: &above, ..LINKS }, &headers))
}

/// The figures behind the timeline of a run.
async fn series(State(of): Handle, Path(name): Path<String>, headers: HeaderMap) -> Answer {
    let header = of.header(name).await?;
    let series = match header.state {
        RunState::Running => first(of.watch_run(&header, &headers)?).await?.series,
        _ => of.ended(header).await?.series.clone(),
    };
    let series = series.ok_or_else(|| Refusal::not_found("this run has no timeline"))?;
    Ok(series.answer(StatusCode::OK, &headers))
}

async fn run_events(State(of): Handle, Path(name): Path<String>, headers: HeaderMap) -> Answer {
    let header = of.header(name).await?;
    let watched = of.watch_run(&header, &headers)?;
    of.told(watched)
}

async fn experiment(State(of): Handle, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    of.seen(of.watch_study(Study::Experiment, id).await?, &headers).await
}

async fn experiment_events(State(of): Handle, Path(id): Path<String>) -> Answer {
    of.told(of.watch_study(Study::Experiment, id).await?)
}

async fn tune(State(of): Handle, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    of.seen(of.watch_study(Study::Tune, id).await?, &headers).await
}

async fn tune_events(State(of): Handle, Path(id): Path<String>) -> Answer {
    of.told(of.watch_study(Study::Tune, id).await?)
}

async fn gateway(State(of): Handle, headers: HeaderMap) -> Answer {
    of.seen(of.watch_gateway()?, &headers).await
}

async fn gateway_events(State(of): Handle) -> Answer {
    of.told(of.watch_gateway()?)
}

async fn jobs(State(of): Handle, headers: HeaderMap) -> Answer {
    let links = Links { above: &above("/jobs", ""), ..LINKS };
    Ok(shown(&pages::job_list(&of.jobs), &links, &headers))
}

async fn job(State(of): Handle, Path(number): Path<u32>, headers: HeaderMap) -> Answer {
    of.seen(of.watch_job(number)?, &headers).await
}

async fn job_events(State(of): Handle, Path(number): Path<u32>) -> Answer {
    of.told(of.watch_job(number)?)
}

async fn stop(State(of): Handle, Path(number): Path<u32>) -> Answer {
    of.job(number)?.stop();
    Ok(going_to(&format!("/jobs/{number}")))
}

async fn start_run(State(of): Handle, body: String) -> Answer {
    let words = actions::run_words(&Query::of(&body), &of.workloads).map_err(wrong)?;
    of.start(words).await
}

async fn prove(State(of): Handle, body: String) -> Answer {
    let form = Query::of(&body);
    let run = form.get("run").ok_or_else(|| wrong("name a run".to_owned()))?;
    let run = of.header(run.to_owned()).await?;
    let words = actions::prove_words(&form, &run.id.0).map_err(wrong)?;
    of.start(words).await
}

async fn relabel(State(of): Handle, Path(id): Path<String>, body: String) -> Answer {
    let form = Query::of(&body);
    let label = form.get("label").map(actions::label_of).transpose().map_err(wrong)?;
    let run = of.header(id).await?;
    let to = format!("/runs/{}", run.id);
    of.work(move |pages| pages.relabel(&run.id, label.as_deref())).await?;
    Ok(going_to(&to))
}

async fn note(State(of): Handle, Path(id): Path<String>, body: String) -> Answer {
    let (at, note) = actions::note_of(&Query::of(&body)).map_err(wrong)?;
    let run = of.header(id).await?;
    if run.state == RunState::Running {
        let to = format!("/runs/{}", run.id);
        of.work(move |pages| pages.note_under_way(&run, at, &note)).await?;
        return Ok(going_to(&to));
    }
    let at = at.ok_or_else(|| wrong(actions::WHERE.to_owned()))?;
    let to = format!("/runs/{}#at={at}", run.id);
    let kept = of.ended(run).await?;
    of.work(move |pages| pages.note(&kept, at, &note)).await?;
    Ok(going_to(&to))
}

/// What a form says that cannot be done.
fn wrong(said: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, said)
}

async fn asset(State(of): Handle, Path(name): Path<String>, headers: HeaderMap) -> Answer {
    let asset = of.assets.get(name.as_str());
    let asset = asset.ok_or_else(|| Refusal::not_found("there is no such file here"))?;
    let mut answer = asset.answer(StatusCode::OK, &headers);
    let kept = HeaderValue::from_static("private, max-age=3600");
    answer.headers_mut().insert(CACHE_CONTROL, kept);
    Ok(answer)
}

fn shown(document: &Document, links: &Links<'_>, asked: &HeaderMap) -> Response<Body> {
    Packed::page(document, links).answer(StatusCode::OK, asked)
}

type Watching = watch::Receiver<Option<Seen>>;

/// What is seen first.
async fn first(mut watching: Watching) -> Result<Seen, Refusal> {
    let seen = watching.wait_for(Option::is_some).await.ok().and_then(|seen| seen.clone());
    seen.ok_or_else(|| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "it cannot be watched"))
}

impl Shared {
    /// Reads files, which may take a moment.
    async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Pages) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let of = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&of.pages)).await;
        done.unwrap_or_else(|error| Err(Refusal::failed(&error)))
    }

    /// Judges records, which takes a processor for seconds: one at a time.
    async fn judge<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Pages) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let _turn = self.judging.lock().await;
        self.work(work).await
    }

    async fn header(self: &Arc<Self>, name: String) -> Result<RunHeader, Refusal> {
        self.work(move |pages| pages.header(&name)).await
    }

    async fn ended(self: &Arc<Self>, header: RunHeader) -> Result<Arc<Kept>, Refusal> {
        let asked = header.clone();
        if let Some(kept) = self.work(move |pages| Ok(pages.ready(&asked))).await? {
            return Ok(kept);
        }
        self.judge(move |pages| match pages.ready(&header) {
            Some(kept) => Ok(kept),
            None => pages.ended(&header),
        })
        .await
    }

    /// Those who may act see what they can do, on a page of their own.
    fn watch_run(&self, header: &RunHeader, asked: &HeaderMap) -> Result<Watching, Refusal> {
        let (lab, id) = (self.pages.lab.clone(), header.id.clone());
        let jobs = self.admission.may_act(asked).then(|| Arc::clone(&self.jobs));
        let name =
            format!("/runs/{id}{}", if jobs.is_some() { " with what can be done" } else { "" });
        self.live.watch(&name, move || WatchedRun::new(lab, id, jobs))
    }

    fn job(&self, number: u32) -> Result<Arc<Job>, Refusal> {
        let job = self.jobs.get(number);
        job.ok_or_else(|| Refusal::not_found("there is no such command: none of it is kept here"))
    }

    fn watch_job(&self, number: u32) -> Result<Watching, Refusal> {
        let (lab, job) = (self.pages.lab.clone(), self.job(number)?);
        self.live.watch(&format!("/jobs/{number}"), move || WatchedJob::new(lab, job))
    }

    fn watch_gateway(&self) -> Result<Watching, Refusal> {
        let said = "name a gateway to be shown: walwright serve --gateway http://HOST:PORT/metrics";
        let gateway = self.gateway.clone().ok_or_else(|| Refusal::not_found(said))?;
        self.live.watch("/gateway", move || WatchedGateway::new(gateway))
    }

    /// Starts a command, and leads to its page.
    async fn start(self: &Arc<Self>, words: Vec<String>) -> Answer {
        let of = Arc::clone(self);
        let started = tokio::task::spawn_blocking(move || of.jobs.start(&words)).await;
        let job = started.map_err(|error| Refusal::failed(&error))?.map_err(wrong)?;
        Ok(going_to(&format!("/jobs/{}", job.number)))
    }

    async fn watch_study(self: &Arc<Self>, study: Study, id: String) -> Result<Watching, Refusal> {
        let (study, id) = self.work(move |pages| Ok((study, pages.study(study, &id)?))).await?;
        let lab = self.pages.lab.clone();
        let name = format!("{study:?} {id}");
        self.live.watch(&name, move || WatchedStudy::new(lab, study, id))
    }

    /// The page as it was seen last.
    async fn seen(&self, watching: Watching, asked: &HeaderMap) -> Answer {
        match first(watching).await?.page {
            Ok(page) => Ok(page.answer(StatusCode::OK, asked)),
            Err(refusal) => Err(Refusal::new(refusal.status, refusal.said.clone())),
        }
    }

    /// What viewers are told, until it ends or the site does.
    fn told(self: &Arc<Self>, watching: Watching) -> Answer {
        let seat = Arc::clone(&self.viewers).try_acquire_owned().map_err(|_| {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many are watching already")
        })?;
        let viewer =
            Viewer { watching, stop: self.stop.clone(), drawn: None, over: false, _seat: seat };
        let events = stream::unfold(viewer, async |mut viewer| {
            let told = viewer.next().await?;
            Some((Ok::<_, std::convert::Infallible>(told), viewer))
        });
        let mut answer = Response::new(Body::from_stream(events));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(answer)
    }
}

/// Someone who watches.
struct Viewer {
    watching: Watching,
    stop: watch::Receiver<bool>,
    /// What was told last.
    drawn: Option<u64>,
    over: bool,
    _seat: OwnedSemaphorePermit,
}

impl Viewer {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if self.drawn.is_some() {
            tokio::select! {
                changed = self.watching.changed() => changed.ok()?,
                _ = self.stop.wait_for(|stop| *stop) => return None,
                () = tokio::time::sleep(HEARTBEAT) => return Some(Bytes::from_static(b":\n\n")),
            }
        } else {
            tokio::select! {
                seen = self.watching.wait_for(Option::is_some) => { seen.ok()?; }
                _ = self.stop.wait_for(|stop| *stop) => return None,
            }
        }
        let seen = self.watching.borrow_and_update().clone()?;
        self.over = seen.ended;
        // Who comes, or was too slow for one of them, is told all.
        let follows = self.drawn.replace(seen.drawn).is_some_and(|last| last + 1 == seen.drawn);
        match seen.series.filter(|_| !follows) {
            None => Some(seen.told),
            Some(series) => {
                let mut told = event("series", series.text()).to_vec();
                told.extend(event("page", "{}"));
                if seen.ended {
                    told.extend(event("end", "{}"));
                }
                Some(told.into())
            }
        }
    }
}
