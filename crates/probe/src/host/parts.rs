//! Which part a process of this machine has in the load: it is the application under
//! test, the generator that loads it, or a pooler between it and the server.

use std::collections::HashMap;

use super::processes::{Stat, title};

/// Processes that have a part in the load, as someone named them.
///
/// A name is that of the program or of the script it runs: of `node server.js` both
/// `node` and `server.js`. A PID stands for the process and all that descend from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadParts {
    /// The application whose database is measured.
    pub applications: Vec<ProcessName>,
    /// What sends requests to it, or to the database.
    pub generators: Vec<ProcessName>,
    /// What lends connections out.
    pub poolers: Vec<ProcessName>,
    /// Whether well-known generators and poolers are recognised by their names, and
    /// applications by their connections to the server.
    pub recognise: bool,
    /// Whether processes that walwright started generate the load.
    pub children_generate: bool,
}

/// How a process is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessName {
    /// By its PID.
    Pid(u32),
    /// By the name of its program or script.
    Name(String),
}

impl From<&str> for ProcessName {
    /// A number is a PID, all else a name.
    fn from(text: &str) -> ProcessName {
        text.parse().map_or_else(|_| ProcessName::Name(text.to_owned()), ProcessName::Pid)
    }
}

/// Programs and scripts that are known to generate load.
const GENERATORS: [&str; 20] = [
    "pgbench",
    "k6",
    "locust",
    "wrk",
    "wrk2",
    "hey",
    "oha",
    "ab",
    "vegeta",
    "autocannon",
    "sysbench",
    "jmeter",
    "gatling",
    "artillery",
    "bombardier",
    "siege",
    "drill",
    "goose",
    "hammerdb",
    "benchbase",
];
/// Programs that are known to pool connections.
const POOLERS: [&str; 7] =
    ["pgbouncer", "odyssey", "pgcat", "pgdog", "pgpool", "pgagroal", "supavisor"];
/// The program that is a pooler when its command is the other.
const GATEWAY: (&str, &str) = ("walwright", "gateway");
/// The program that is an application when these are its commands.
const DOCUMENTS: (&str, [&str; 2]) = ("walwright", ["documents", "serve"]);
/// Options of that program that may stand before its command with a value behind them.
const WITH_VALUES: [&str; 2] = ["--lab", "--color"];
/// Programs that connect to a server to look after it or to look at it. They are no
/// application of the load, and are noise where they take processors.
const KEEPERS: [&str; 14] = [
    "pg_dump",
    "pg_dumpall",
    "pg_restore",
    "pg_basebackup",
    "pg_receivewal",
    "pg_recvlogical",
    "pgbackrest",
    "vacuumdb",
    "reindexdb",
    "walwright",
    "postgres_exporter",
    "pgwatch",
    "pg_activity",
    "pgcenter",
];
/// Letters of its name that the kernel keeps (`TASK_COMM_LEN` less its end).
const COMM: usize = 15;
/// Words of a command line that may be its script: after the interpreter and its options.
const WORDS: usize = 4;

/// How programs that run scripts are called, with or without a version after it.
const INTERPRETERS: [&str; 11] =
    ["python", "node", "ruby", "java", "perl", "php", "deno", "bun", "tclsh", "bash", "sh"];
/// Endings of scripts, which may be left out of a name.
const SCRIPTS: [&str; 8] = ["js", "mjs", "py", "rb", "jar", "sh", "pl", "php"];

/// A part in the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Application,
    Generator,
    Pooler,
}

impl Part {
    /// The stored name of the group that a command of this part is summed in.
    pub(crate) fn group(self, name: &str) -> String {
        match self {
            Part::Application if name == DOCUMENTS.0 => {
                format!("application: {} {}", DOCUMENTS.0, DOCUMENTS.1[0])
            }
            Part::Application => format!("application: {name}"),
            Part::Generator => format!("load generator: {name}"),
            Part::Pooler if name == GATEWAY.0 => format!("pooler: {} {}", GATEWAY.0, GATEWAY.1),
            Part::Pooler => format!("pooler: {name}"),
        }
    }
}

/// Tells parts apart; remembers what a process was found to be, since its command line
/// costs a reading.
#[derive(Debug)]
pub(crate) struct Casting {
    parts: LoadParts,
    own: u32,
    /// By PID and start.
    known: HashMap<(u32, u64), Option<Part>>,
}

impl Casting {
    pub(crate) fn new(parts: LoadParts) -> Self {
        Casting { parts, own: std::process::id(), known: HashMap::new() }
    }

    /// Whether anybody can have a part.
    pub(crate) fn is_idle(&self) -> bool {
        self.parts == LoadParts::default()
    }

