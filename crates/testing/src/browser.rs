//! A headless Chromium that tests drive through the DevTools protocol.
//!
//! The protocol goes over two pipes, so no port is open and the browser ends when they close,
//! however the test ends. Its profile is a temporary directory.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Names under which browsers that speak the protocol are installed.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// A browser that says nothing for this long has hung. Generous: other tests run beside it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Gives the pipes the numbers that Chromium expects: it reads commands from 3 and answers on 4.
const PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;
/// What a page of tests needs, and nothing that reaches out or asks.
const OPTIONS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
];

/// A browser; it and its profile are gone when this is dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: Option<ChildStdin>,
    answers: Receiver<Value>,
    /// Events that came while an answer was waited for.
    events: Vec<Value>,
    last: u64,
    _profile: TempDir,
}

/// A page in a browser.
#[derive(Debug)]
pub struct Tab<'b> {
    browser: &'b mut Browser,
    session: String,
    /// The target, to close it.
    target: String,
}

/// What a page prefers and how wide it is.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Whether the user prefers dark pages.
    pub dark: bool,
    /// Whether it is a phone: touch, and the page's own idea of a viewport.
    pub phone: bool,
}

impl Screen {
    /// A window on a desk.
    pub const DESK: Screen = Screen { width: 1280, height: 900, dark: false, phone: false };
    /// A phone held upright.
    pub const PHONE: Screen = Screen { width: 390, height: 844, dark: false, phone: true };

    /// The same in the dark.
    pub fn dark(self) -> Screen {
        Screen { dark: true, ..self }
    }
}

/// The first browser on the path.
pub fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|directory| NAMES.map(|name| directory.join(name)))
        .find(|program| program.is_file())
}

