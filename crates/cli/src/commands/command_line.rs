//! The command line as a record keeps it.

use walwright_catalog::shell_word;
use walwright_server::holds_password;

/// What stands in place of what may be a secret.
const HIDDEN: &str = "…";
/// Parts of an option's name after which a secret may follow.
const SECRET: [&str; 6] = ["pass", "pwd", "secret", "token", "key", "auth"];

/// What was typed, without what may hold a secret.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    shown(words.map(|word| word.to_string_lossy().into_owned()))
}

fn shown(words: impl Iterator<Item = String>) -> String {
    let mut shown = vec!["walwright".to_owned()];
    // Of walwright's own words these two can hold one; a command after `--` is anybody's.
    let (mut hidden, mut foreign) = (false, false);
    for word in words {
        if std::mem::take(&mut hidden) {
            shown.push(HIDDEN.to_owned());
            continue;
        }
        if let Some((name, _)) = word.split_once('=').filter(|(name, _)| holds(name, foreign)) {
            shown.push(format!("{name}={HIDDEN}"));
            continue;
        }
        if foreign && holds_password(&word) {
            shown.push(HIDDEN.to_owned());
            continue;
        }
        hidden = word.starts_with('-') && holds(&word, foreign);
        foreign |= word == "--";
        shown.push(shell_word(&word));
    }
    shown.join(" ")
}

/// Whether the value of an option or variable may be a secret.
fn holds(name: &str, foreign: bool) -> bool {
    let lower = name.to_ascii_lowercase();
    ["--dsn", "--restart-command"].contains(&name)
        || (foreign && SECRET.iter().any(|part| lower.contains(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        for (typed, kept) in [
            ("run --dsn postgres://a:b@h/d -c 4", "walwright run --dsn … -c 4"),
            (
                "tune --restart-command restart --dsn=x --init",
                "walwright tune --restart-command … --dsn=… --init",
            ),
            ("run --dsn=x --label=key", "walwright run --dsn=… --label=key"),
            (
                "record --for 9 -- env PGPASSWORD=zz pgbench -h db",
                "walwright record --for 9 -- env PGPASSWORD=… pgbench -h db",
            ),
            ("record -- t postgres://a:b@h/d?x", "walwright record -- t …"),
            ("record -- t postgres://a@h:5/d", "walwright record -- t postgres://a@h:5/d"),
            ("record -- t --api-token abc --x", "walwright record -- t --api-token … --x"),
        ] {
            assert_eq!(shown(typed.split(' ').map(str::to_owned)), kept);
        }
    }
}
