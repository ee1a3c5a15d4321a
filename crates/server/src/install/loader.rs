//! Whether a program can be loaded here: its shared libraries and the C library.

use std::path::Path;
use std::process::{Command, Stdio};

/// What keeps a program from being loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadProblem {
    /// Shared libraries the loader could not find.
    pub missing: Vec<String>,
    /// What the loader said, on one line.
    pub(crate) said: String,
}

/// The variable that tells the dynamic loader where to look first.
pub(crate) const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// `lib` in front of what the environment already says.
pub(crate) fn library_path(lib: &Path) -> std::ffi::OsString {
    let mut path = lib.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os(LIBRARY_PATH).filter(|rest| !rest.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    path
}

/// Runs `program --version` and gives what it printed, or why it cannot run.
pub(crate) fn try_run(program: &Path, lib: Option<&Path>) -> Result<String, LoadProblem> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    if let Some(lib) = lib {
        command.env(LIBRARY_PATH, library_path(lib));
    }
    match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let mut missing = missing_libraries(program, lib);
            for name in named_in(&said) {
                if !missing.contains(&name) {
                    missing.push(name);
                }
            }
            let said = said.lines().next().unwrap_or_default().trim();
            Err(LoadProblem {
                missing,
                said: if said.is_empty() { output.status.to_string() } else { said.to_owned() },
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && program.exists() => {
            // The kernel reports the missing ELF interpreter as ENOENT.
            Err(LoadProblem {
                missing: vec!["the GNU C library's loader (ld-linux)".to_owned()],
                said: format!("{} needs the GNU C library", program.display()),
            })
        }
        Err(error) => Err(LoadProblem {
            missing: Vec::new(),
            said: format!("{}: {error}", program.display()),
        }),
    }
}

/// All libraries the loader does not find for `program`, as `ldd` lists them.
pub(crate) fn missing_libraries(program: &Path, lib: Option<&Path>) -> Vec<String> {
    let mut command = Command::new(program);
    // ld.so(8): with this variable set the loader lists and does not run.
    command.env("LD_TRACE_LOADED_OBJECTS", "1").stdin(Stdio::null());
    if let Some(lib) = lib {
        command.env(LIBRARY_PATH, library_path(lib));
    }
    let Ok(output) = command.output() else {
        return Vec::new();
    };
    not_found_in(&String::from_utf8_lossy(&output.stdout))
}

fn not_found_in(listing: &str) -> Vec<String> {
    listing
        .lines()
        .filter_map(|line| line.split_once("=>"))
        .filter(|(_, found)| found.trim_start().starts_with("not found"))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

/// Library names in the loader's own error messages.
fn named_in(said: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in said.lines() {
        if let Some((_, after)) = line.split_once("error while loading shared libraries: ")
            && let Some((name, _)) = after.split_once(':')
        {
            names.push(file_name(name));
        } else if let Some((_, after)) = line.split_once("version `GLIBC_")
            && let Some((version, _)) = after.split_once('\'')
        {
            names.push(format!("glibc {version}"));
        }
    }
    names.dedup();
    names
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_words_are_understood() {
        let listing = "\tlibzstd.so.1 => /lib/libzstd.so.1 (0x7f)\n\tlibxml2.so.2 => not found\n\tliblz4.so.1 => not found\n";
        assert_eq!(not_found_in(listing), ["libxml2.so.2", "liblz4.so.1"]);
        let said = "postgres: error while loading shared libraries: libxml2.so.2: cannot open shared object file: No such file or directory";
        assert_eq!(named_in(said), ["libxml2.so.2"]);
        let short =
            "postgres: error while loading shared libraries: /tmp/x/libxml2.so.2: file too short";
        assert_eq!(named_in(short), ["libxml2.so.2"]);
        let old =
            "postgres: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by postgres)";
        assert_eq!(named_in(old), ["glibc 2.34"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_a_problem_and_not_a_panic() {
        let problem = try_run(Path::new("/nonexistent/postgres"), None).expect_err("not there");
        assert!(problem.said.contains("/nonexistent/postgres"));
        assert!(missing_libraries(Path::new("/bin/sh"), None).is_empty());
    }
}
