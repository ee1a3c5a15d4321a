//! Where workloads come from, and writing one to a directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use super::builtin::{BUILTINS, PGBENCH_SCRIPTS};
use super::{
    ClientDefaults, Origin, PassMark, Settings, SideMeasurement, Workload, WorkloadError,
    WorkloadOption,
};
use crate::duration::parse_nonzero;
use crate::manifest::Manifest;
use crate::script::{ScriptSource, closest};

/// The file that makes a directory a workload.
pub const MANIFEST_FILE: &str = "workload.toml";

/// Most bytes of one file of a workload: what is named may be a device that never ends.
const LARGEST: u64 = 64 << 20;

/// The names of the built-in workloads, the default first.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTINS.iter().map(|(name, _)| *name)
}

/// The built-in script of pgbench that has this name, or whose name alone begins so.
fn builtin_script(
    name: &str,
) -> Result<&'static (&'static str, &'static str, &'static str), WorkloadError> {
    let mut found = PGBENCH_SCRIPTS.iter().filter(|(known, ..)| known.starts_with(name));
    match (found.next(), found.next()) {
        (Some(script), None) => Ok(script),
        _ => Err(WorkloadError::UnknownScript {
            name: name.to_owned(),
            known: PGBENCH_SCRIPTS.iter().map(|(known, ..)| *known).collect::<Vec<_>>().join(", "),
        }),
    }
}

impl Workload {
    /// The built-in workload of this name, or else the workload in the
    /// directory of this name.
    ///
    /// # Errors
    /// When it is neither, or the directory is not a sound workload.
    pub fn find(name: &str) -> Result<Workload, WorkloadError> {
        match Workload::builtin(name) {
            Err(WorkloadError::Unknown { .. }) if Path::new(name).is_dir() => {
                Workload::load_dir(Path::new(name))
            }
            found => found,
        }
    }