    /// The part of a process; `parents` gives the parent of each. One that is `connected`
    /// to the server and is nothing else is the application.
    pub(crate) fn part(
        &mut self,
        pid: u32,
        stat: &Stat,
        parents: &HashMap<u32, u32>,
        connected: bool,
    ) -> Option<Part> {
        if self.is_idle() || stat.kernel {
            return None;
        }
        let key = (pid, stat.started);
        let connected = connected && self.parts.recognise && pid != self.own;
        if let Some(known) = self.known.get(&key).filter(|known| known.is_some() || !connected) {
            return *known;
        }
        let line = title(pid).unwrap_or_default();
        let keeps = || {
            KEEPERS.iter().any(|name| is_called(name, &stat.comm, &line)) && !is_documents(&line)
        };
        let found = self
            .find(pid, &stat.comm, &line, parents)
            .or_else(|| (connected && !keeps()).then_some(Part::Application));
        // Right after the fork a process has its parent's name.
        if found.is_some() || self.known.len() > 100_000 {
            self.known.retain(|(pid, _), _| parents.contains_key(pid));
        }
        if found.is_some() || !line.is_empty() {
            self.known.insert(key, found);
        }
        found
    }

    fn find(&self, pid: u32, comm: &str, line: &str, parents: &HashMap<u32, u32>) -> Option<Part> {
        let parts = &self.parts;
        let named = |names: &[ProcessName]| {
            names.iter().any(|name| match name {
                ProcessName::Pid(root) => descends(pid, *root, parents),
                ProcessName::Name(name) => is_called(name, comm, line),
            })
        };
        let recognised = |names: &[&str]| {
            parts.recognise && names.iter().any(|name| is_called(name, comm, line))
        };
        if named(&parts.applications) {
            Some(Part::Application)
        } else if named(&parts.generators) {
            Some(Part::Generator)
        } else if named(&parts.poolers)
            || recognised(&POOLERS)
            || parts.recognise && is_gateway(line)
        {
            Some(Part::Pooler)
        } else if recognised(&GENERATORS)
            || (parts.children_generate && pid != self.own && descends(pid, self.own, parents))
        {
            Some(Part::Generator)
        } else {
            None
        }
    }
}

/// Whether `pid` is `root` or descends from it.
pub(super) fn descends(pid: u32, root: u32, parents: &HashMap<u32, u32>) -> bool {
    let mut at = pid;
    // The tree of processes is never so deep; a PID used anew may make a ring.
    for _ in 0..64 {
        if at == root {
            return true;
        }
        match parents.get(&at) {
            Some(parent) if *parent > 0 => at = *parent,
            _ => return false,
        }
    }
    false
}

/// Whether a process is called so: its command, its program, or the script that an
/// interpreter runs.
fn is_called(name: &str, comm: &str, line: &str) -> bool {
    let short: String = name.chars().take(COMM).collect();
    let mut words = line.split(' ').take(WORDS).filter(|word| !word.is_empty());
    let program = file(words.next().unwrap_or_default());
    if comm == short || program == name {
        return true;
    }
    let interpreted = INTERPRETERS.iter().any(|interpreter| program.starts_with(interpreter));
    // After -c follow commands, of which the first may be any of a shell's own.
    let mut scripts = words.take_while(|word| *word != "-c").map(file);
    interpreted
        && scripts.any(|script| {
            let stem = script.rsplit_once('.').filter(|(_, kind)| SCRIPTS.contains(kind));
            script == name || stem.is_some_and(|(stem, _)| stem == name)
        })
}

/// Whether a command line starts walwright's gateway, and not what looks at one or checks one.
pub(super) fn is_gateway(line: &str) -> bool {
    let mut words = commands(line, GATEWAY.0);
    words.next() == Some(GATEWAY.1) && words.next().is_some_and(|word| word.starts_with('-'))
}

/// Whether a command line starts the document service, whose sessions are an application's.
fn is_documents(line: &str) -> bool {
    commands(line, DOCUMENTS.0).take(2).eq(DOCUMENTS.1)
}

/// The words of a command line of a program from its command on; none of another program.
fn commands<'l>(line: &'l str, program: &'l str) -> impl Iterator<Item = &'l str> {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let is_it = words.next().map(file) == Some(program);
    let mut value = false;
    let words = words.skip_while(move |word| {
        let is_value = std::mem::replace(&mut value, WITH_VALUES.contains(word));
        is_value || word.starts_with('-')
    });
    words.filter(move |_| is_it)
}

