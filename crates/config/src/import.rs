//! Profiles made of configurations that are there: files, and what a server shows.

use serde::Serialize;
use walwright_catalog::{Configuration, Entry, Profile, holds_password, is_secret, parameter};
use walwright_record::Setting;

use super::ServerView;

/// A setting that is no part of the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Name.
    pub name: String,
    /// Value; `None` of one that may hold a password.
    pub value: Option<String>,
    /// Why it is left out.
    pub why: String,
}

/// A profile made of something else.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The profile.
    pub profile: Profile,
    /// What is no part of it.
    pub left_out: Vec<LeftOut>,
}

/// Sources of `pg_settings` whose values someone has chosen for the server as a whole.
const CHOSEN: [&str; 3] = ["configuration file", "command line", "environment variable"];

/// What comes after the files, for some sessions alone: its value hides theirs.
fn overridden(source: &str) -> Option<&'static str> {
    Some(match source {
        "global" => "set for all roles by ALTER ROLE ALL",
        "user" => "set for this role by ALTER ROLE",
        "database" => "set for this database by ALTER DATABASE",
        "database user" => "set for this role in this database by ALTER ROLE IN DATABASE",
        "client" | "session" => "set by the connection itself",
        _ => return None,
    })
}

impl Imported {
    /// What can be read of a `config.env`.
    pub fn of_config_env(bytes: &[u8]) -> Imported {
        let (profile, problems) = Profile::read_config_env(bytes);
        let left_out = problems.into_iter().map(|problem| LeftOut {
            name: problem.key.unwrap_or_else(|| format!("line {}", problem.line)),
            value: problem.value,
            why: format!("line {}: {}", problem.line, problem.what),
        });
        Imported { left_out: left_out.collect(), profile }
    }

    /// The settings in force of a `postgresql.conf` with what it includes, or of a
    /// `postgresql.auto.conf`.
    pub fn of_configuration(configuration: &Configuration) -> Imported {
        let mut imported = Imported { profile: Profile::default(), left_out: Vec::new() };
        for (name, assignment) in &configuration.settings {
            let file = assignment.file.file_name().unwrap_or_default().to_string_lossy();
            let remark = format!("# {file}:{}", assignment.line);
            imported.add(name, &assignment.value, &remark);
        }
        imported
    }

    /// The settings of a server that are not its defaults, as far as its files, its
    /// command line and its environment set them.
    ///
    /// What its role or database overrides is left out and told: what the files say of it
    /// does not show in this session.
    pub fn of_server(server: &ServerView) -> Imported {
        Imported::of_settings(&server.settings)
    }

    fn of_settings(settings: &[Setting]) -> Imported {
        let mut imported = Imported { profile: Profile::default(), left_out: Vec::new() };
        for setting in settings {
            if let Some(by) = overridden(&setting.source) {
                // A connection always names itself and its encodings.
                let of_connection = ["client", "session"].contains(&setting.source.as_str());
                if of_connection && parameter(&setting.name).is_none() {
                    continue;
                }
                let secret = is_secret(&setting.name) || holds_password(&setting.shown);
                imported.left_out.push(LeftOut {
                    name: setting.name.clone(),
                    value: (!secret).then(|| setting.shown.clone()),
                    why: format!("{by}, which hides what the files say"),
                });
                continue;
            }
            if !CHOSEN.contains(&setting.source.as_str()) {
                continue;
            }
            let remark = match &setting.source_file {
                Some(file) => {
                    let name = file.rsplit('/').next().unwrap_or(file);
                    format!("# {name}")
                }
                None => format!("# {}", setting.source),
            };
            imported.add(&setting.name, &setting.shown, &remark);
        }
        imported
    }