    /// A built-in workload.
    ///
    /// # Errors
    /// When there is none of this name; the error lists those there are.
    pub fn builtin(name: &str) -> Result<Workload, WorkloadError> {
        let Some((_, files)) = BUILTINS.iter().find(|(builtin, _)| *builtin == name) else {
            return Err(WorkloadError::Unknown {
                name: name.to_owned(),
                near: closest(name, builtin_names()).map(str::to_owned),
                known: builtin_names().collect::<Vec<_>>().join(", "),
            });
        };
        let read = |file: &str| {
            let found = files.iter().find(|(name, _)| *name == file);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| WorkloadError::Read {
                path: PathBuf::from(name).join(file),
                source: std::io::ErrorKind::NotFound.into(),
            })
        };
        load(Origin::Builtin, name, &read)
    }

    /// The workload in a directory with a `workload.toml`.
    ///
    /// # Errors
    /// When a file cannot be read, or anything in one is wrong: the workload
    /// is planned with its default settings, so scripts, SQL files and
    /// expressions are checked too.
    pub fn load_dir(directory: &Path) -> Result<Workload, WorkloadError> {
        let read = |file: &str| read_file(&directory.join(file));
        let origin = Origin::Directory(directory.to_owned());
        load(origin, &directory.display().to_string(), &read)
    }

    /// A workload of script files alone: no schema, no data, no checks.
    ///
    /// # Errors
    /// When a file cannot be read. Faults in scripts are found by
    /// [`Workload::plan`], since a script may need variables that are defined
    /// only there.
    pub fn from_scripts(scripts: &[(PathBuf, u32)]) -> Result<Workload, WorkloadError> {
        let text = "name = \"scripts\"\ntitle = \"Script files\"\n";
        let manifest = parse_manifest(MANIFEST_FILE, text)?;
        let empty = Workload {
            name: manifest.name.clone(),
            title: manifest.title.clone(),
            description: String::new(),
            origin: Origin::Scripts,
            defaults: ClientDefaults {
                scale: manifest.defaults.scale,
                clients: manifest.defaults.clients,
                protocol: manifest.defaults.protocol,
            },
            options: Vec::new(),
            scripts: Vec::new(),
            pass_mark: None,
            side: None,
            manifest,
            files: vec![(MANIFEST_FILE.to_owned(), text.to_owned())],
        };
        let mut workload = empty.with_scripts(scripts)?;
        workload.name = named_after(scripts);
        Ok(workload)
    }

    /// A workload of files of requests alone.
    ///
    /// # Errors
    /// As [`Workload::from_scripts`].
    pub fn from_requests(files: &[(PathBuf, u32)]) -> Result<Workload, WorkloadError> {
        let mut workload = Workload::from_scripts(files)?;
        workload.origin = Origin::Requests;
        Ok(workload)
    }

    /// The query whose only value is the scale that tables which are there already
    /// were filled at, if the workload knows one.
    pub fn scale_sql(&self) -> Option<&str> {
        self.manifest.defaults.scale_sql.as_deref()
    }

    /// The same schema and data with other scripts, or some of its own, which are known by their
    /// names in its directory where there is no such file. The checks, the pass mark and the side
    /// measurement go, since they belong to all of the old scripts together.
    ///
    /// # Errors
    /// As [`Workload::from_scripts`].
    pub fn with_scripts(self, scripts: &[(PathBuf, u32)]) -> Result<Workload, WorkloadError> {
        let read = |(path, weight): &(PathBuf, u32)| {
            let name = path.display().to_string();
            let is_own = self.manifest.scripts.iter().any(|script| script.file == name);
            let text = match is_own && !path.exists() {
                true => self.file(&name)?.to_owned(),
                false => read_file(path)?,
            };
            Ok(ScriptSource { name, text, weight: *weight })
        };
        let sources = scripts.iter().map(read).collect::<Result<_, WorkloadError>>()?;
        self.with_sources(sources)
    }

    /// pgbench's built-in scripts, each by its name there or a unique beginning of it, and
    /// script files, on pgbench's tables. One built-in script alone is the workload that
    /// runs it, with its checks.
    ///
    /// # Errors
    /// When a name is none, or stands for several; and as [`Workload::with_scripts`].
    pub fn from_builtin_scripts(
        scripts: &[(&str, u32)],
        files: &[(PathBuf, u32)],
    ) -> Result<Workload, WorkloadError> {
        let mut found = Vec::new();
        for (name, weight) in scripts {
            found.push((builtin_script(name)?, *weight));
        }
        if let ([((_, workload, _), weight)], []) = (&found[..], files)
            && *weight > 0
        {
            return Workload::builtin(workload);
        }
        let mut sources: Vec<ScriptSource> = found
            .iter()
            .map(|((name, _, text), weight)| ScriptSource {
                name: (*name).to_owned(),
                text: (*text).to_owned(),
                weight: *weight,
            })
            .collect();
        for (path, weight) in files {
            let (name, text) = (path.display().to_string(), read_file(path)?);
            sources.push(ScriptSource { name, text, weight: *weight });
        }
        let mut workload = Workload::builtin("tpcb")?;
        workload.name =
            sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", ");
        workload.with_sources(sources)
    }

    fn with_sources(mut self, scripts: Vec<ScriptSource>) -> Result<Workload, WorkloadError> {
        for script in &self.manifest.scripts {
            self.files.retain(|(name, _)| *name != script.file);
        }
        self.scripts.clear();
        self.manifest.scripts.clear();
        self.manifest.checks.clear();
        self.pass_mark = None;
        self.side = None;
        for script in scripts {
            let (file, weight) = (self.free_name(Path::new(&script.name)), script.weight);
            self.manifest.scripts.push(crate::manifest::ScriptEntry { file: file.clone(), weight });
            self.files.push((file, script.text.clone()));
            self.scripts.push(script);
        }
        self.rewrite_manifest()?;
        Ok(self)
    }

    /// A name in the exported directory that no other file has.
    fn free_name(&self, path: &Path) -> String {
        let base = path.file_name().map_or("script.sql".into(), |name| name.to_string_lossy());
        let taken = |name: &str| self.files.iter().any(|(file, _)| file == name);
        let mut name = base.to_string();
        let mut number = 2;
        while taken(&name) {
            name = format!("{number}-{base}");
            number += 1;
        }
        name
    }

    /// Brings the text of the manifest in line after the scripts changed.
    fn rewrite_manifest(&mut self) -> Result<(), WorkloadError> {
        let Some((_, text)) = self.files.iter_mut().find(|(name, _)| name == MANIFEST_FILE) else {
            return Ok(());
        };
        let fault =
            |message: String| WorkloadError::Toml { file: MANIFEST_FILE.to_owned(), message };
        let mut table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| fault(error.to_string()))?;
        for key in ["check", "pass_mark", "side"] {
            table.remove(key);
        }
        let scripts = self.manifest.scripts.iter().map(|script| {
            let mut entry = toml::Table::new();
            entry.insert("file".into(), script.file.clone().into());
            entry.insert("weight".into(), i64::from(script.weight).into());
            toml::Value::Table(entry)
        });
        table.insert("script".into(), toml::Value::Array(scripts.collect()));
        *text = toml::to_string(&table).map_err(|error| fault(error.to_string()))?;
        Ok(())
    }

    /// The files of the workload with their texts, `workload.toml` first: what
    /// [`Workload::export`] writes, and what a record keeps to be complete.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Writes the workload to a new directory, as a start for one's own.
    ///
    /// # Errors
    /// When the directory already holds a file, or writing fails.
    pub fn export(&self, directory: &Path) -> Result<(), WorkloadError> {
        for (name, _) in self.files() {
            let path = directory.join(name);
            if path.exists() {
                return Err(WorkloadError::Exists(path));
            }
        }
        for (name, text) in self.files() {
            let path = directory.join(name);
            let parent = path.parent().unwrap_or(directory);
            std::fs::create_dir_all(parent)
                .and_then(|()| std::fs::write(&path, text))
                .map_err(|source| WorkloadError::Write { path, source })?;
        }
        Ok(())
    }

    /// The text of a file of the workload.
    pub(crate) fn file(&self, name: &str) -> Result<&str, WorkloadError> {
        self.files().find(|(file, _)| *file == name).map(|(_, text)| text).ok_or_else(|| {
            WorkloadError::Read {
                path: PathBuf::from(self.shown(name)),
                source: std::io::ErrorKind::NotFound.into(),
            }
        })
    }

    /// How a file is named in messages.
    pub(crate) fn shown(&self, file: &str) -> String {
        match &self.origin {
            Origin::Directory(directory) => directory.join(file).display().to_string(),
            Origin::Builtin => format!("{}/{file}", self.name),
            Origin::Scripts | Origin::Requests => file.to_owned(),
        }
    }
}

