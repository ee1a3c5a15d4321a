//! The command that makes the load, as walwright sees it: through its guard.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::oneshot;

use super::RecordError;
use super::plan::CommandPlan;

/// A command under way.
pub(super) struct Child {
    guard: Pid,
    ended: oneshot::Receiver<Option<i32>>,
    /// Once it has ended.
    code: Option<Option<i32>>,
}

impl Child {
    /// Starts it.
    pub fn start(plan: &CommandPlan) -> Result<Child, RecordError> {
        let program = shown(plan);
        let failed = |source| RecordError::Start { program: program.clone(), source };
        let Some((guard, arguments)) = plan.guard.split_first() else {
            return Err(RecordError::Internal("the guard of the command"));
        };
        let mut command = Command::new(guard);
        command.args(arguments).arg(std::process::id().to_string()).arg("--").args(&plan.words);
        if plan.keep_out_clear {
            let stderr = std::io::stderr();
            let copy = std::os::fd::AsFd::as_fd(&stderr).try_clone_to_owned().map_err(&failed)?;
            command.stdout(Stdio::from(copy));
        }
        let (started, has_started) = std::sync::mpsc::sync_channel(1);
        let (done, ended) = oneshot::channel();
        // The kernel tells the guard of the death of the thread that started it, so
        // that thread stays until the guard has ended.
        std::thread::Builder::new()
            .name("command-guard".to_owned())
            .spawn(move || match command.spawn() {
                Ok(mut guard) => {
                    let _ = started.send(Ok(guard.id()));
                    let code = guard.wait().ok().and_then(|status| status.code());
                    // Nobody may wait any more.
                    let _ = done.send(code);
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            })
            .map_err(&failed)?;
        let pid = has_started
            .recv()
            .map_err(|_| RecordError::Internal("starting the command"))?
            .map_err(&failed)?;
        Ok(Child { guard: Pid::from_raw(pid.cast_signed()), ended, code: None })
    }

    /// Waits for its end; its exit code, `None` where the guard was killed.
    pub async fn ended(&mut self) -> Option<i32> {
        if let Some(code) = self.code {
            return code;
        }
        let code = (&mut self.ended).await.ok().flatten();
        self.code = Some(code);
        code
    }

    /// Asks it to end. The guard sees to it that it does.
    pub fn end(&mut self) {
        // While the code is not known the guard has not been waited for, or that was a
        // moment ago: its PID is not used anew so soon.
        if self.code.is_none() && self.ended.is_empty() {
            let _ = kill(self.guard, Signal::SIGINT);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// The command for a person.
pub(super) fn shown(plan: &CommandPlan) -> String {
    plan.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The name of the program that makes the load: behind `env`, what env starts.
pub(super) fn name_of_load(plan: &CommandPlan) -> String {
    let words: Vec<String> = plan.words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let name = |word: &String| word.rsplit('/').next().unwrap_or(word).to_owned();
    let by_env = words.first().is_some_and(|word| name(word) == "env");
    let of_env = |word: &&String| by_env && (word.starts_with('-') || word.contains('='));
    let started = words.iter().skip(usize::from(by_env)).find(|word| !of_env(word));
    started.or(words.first()).map(name).unwrap_or_default()
}

/// That the program is there, so that nothing is recorded of a mistyped one.
pub(super) fn find_program(plan: &CommandPlan) -> Result<PathBuf, RecordError> {
    let program = plan.words.first().map_or(OsStr::new(""), |word| word.as_os_str());
    let missing = || RecordError::NoProgram { program: program.to_string_lossy().into_owned() };
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.to_string_lossy().contains('/') {
        let path = PathBuf::from(program);
        return if executable(&path) { Ok(path) } else { Err(missing()) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| !program.is_empty() && executable(path))
        .ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(program: &str) -> CommandPlan {
        CommandPlan { words: vec![program.into()], guard: Vec::new(), keep_out_clear: false }
    }

    #[test]
    fn a_load_has_the_name_of_what_makes_it() {
        let name = |words: &[&str]| {
            let words = words.iter().map(Into::into).collect();
            name_of_load(&CommandPlan { words, ..plan("") })
        };
        assert_eq!(name(&["/usr/bin/pgbench", "-T", "60"]), "pgbench");
        assert_eq!(name(&["env", "-i", "PGHOST=/a/b", "bin/pgbench", "-D", "a=1"]), "pgbench");
        assert_eq!(name(&["env"]), "env");
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        assert!(find_program(&plan("sh")).is_ok());
        assert!(find_program(&plan("/bin/sh")).is_ok());
        for (wrong, words) in [
            ("pgbnch-of-nobody", "'pgbnch-of-nobody' in the directories of PATH"),
            ("/proc/version", "'/proc/version'"),
            ("", "''"),
        ] {
            let error = find_program(&plan(wrong)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