impl Browser {
    /// Starts one; `None` where none is installed, and says so: the test is to be skipped.
    ///
    /// # Panics
    /// When an installed browser does not start.
    pub fn start() -> Option<Browser> {
        let Some(program) = installed() else {
            eprintln!("skipped: no Chromium is installed (apt-get install chromium)");
            return None;
        };
        let profile = tempfile::tempdir().expect("a directory for the browser's profile");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", PIPES, "browser"]).arg(program).args(OPTIONS);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        // What it leaves outside of its profile goes there too.
        command.env("HOME", profile.path()).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("a shell starts the browser");
        let commands = child.stdin.take();
        let mut pipe = BufReader::new(child.stdout.take().expect("its answers are piped"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(said) = serde_json::from_slice(&message) else { break };
                if sender.send(said).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let events = Vec::new();
        let mut browser = Browser { child, commands, answers, events, last: 0, _profile: profile };
        browser.call(None, "Browser.getVersion", &json!({}));
        Some(browser)
    }

    /// Opens `address` and waits until it is loaded.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn open(&mut self, address: &str, screen: Screen) -> Tab<'_> {
        let target = self.call(None, "Target.createTarget", &json!({"url": "about:blank"}));
        let target = text(&target["targetId"]);
        let attach = json!({"targetId": target, "flatten": true});
        let session = text(&self.call(None, "Target.attachToTarget", &attach)["sessionId"]);
        let mut tab = Tab { browser: self, session, target };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), &json!({}));
        }
        tab.screen(screen);
        tab.go(address);
        tab
    }

    /// Opens a page kept in a file.
    ///
    /// # Panics
    /// As [`open`](Self::open).
    pub fn open_file(&mut self, path: &Path, fragment: &str, screen: Screen) -> Tab<'_> {
        self.open(&format!("file://{}{fragment}", path.display()), screen)
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Value {
        self.last += 1;
        let id = self.last;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let pipe = self.commands.as_mut().expect("open while the browser is");
        pipe.write_all(&bytes).and_then(|()| pipe.flush()).expect("the browser reads commands");
        let until = Instant::now() + PATIENCE;
        loop {
            let said = self.next(until).unwrap_or_else(|| panic!("no answer to {method}"));
            if said["id"] == id {
                assert!(said["error"].is_null(), "{method} {params}: {}", said["error"]);
                return said["result"].clone();
            }
            self.events.push(said);
        }
    }

    /// The next message; `None` where none comes.
    fn next(&mut self, until: Instant) -> Option<Value> {
        match self.answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the browser ended"),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            // Gone already is as good.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Tab<'_> {
    /// A command of the protocol and its result.
    ///
    /// # Panics
    /// When the browser refuses it or does not answer.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// Goes to `address` and waits until it is loaded.
    ///
    /// # Panics
    /// When it cannot be reached.
    pub fn go(&mut self, address: &str) {
        self.browser.events.retain(|event| event["method"] != "Page.loadEventFired");
        let reached = self.call("Page.navigate", &json!({"url": address}));
        assert!(reached["errorText"].is_null(), "{address}: {}", reached["errorText"]);
        // A change of the fragment alone loads nothing.
        if !reached["loaderId"].is_null() {
            self.event("Page.loadEventFired");
        }
    }

    /// Waits for an event of this page, or of the browser, and takes it.
    ///
    /// # Panics
    /// When it does not come.
    pub fn event(&mut self, method: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        let session = self.session.clone();
        // Downloads are events of the browser.
        let wanted = |event: &Value| {
            let of = &event["sessionId"];
            event["method"] == method && (*of == *session || of.is_null())
        };
        loop {
            if let Some(at) = self.browser.events.iter().position(wanted) {
                return self.browser.events.remove(at)["params"].take();
            }
            let said = self.browser.next(until).unwrap_or_else(|| panic!("no {method}"));
            self.browser.events.push(said);
        }
    }

    /// Sets size and preferences.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn screen(&mut self, screen: Screen) {
        let Screen { width, height, dark, phone } = screen;
        let metrics = json!({
            "width": width, "height": height, "mobile": phone,
            "deviceScaleFactor": if phone { 2 } else { 1 },
        });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        self.call("Emulation.setTouchEmulationEnabled", &json!({"enabled": phone}));
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.call("Emulation.setEmulatedMedia", &json!({"media": "", "features": features}));
    }

    /// The value of an expression; a promise is waited for.
    ///
    /// # Panics
    /// When it throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
            "userGesture": true,
        });
        let result = self.call("Runtime.evaluate", &params);
        let thrown = &result["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {}", thrown["exception"]["description"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true, looking once a frame.
    ///
    /// # Panics
    /// When it never is.
    pub fn until(&mut self, expression: &str) {
        let millis = PATIENCE.as_millis() / 2;
        let came = self.value(&format!(
            "new Promise((done) => {{ const end = performance.now() + {millis}; \
             const look = () => {{ if ({expression}) done(true); \
             else if (performance.now() > end) done(false); else setTimeout(look, 16); }}; look(); }})"
        ));
        assert_eq!(came, true, "never: {expression}\n{:?}", self.complaints());
    }

    /// Presses a key, by its name in events: `ArrowRight`, `Escape`, `+`.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn press(&mut self, key: &str, shift: bool) {
        let code = match key {
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Escape" => 27,
            "Enter" => 13,
            "Tab" => 9,
            "Home" => 36,
            "End" => 35,
            _ => 0,
        };
        let mut event = json!({
            "type": "keyDown", "key": key, "windowsVirtualKeyCode": code,
            "modifiers": if shift { 8 } else { 0 },
        });
        if key.chars().count() == 1 || key == "Enter" {
            event["text"] = if key == "Enter" { "\r".into() } else { key.into() };
        }
        self.call("Input.dispatchKeyEvent", &event);
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", &event);
    }

    /// Moves the pointer there.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn point(&mut self, x: f64, y: f64) {
        self.mouse("mouseMoved", (x, y), 0, false);
    }

    /// Presses, moves in steps, releases.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64), shift: bool) {
        self.mouse("mouseMoved", from, 0, shift);
        self.mouse("mousePressed", from, 1, shift);
        for step in 1..=4 {
            let share = f64::from(step) / 4.0;
            let at = |a: f64, b: f64| a + (b - a) * share;
            self.mouse("mouseMoved", (at(from.0, to.0), at(from.1, to.1)), 1, shift);
        }
        self.mouse("mouseReleased", to, 1, shift);
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), buttons: u32, shift: bool) {
        let button = if buttons > 0 { "left" } else { "none" };
        let event = json!({
            "type": kind, "x": x, "y": y, "button": button, "buttons": buttons,
            "clickCount": u32::from(buttons > 0), "modifiers": if shift { 8 } else { 0 },
        });
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// Clicks the first element that a selector finds.
    ///
    /// # Panics
    /// When there is none.
    pub fn click(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        self.mouse("mouseMoved", (x, y), 0, false);
        self.mouse("mousePressed", (x, y), 1, false);
        self.mouse("mouseReleased", (x, y), 1, false);
    }

    /// The middle of the first element that a selector finds, scrolled into view.
    ///
    /// # Panics
    /// When there is none.
    pub fn middle(&mut self, selector: &str) -> (f64, f64) {
        let [x, y, width, height] = self.place(selector);
        (x + width / 2.0, y + height / 2.0)
    }

    /// Left, top, width and height of the first element that a selector finds, scrolled into view.
    ///
    /// # Panics
    /// When there is none.
    pub fn place(&mut self, selector: &str) -> [f64; 4] {
        let selector = Value::from(selector);
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector}); \
             if (!e) throw new Error('no ' + {selector}); e.scrollIntoView({{block: 'center'}}); \
             const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }})()"
        ));
        std::array::from_fn(|at| place[at].as_f64().expect("a place is a number"))
    }

    /// Pictures the page, the whole of it or what is in view, as a PNG.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn picture(&mut self, whole: bool) -> Vec<u8> {
        let params = json!({"format": "png", "captureBeyondViewport": whole});
        let picture = self.call("Page.captureScreenshot", &params);
        STANDARD.decode(text(&picture["data"])).expect("pictures are base64")
    }

    /// Prints the page as a PDF.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn print(&mut self) -> Vec<u8> {
        let params = json!({"printBackground": true, "preferCSSPageSize": true});
        let print = self.call("Page.printToPDF", &params);
        STANDARD.decode(text(&print["data"])).expect("prints are base64")
    }

    /// Keeps what is downloaded in `directory`.
    ///
    /// # Panics
    /// When the browser cannot.
    pub fn downloads(&mut self, directory: &Path) {
        let params = json!({
            "behavior": "allow", "downloadPath": directory, "eventsEnabled": true,
        });
        self.browser.call(None, "Browser.setDownloadBehavior", &params);
    }

    /// Waits until a download has ended; the name that the page gave the file.
    ///
    /// # Panics
    /// When there is none.
    pub fn downloaded(&mut self) -> String {
        let begun = self.event("Browser.downloadWillBegin");
        while self.event("Browser.downloadProgress")["state"] != "completed" {}
        text(&begun["suggestedFilename"])
    }

    /// What the browser complained of since it was last asked: exceptions, what the content
    /// security policy refused, what was not found.
    pub fn complaints(&mut self) -> Vec<String> {
        // An answer comes after the events before it.
        self.call("Runtime.evaluate", &json!({"expression": "0"}));
        let (session, mut found) = (self.session.clone(), Vec::new());
        self.browser.events.retain(|event| {
            if event["sessionId"] != session {
                return true;
            }
            let params = &event["params"];
            match event["method"].as_str() {
                Some("Runtime.exceptionThrown") => {
                    let details = &params["exceptionDetails"];
                    found.push(format!(
                        "{} {}",
                        details["text"], details["exception"]["description"]
                    ));
                }
                Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                    found.push(format!("{} {}", params["entry"]["text"], params["entry"]["url"]));
                }
                Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                    found.push(params["args"].to_string());
                }
                _ => return true,
            }
            false
        });
        found
    }

    /// Addresses that the page asked for since it was last asked.
    pub fn requests(&mut self) -> Vec<String> {
        self.call("Runtime.evaluate", &json!({"expression": "0"}));
        let (session, mut found) = (self.session.clone(), Vec::new());
        self.browser.events.retain(|event| {
            let is_request =
                event["sessionId"] == session && event["method"] == "Network.requestWillBeSent";
            if is_request {
                found.push(text(&event["params"]["request"]["url"]));
            }
            !is_request
        });
        found
    }
}

