//! What writers were told of their rows, and the audit of it.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::Rows;

/// Violations that are told of one audit.
const MOST_TOLD: usize = 20;

/// What a writer was told of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    Acknowledged = b'A',
    Refused = b'R',
    /// Refused, and among the dead letters.
    Dead = b'D',
    Unknown = b'U',
    /// Given up, and not written.
    Failed = b'F',
}

impl Fate {
    fn of(letter: &str) -> Option<Fate> {
        [Fate::Acknowledged, Fate::Refused, Fate::Dead, Fate::Unknown, Fate::Failed]
            .into_iter()
            .find(|fate| letter.as_bytes() == [*fate as u8])
    }
}

/// What the writers of one cycle were told.
#[derive(Debug)]
pub struct Books {
    told: HashMap<i64, Fate>,
    words: Vec<String>,
    /// Whether they heard of all their rows.
    complete: bool,
    bad: u64,
}

impl Books {
    /// Reads what a writer's process wrote as it was told; `complete` says that it was not
    /// killed. A last line that was cut short was not told.
    ///
    /// # Errors
    /// When the file cannot be read, or is not one.
    pub fn read(file: &Path, complete: bool, bad: u64) -> anyhow::Result<Books> {
        let text = std::fs::read_to_string(file)?;
        let (mut told, mut words) = (HashMap::new(), Vec::new());
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let mut parts = line.splitn(3, ' ');
            let fate = parts.next().and_then(Fate::of);
            let token = parts.next().and_then(|token| token.parse().ok());
            let (fate, token) = fate.zip(token).with_context(|| format!("a book's {line:?}"))?;
            if told.insert(token, fate).is_some() {
                words.push(format!("row {token} was answered twice"));
            }
            if let Some(why) = parts.next()
                && words.len() < MOST_TOLD
            {
                words.push(format!("row {token}: {why}"));
            }
        }
        Ok(Books { told, words, complete, bad })
    }

    /// What was said beside.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

/// What an audit counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Audit {
    /// Rows that were acknowledged.
    pub acknowledged: u64,
    /// Rows that were refused.
    pub refused: u64,
    /// Of these, those that were said to be among the dead letters.
    pub dead: u64,
    /// Rows of which it was told that nobody knows.
    pub unknown: u64,
    /// Of these and of those whose writers were killed, those that are there.
    pub kept: u64,
    /// Rows that were given up and are not there.
    pub failed: u64,
    /// Acknowledged rows that are not there.
    pub lost: u64,
    /// Rows that are there more than once.
    pub doubled: u64,
    /// Rows that are there although they were refused or given up, or which nobody wrote.
    pub against: u64,
    /// Rows that were refused or acknowledged and should not have been.
    pub wrong: u64,
    /// Dead letters that are missing or there more than once.
    pub wrong_letters: u64,
}

impl Audit {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.against + self.wrong + self.wrong_letters == 0
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Audit) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.dead += other.dead;
        self.unknown += other.unknown;
        self.kept += other.kept;
        self.failed += other.failed;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.against += other.against;
        self.wrong += other.wrong;
        self.wrong_letters += other.wrong_letters;
    }
}

/// Compares books with a table and with the dead letters; what is wrong in words too, the first
/// of it.
///
/// # Errors
/// When the server does not answer.
pub async fn audit(
    server: &Client,
    table: &str,
    books: &Books,
) -> anyhow::Result<(Audit, Vec<String>)> {
    let mut rows =
        count(server, &format!("SELECT token, count(*) FROM {table} GROUP BY 1")).await?;
    let letters = "SELECT (payload->>'token')::bigint, count(*) FROM walwright_dead_letters
                   GROUP BY 1";
    let mut letters = count(server, letters).await?;
    let (mut audit, mut words) = (Audit::default(), Vec::new());
    for (token, fate) in &books.told {
        let there = rows.remove(token).unwrap_or(0);
        let letter = letters.remove(token).unwrap_or(0);
        let is_bad = Rows::is_bad(*token, books.bad);
        let mut wrong = |count: &mut u64, what: &str| {
            *count += 1;
            words.push(format!(
                "row {token}, {fate:?}, is there {there} times and {letter} times among the \
                 dead letters: {what}"
            ));
        };
        if there > 1 {
            wrong(&mut audit.doubled, "doubled");
        }
        let letters_due = match fate {
            Fate::Acknowledged => {
                audit.acknowledged += 1;
                if is_bad {
                    wrong(&mut audit.wrong, "it should have been refused");
                } else if there == 0 {
                    wrong(&mut audit.lost, "lost");
                }
                0..=0
            }
            Fate::Refused | Fate::Dead => {
                audit.refused += 1;
                audit.dead += u64::from(*fate == Fate::Dead);
                if !is_bad {
                    wrong(&mut audit.wrong, "nothing is wrong with it");
                }
                if *fate == Fate::Dead { 1..=1 } else { 0..=0 }
            }
            Fate::Unknown => {
                audit.unknown += 1;
                audit.kept += u64::from(there > 0);
                0..=i64::from(is_bad)
            }
            Fate::Failed => {
                audit.failed += 1;
                0..=0
            }
        };
        if there > 0 && matches!(fate, Fate::Refused | Fate::Dead | Fate::Failed) {
            wrong(&mut audit.against, "it must not be there");
        }
        if !letters_due.contains(&letter) {
            wrong(&mut audit.wrong_letters, "dead letters");
        }
    }
    for (token, there) in rows {
        audit.kept += 1;
        if there > 1 {
            audit.doubled += 1;
            words.push(format!("row {token}, of which nothing was told, is there {there} times"));
        }
        if books.complete {
            audit.against += 1;
            words.push(format!("row {token} is there, and its writer was not told"));
        }
    }
    for (token, letter) in letters {
        if books.complete || letter > 1 || !Rows::is_bad(token, books.bad) {
            audit.wrong_letters += 1;
            words.push(format!("row {token} is {letter} times among the dead letters"));
        }
    }
    words.truncate(MOST_TOLD);
    Ok((audit, words))
}

async fn count(server: &Client, sql: &str) -> anyhow::Result<HashMap<i64, i64>> {
    let mut found = HashMap::new();
    for message in server.simple_query(sql).await.with_context(|| sql.to_owned())? {
        if let SimpleQueryMessage::Row(row) = message {
            let value = |place| row.get(place).unwrap_or_default().parse::<i64>();
            found.insert(value(0)?, value(1)?);
        }
    }
    Ok(found)
}