/// A path's last part.
fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn casting(parts: LoadParts) -> Casting {
        Casting::new(parts)
    }

    #[test]
    fn programs_and_scripts_are_known_by_name() {
        for (name, comm, line) in [
            ("pgbench", "pgbench", "pgbench -c 4"),
            ("server.js", "node", "node --inspect /srv/app/server.js"),
            ("locust", "python3", "/usr/bin/python3 /usr/local/bin/locust -f a.py"),
            ("autocannon", "node", "node /x/bin/autocannon.js -c 9"),
            ("a-very-long-name-of-a-program", "a-very-long-nam", ""),
        ] {
            assert!(is_called(name, comm, line), "{name} {line}");
        }
        for (name, comm, line) in [
            ("ab", "bash", "bash -c ab.txt-not"),
            ("ab", "bash", "bash -c ab 5"),
            ("node", "notnode", "/bin/notnode"),
            ("pgbench", "vim", "vim pgbench"),
        ] {
            assert!(!is_called(name, comm, line), "{name} {line}");
        }
    }

    #[test]
    fn a_pid_stands_for_all_that_descend_from_it() {
        let parents = HashMap::from([(30, 20), (20, 10), (10, 1), (1, 0), (40, 1)]);
        assert!(descends(30, 10, &parents) && descends(10, 10, &parents));
        assert!(!descends(40, 10, &parents) && !descends(99, 10, &parents));
        let ring = HashMap::from([(5, 6), (6, 5)]);
        assert!(!descends(5, 7, &ring));
    }

    #[test]
    fn what_someone_named_comes_before_what_is_recognised() {
        let parents = HashMap::from([(50, 1), (1, 0)]);
        let named = LoadParts {
            applications: vec!["pgbench".into()],
            recognise: true,
            ..LoadParts::default()
        };
        let find = |casting: &Casting, comm: &str| casting.find(50, comm, comm, &parents);
        assert_eq!(find(&casting(named), "pgbench"), Some(Part::Application));
        let recognising = casting(LoadParts { recognise: true, ..LoadParts::default() });
        assert_eq!(find(&recognising, "pgbench"), Some(Part::Generator));
        assert_eq!(find(&recognising, "pgbouncer"), Some(Part::Pooler));
        let gateway =
            recognising.find(50, "walwright", "/a/walwright gateway --server x", &parents);
        assert_eq!(gateway, Some(Part::Pooler));
        assert_eq!(Part::Pooler.group("walwright"), "pooler: walwright gateway");
        let top = recognising.find(50, "walwright", "walwright gateway top x", &parents);
        assert_eq!(top, None);
        for other in ["walwright run -c 4", "walwright --lab gateway run -c 4"] {
            assert_eq!(recognising.find(50, "walwright", other, &parents), None, "{other}");
        }
        assert_eq!(find(&recognising, "backup"), None);
        assert_eq!(find(&casting(LoadParts::default()), "pgbench"), None);
    }

    #[test]
    fn who_is_connected_and_nothing_else_is_the_application() {
        let mut casting =
            casting(LoadParts { recognise: true, children_generate: true, ..LoadParts::default() });
        let stat = |comm: &str, started: u64| {
            let text = format!("9 ({comm}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {started} 0 0");
            Stat::parse(&text, 100.0).unwrap()
        };
        // No such process lives, so its command alone tells.
        let pid = u32::MAX;
        let parents = HashMap::from([(pid, 1)]);
        let mut part = |comm: &str, started, connected| {
            casting.part(pid, &stat(comm, started), &parents, connected)
        };
        assert_eq!(part("shop", 1, false), None);
        assert_eq!(part("shop", 1, true), Some(Part::Application));
        assert_eq!(part("shop", 1, false), Some(Part::Application), "between two connections");
        assert_eq!(part("pg_dump", 2, true), None);
        assert_eq!(part("pgbench", 3, true), Some(Part::Generator));
        assert_eq!(part("pgbouncer", 4, true), Some(Part::Pooler));
    }

    #[test]
    fn the_document_service_is_an_application() {
        for line in [
            "/usr/bin/walwright documents serve --dsn x",
            "walwright --lab /a/b --quiet documents serve",
            "walwright --color never --lab=c documents serve",
        ] {
            assert!(is_documents(line), "{line}");
        }
        for line in ["walwright documents model", "walwright serve", "vim documents serve", ""] {
            assert!(!is_documents(line), "{line}");
        }
        assert!(is_gateway("/a/walwright --lab x gateway --server y"));
        assert!(!is_gateway("walwright --lab x gateway top --server y"));
        assert_eq!(Part::Application.group("walwright"), "application: walwright documents");
    }

    #[test]
    fn a_number_is_a_pid() {
        assert_eq!(ProcessName::from("812"), ProcessName::Pid(812));
        assert_eq!(ProcessName::from("gunicorn"), ProcessName::Name("gunicorn".to_owned()));
    }
}