/// The accessibility checks of axe-core, where `.ci/run` has fetched them; `None` says that they
/// are not there: what needs them is to be skipped.
pub fn axe() -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/axe.min.js");
    let axe = std::fs::read_to_string(&path).ok();
    if axe.is_none() {
        eprintln!("skipped: no axe-core at {} (.ci/run fetches it)", path.display());
    }
    axe
}

impl Tab<'_> {
    /// What of this page, as it is now, the checks of [`axe`] find wrong: the rule, what it says
    /// and where.
    ///
    /// # Panics
    /// When the checks do not run.
    pub fn barriers(&mut self, axe: &str) -> Vec<String> {
        // Scripts of the protocol are none of the page: its policy lets them be.
        self.call("Runtime.evaluate", &json!({"expression": axe}));
        self.violations("{resultTypes: ['violations']}")
    }

    /// The same of its colours in the dark alone, the rest being as [`barriers`](Self::barriers)
    /// has found it before.
    ///
    /// # Panics
    /// When the checks do not run.
    pub fn barriers_in_the_dark(&mut self, screen: Screen) -> Vec<String> {
        self.screen(screen.dark());
        let found = self.violations("{runOnly: ['color-contrast', 'link-in-text-block']}");
        self.screen(screen);
        found
    }

    fn violations(&mut self, options: &str) -> Vec<String> {
        let found = self.value(&format!(
            "axe.run(document, {options}).then((found) => \
             found.violations.flatMap((rule) => rule.nodes.map((node) => \
             `${{rule.id}}: ${{rule.help}}; ${{node.target.join(' ')}} ${{node.html.slice(0, 200)}} ${{node.any.map((c) => c.message).join(' ')}}`)))",
        ));
        let found = found.as_array().expect("a list of violations").iter();
        found.map(|barrier| barrier.as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Tab<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let target = self.target.clone();
            self.browser.call(None, "Target.closeTarget", &json!({"targetId": target}));
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
