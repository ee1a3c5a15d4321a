//! A configuration file as the review would have it.

use std::collections::BTreeMap;

use walwright_catalog::{Line, conf_literal, parse_line};

use super::{Review, ReviewItem, Standing};

/// What lines that were written here begin their comment with.
const MARK: &str = "# walwright:";

/// A file with what a review advises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrected {
    /// Its text.
    pub text: String,
    /// What is advised and is not in it, each a sentence.
    pub left: Vec<String>,
}

/// The file `path` with the review's advice: comments and order stay, each line that changed
/// says what it was, and what was nowhere set is added at the end. What the server does not
/// take, and no value is known for, becomes a comment.
pub fn corrected(text: &str, path: &str, review: &Review) -> Corrected {
    let mut lines: BTreeMap<usize, &ReviewItem> = BTreeMap::new();
    let (mut added, mut left) = (Vec::new(), Vec::new());
    // What stops the server comes first, and has a line before what else is said of it.
    for item in review.items.iter().filter(|item| item.standing != Standing::Fine) {
        let stops = item.standing == Standing::Stops;
        let here = item.place.strip_prefix(path).and_then(|rest| rest.strip_prefix(':'));
        match (here.and_then(|line| line.parse().ok()), &item.advised) {
            (Some(line), Some(_)) => drop(lines.entry(line).or_insert(item)),
            (Some(line), None) if stops => drop(lines.entry(line).or_insert(item)),
            (None, Some(value)) if item.place == "default" => {
                added.push(format!(
                    "{}  {MARK} was the default, {}",
                    set(&item.name, value),
                    item.now
                ));
            }
            (None, Some(value)) => {
                left.push(format!("{} = {value} (set in {})", item.name, item.place));
            }
            (_, None) => left.push(format!("{} = {}: {}", item.name, item.now, item.why)),
        }
    }
    let mut out = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        match lines.get(&number) {
            Some(item) => {
                let end = &line[line.trim_end_matches(['\n', '\r']).len()..];
                out.push_str(&changed(line.trim_end_matches(['\n', '\r']), item, review));
                out.push_str(end);
            }
            None => out.push_str(line),
        }
    }
    if !added.is_empty() {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&format!("\n{MARK} advised, and not set before\n"));
        added.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    Corrected { text: out, left }
}

/// A line as it is to be.
fn changed(line: &str, item: &ReviewItem, review: &Review) -> String {
    let was = format!("{MARK} was {} = {}", item.name, item.now);
    let comment = match comment(line) {
        "" => String::new(),
        comment => format!("  {comment}"),
    };
    // The setting that was meant is judged by this line unless another sets it, or the value
    // is none of it.
    let meant = item.meant.as_ref().and_then(|meant| {
        review.items.iter().find(|other| other.name == *meant && other.place == item.place)
    });
    match (meant, &item.advised) {
        (Some(meant), _) => {
            let value = meant.advised.as_ref().unwrap_or(&meant.now);
            format!("{}{comment}  {was}", set(&meant.name, value))
        }
        (None, Some(value)) => format!("{}{comment}  {was}", set(&item.name, value)),
        (None, None) => format!("#{line}  {MARK} {}", item.why.replace(['\n', '\r'], " ")),
    }
}

/// An assignment, quoted where it has to be.
fn set(name: &str, value: &str) -> String {
    let bare = format!("{name} = {value}");
    match parse_line(&bare) {
        Ok(Line::Setting { value: read, .. }) if read == value => bare,
        _ => format!("{name} = {}", conf_literal(value)),
    }
}

/// The comment at the end of a line, outside quotes; empty where there is none.
fn comment(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            '#' if !quoted => return line[at..].trim_end(),
            '\'' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    ""
}

#[cfg(test)]
mod tests {
    use walwright_catalog::Configuration;

    use super::*;
    use crate::review::{Machine, ReviewInput, review};

    #[test]
    fn comments_and_order_stay_and_what_changed_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.conf");
        let text = "# ours\n\nshared_bufers = 256MB # half\nport = 5432\nwork_mem = '5 parsecs'\n\
                    statement_timeout = 10  # it's short\r\nlog_line_prefix = '%m # %p'\nfsync = off";
        std::fs::write(&path, text).unwrap();
        let read = || {
            let configuration = Configuration::read(&path).unwrap();
            review(&ReviewInput::of_files(&configuration, 18, Machine::default()))
        };
        let corrected = corrected(text, path.to_str().unwrap(), &read());
        let lines: Vec<&str> = corrected.text.lines().collect();
        assert_eq!(lines[0], "# ours");
        assert_eq!(
            lines[2],
            "shared_buffers = 256MB  # half  # walwright: was shared_bufers = 256MB"
        );
        assert_eq!(lines[3], "port = 5432");
        assert!(lines[4].starts_with("#work_mem = '5 parsecs'  # walwright: "), "{}", lines[4]);
        assert_eq!(
            lines[5],
            "statement_timeout = 10s  # it's short  # walwright: was statement_timeout = 10ms"
        );
        assert_eq!(lines[6], "log_line_prefix = '%m # %p'");
        assert_eq!(lines[7], "fsync = on  # walwright: was fsync = off");
        assert!(corrected.text.contains("\nmax_wal_size = 8GB  # walwright: was the default, 1GB"));
        assert_eq!(corrected.left, [] as [&str; 0]);
        std::fs::write(&path, &corrected.text).unwrap();
        let again = read();
        assert!(!again.fails(), "{}", again.verdict);
        let advised: Vec<&ReviewItem> =
            again.items.iter().filter(|item| item.advised.is_some()).collect();
        assert!(advised.is_empty(), "{advised:?}");
    }
}