    fn add(&mut self, name: &str, value: &str, remark: &str) {
        let mut leave = |value: Option<&str>, why: &str| {
            let value = value.map(str::to_owned);
            self.left_out.push(LeftOut { name: name.to_owned(), value, why: why.to_owned() });
        };
        if is_secret(name) || holds_password(value) {
            return leave(None, "it may hold a password");
        }
        let Some(parameter) = parameter(name).filter(|parameter| parameter.is_setting()) else {
            return leave(Some(value), "the catalogue does not have it");
        };
        match Entry::of(parameter, value, None) {
            Ok(mut entry) => {
                entry.remark = Some(remark.chars().filter(|c| !c.is_control()).collect());
                self.profile.set(entry);
            }
            Err(error) => leave(Some(value), &error.to_string()),
        }
    }

    /// The profile with what was left out as comments at its end, so that nothing is
    /// dropped in silence.
    pub fn with_comments(mut self) -> Profile {
        for left in &self.left_out {
            let value = match &left.value {
                Some(value) => format!(" = {value}"),
                None => String::new(),
            };
            let line = format!("# left out: {}{value} ({})", left.name, left.why);
            self.profile.trailer.push(line.chars().filter(|c| !c.is_control()).collect());
        }
        if !self.left_out.is_empty() {
            self.profile.trailer.insert(0, String::new());
        }
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_profile_and_nothing_is_dropped_in_silence() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("postgresql.conf");
        let text = "shared_buffers = 4GB\nPrimary_ConnInfo = 'host=a password=hush'\n\
                    datestyle = 'iso, mdy'\nwork_mem = 1kB\nmax_wal_size = '16GB'\n\
                    app.conninfo = 'hush'\napp.target = 'postgres://me:hush@db/app'\n\
                    cluster_name = 'password=hush'\n";
        std::fs::write(&path, text).unwrap();
        let imported = Imported::of_configuration(&Configuration::read(&path).unwrap());
        let names: Vec<&str> = imported.left_out.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "app.conninfo",
                "app.target",
                "cluster_name",
                "datestyle",
                "primary_conninfo",
                "work_mem"
            ]
        );
        let env = imported.with_comments().to_config_env();
        assert!(env.contains("PG_SHARED_BUFFERS=4GB # postgresql.conf:1\n"), "{env}");
        assert!(env.contains("# left out: datestyle = iso, mdy (the catalogue does not have it)"));
        assert!(
            env.contains("# left out: work_mem = 1kB (work_mem: 1kB is outside 64 .."),
            "{env}"
        );
        assert!(
            env.contains("primary_conninfo") && env.contains("app.target") && !env.contains("hush"),
            "{env}"
        );
        assert!(Profile::from_config_env(env.as_bytes()).is_ok());
    }

    #[test]
    fn what_a_role_or_database_overrides_is_told() {
        let setting = |name: &str, shown: &str, source: &str| Setting {
            name: name.to_owned(),
            value: shown.to_owned(),
            unit: None,
            shown: shown.to_owned(),
            boot_value: None,
            source: source.to_owned(),
            source_file: None,
            context: "user".to_owned(),
            pending_restart: false,
        };
        let imported = Imported::of_settings(&[
            setting("max_wal_size", "2GB", "configuration file"),
            setting("work_mem", "8MB", "user"),
            setting("synchronous_commit", "off", "database"),
            setting("jit", "off", "database user"),
            setting("autovacuum_naptime", "1min", "global"),
            setting("search_path", "app", "database"),
            setting("app.login", "password=hush", "user"),
            setting("commit_delay", "10", "client"),
            setting("application_name", "walwright", "client"),
            setting("jit_above_cost", "100000", "default"),
        ]);
        let names: Vec<&str> = imported.left_out.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "work_mem",
                "synchronous_commit",
                "jit",
                "autovacuum_naptime",
                "search_path",
                "app.login",
                "commit_delay"
            ]
        );
        let env = imported.with_comments().to_config_env();
        assert!(env.contains("PG_MAX_WAL_SIZE=2GB") && !env.contains("hush"), "{env}");
        let line = "# left out: work_mem = 8MB (set for this role by ALTER ROLE, which hides what the files say)";
        assert!(env.contains(line), "{env}");
    }
}