/// What a list of runs calls a workload of script files.
fn named_after(scripts: &[(PathBuf, u32)]) -> String {
    let names: Vec<_> = scripts
        .iter()
        .map(|(path, _)| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy())
        .collect();
    match names.as_slice() {
        [first, _, _, rest @ ..] if !rest.is_empty() => {
            format!("{first} and {} more", names.len() - 1)
        }
        few => few.join(", "),
    }
}

fn read_file(path: &Path) -> Result<String, WorkloadError> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
        match text.len() as u64 > LARGEST {
            true => Err(io::Error::other("it is longer than 64 MiB")),
            false => Ok(text),
        }
    };
    read().map_err(|source| WorkloadError::Read { path: path.to_owned(), source })
}

fn parse_manifest(file: &str, text: &str) -> Result<Manifest, WorkloadError> {
    toml::from_str(text).map_err(|error| WorkloadError::Toml {
        file: file.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })
}

fn load(
    origin: Origin,
    place: &str,
    read: &dyn Fn(&str) -> Result<String, WorkloadError>,
) -> Result<Workload, WorkloadError> {
    let manifest_file = Path::new(place).join(MANIFEST_FILE).display().to_string();
    let text = read(MANIFEST_FILE)?;
    let manifest = parse_manifest(&manifest_file, &text)?;
    let fault = |key: String, message: String| WorkloadError::Value {
        file: manifest_file.clone(),
        key,
        message,
    };

    for (key, value) in [("scale", manifest.defaults.scale), ("clients", manifest.defaults.clients)]
    {
        if value == 0 {
            return Err(fault(format!("defaults, {key}"), "it must be at least 1".into()));
        }
    }
    if manifest.scripts.is_empty() {
        let message = "there is none; add [[script]] with file = \"….sql\"";
        return Err(fault("script".into(), message.into()));
    }
    let mut options = Vec::new();
    for (name, entry) in &manifest.options {
        let option = WorkloadOption::from_entry(name, entry);
        options.push(option.map_err(|message| fault(format!("options, {name}"), message))?);
    }

    let mut files = vec![(MANIFEST_FILE.to_owned(), text)];
    let sql = &manifest.sql;
    let sql_files = [
        ("sql, before_load", &sql.before_load),
        ("sql, after_load", &sql.after_load),
        ("sql, before_run", &sql.before_run),
    ];
    let sql_files =
        sql_files.into_iter().flat_map(|(key, names)| names.iter().map(move |name| (key, name)));
    let script_files = manifest.scripts.iter().map(|script| ("script, file", &script.file));
    for (key, name) in sql_files.chain(script_files) {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !inside {
            let message =
                format!("\"{name}\" is not the name of a file inside the workload's directory");
            return Err(fault(key.into(), message));
        }
        if files.iter().all(|(file, _)| file != name) {
            files.push((name.clone(), read(name)?));
        }
    }

    let pass_mark = match &manifest.pass_mark {
        None => None,
        Some(entry) => Some(PassMark {
            description: entry.description.clone(),
            mean_latency: parse_nonzero(&entry.mean_latency)
                .map_err(|message| fault("pass_mark, mean_latency".into(), message))?,
            clients: entry.clients,
        }),
    };
    let side = match &manifest.side {
        None => None,
        Some(entry) => Some(SideMeasurement {
            name: entry.name.clone(),
            description: entry.description.clone(),
            sql: entry.sql.clone(),
            every: parse_nonzero(&entry.every)
                .map_err(|message| fault("side, every".into(), message))?,
        }),
    };

    let mut workload = Workload {
        name: manifest.name.clone(),
        title: manifest.title.clone(),
        description: manifest.description.trim().to_owned(),
        origin,
        defaults: ClientDefaults {
            scale: manifest.defaults.scale,
            clients: manifest.defaults.clients,
            protocol: manifest.defaults.protocol,
        },
        options,
        scripts: Vec::new(),
        pass_mark,
        side,
        manifest,
        files,
    };
    let mut scripts = Vec::new();
    for script in &workload.manifest.scripts {
        scripts.push(ScriptSource {
            name: workload.shown(&script.file),
            text: workload.file(&script.file)?.to_owned(),
            weight: script.weight,
        });
    }
    workload.scripts = scripts;
    workload.plan(&Settings::of(&workload))?;
    Ok(workload)
}
