//! What a person can do about a finding: a change that can be typed and undone.

use serde::Serialize;

use crate::Gain;
pub use walwright_catalog::DurabilityClass;

/// The change itself, exact enough to be typed or executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Change {
    /// A setting of the server.
    Setting {
        /// Name.
        name: String,
        /// New value with its unit, as in `postgresql.conf`.
        value: String,
    },
    /// SQL that changes no schema: `VACUUM`, `ALTER ROLE … SET`.
    Sql {
        /// The statement.
        sql: String,
    },
    /// SQL that changes the schema.
    Ddl {
        /// The statement.
        sql: String,
    },
    /// A value of the kernel: a sysctl name or a file of `/sys`.
    Kernel {
        /// Name or path.
        name: String,
        /// New value.
        value: String,
    },
    /// An option of a client, pooler or load generator.
    ClientOption {
        /// Name, or the change in the client's own words.
        option: String,
    },
    /// A change that only a person can make: in the application, the plan, the machine.
    Advice,
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Nothing more.
    Nothing,
    /// A reload of the server's configuration.
    Reload,
    /// New sessions.
    NewSessions,
    /// A restart of the server.
    Restart,
}

impl Needs {
    /// What a change of a setting with this `pg_settings.context` needs.
    pub fn of_context(context: &str) -> Needs {
        match context {
            "postmaster" => Needs::Restart,
            "backend" | "superuser-backend" => Needs::NewSessions,
            // `user` and `superuser` settings written to the configuration file.
            _ => Needs::Reload,
        }
    }

    /// In words, for display.
    pub fn words(self) -> &'static str {
        match self {
            Needs::Nothing => "takes effect at once",
            Needs::Reload => "needs a reload",
            Needs::NewSessions => "needs new sessions",
            Needs::Restart => "needs a restart",
        }
    }
}

/// Something to do about a finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Action {
    /// What and why, one sentence.
    pub text: String,
    /// The change.
    pub change: Change,
    /// What it can lose.
    pub class: DurabilityClass,
    /// What it needs to take effect.
    pub needs: Needs,
    /// What undoes it, to be typed like the change; `None` for advice.
    pub rollback: Option<String>,
    /// What it is predicted to gain, where that is not what fixing the finding gains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<Box<Gain>>,
}

impl Action {
    /// Advice for a person, of class S.
    pub fn advice(text: impl Into<String>) -> Self {
        Action {
            text: text.into(),
            change: Change::Advice,
            class: DurabilityClass::S,
            needs: Needs::Nothing,
            rollback: None,
            gain: None,
        }
    }

    /// A change of the schema, of class S, with the statement that undoes it.
    pub fn ddl(
        text: impl Into<String>,
        sql: impl Into<String>,
        rollback: impl Into<String>,
    ) -> Self {
        Action {
            text: text.into(),
            change: Change::Ddl { sql: sql.into() },
            class: DurabilityClass::S,
            needs: Needs::Nothing,
            rollback: Some(rollback.into()),
            gain: None,
        }
    }

    /// SQL that changes no schema, of class S.
    pub fn sql(text: impl Into<String>, sql: impl Into<String>, rollback: Option<String>) -> Self {
        Action {
            text: text.into(),
            change: Change::Sql { sql: sql.into() },
            class: DurabilityClass::S,
            needs: Needs::Nothing,
            rollback,
            gain: None,
        }
    }

    /// A kernel value, of class E; `now` is the value to go back to.
    pub fn kernel(text: impl Into<String>, name: &str, value: &str, now: Option<&str>) -> Self {
        Action {
            text: text.into(),
            change: Change::Kernel { name: name.to_owned(), value: value.to_owned() },
            class: DurabilityClass::E,
            needs: Needs::Nothing,
            rollback: now.map(|now| kernel_command(name, now)),
            gain: None,
        }
    }

    /// An option of a client, of class E.
    pub fn client(text: impl Into<String>, option: impl Into<String>) -> Self {
        Action {
            text: text.into(),
            change: Change::ClientOption { option: option.into() },
            class: DurabilityClass::E,
            needs: Needs::NewSessions,
            rollback: Some("set the option back".to_owned()),
            gain: None,
        }
    }

    /// The same action with another class.
    #[must_use]
    pub fn class(mut self, class: DurabilityClass) -> Self {
        self.class = class;
        self
    }

    /// What to type; `None` for advice.
    pub fn command(&self) -> Option<String> {
        match &self.change {
            Change::Setting { name, value } => {
                Some(format!("ALTER SYSTEM SET {name} = '{}';", value.replace('\'', "''")))
            }
            Change::Sql { sql } | Change::Ddl { sql } => Some(sql.clone()),
            Change::Kernel { name, value } => Some(kernel_command(name, value)),
            Change::ClientOption { option } => Some(option.clone()),
            Change::Advice => None,
        }
    }
}

/// The command that writes a kernel value.
fn kernel_command(name: &str, value: &str) -> String {
    if name.starts_with('/') {
        format!("echo {value} > {name}")
    } else {
        format!("sysctl -w {name}='{value}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_exact() {
        let setting = Action {
            change: Change::Setting { name: "x".to_owned(), value: "it's".to_owned() },
            ..Action::advice("")
        };
        assert_eq!(setting.command().unwrap(), "ALTER SYSTEM SET x = 'it''s';");
        let sysctl = Action::kernel("", "vm.dirty_ratio", "10", Some("20"));
        assert_eq!(sysctl.command().unwrap(), "sysctl -w vm.dirty_ratio='10'");
        assert_eq!(sysctl.rollback.unwrap(), "sysctl -w vm.dirty_ratio='20'");
        let file = Action::kernel("", "/sys/block/vda/queue/read_ahead_kb", "4096", None);
        assert_eq!(file.command().unwrap(), "echo 4096 > /sys/block/vda/queue/read_ahead_kb");
        assert_eq!(Action::advice("think").command(), None);
    }

    #[test]
    fn a_setting_needs_what_its_context_says() {
        assert_eq!(Needs::of_context("postmaster"), Needs::Restart);
        assert_eq!(Needs::of_context("sighup"), Needs::Reload);
        assert_eq!(Needs::of_context("user"), Needs::Reload);
        assert_eq!(Needs::of_context("superuser-backend"), Needs::NewSessions);
    }
}
