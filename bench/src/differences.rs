//! What is told otherwise through the gateway than by the server itself, and whether a rule
//! says so.

use serde::Deserialize;
use similar::{ChangeTag, TextDiff};

/// A difference that is meant.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it is about: a file or a test, which `*` at the end leaves open.
    pub of: String,
    /// Each line that differs has one of these in it; none stands for any line.
    #[serde(default)]
    pub lines: Vec<String>,
    /// Why it is so.
    pub why: String,
}

/// The rules of one file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeantDifferences {
    /// In the order in which they are asked.
    #[serde(default)]
    rule: Vec<Rule>,
}

impl Rule {
    fn is_about(&self, name: &str) -> bool {
        match self.of.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.of,
        }
    }

    fn explains(&self, line: &str) -> bool {
        self.lines.is_empty() || self.lines.iter().any(|part| line.contains(part))
    }
}

impl MeantDifferences {
    /// Reads them.
    ///
    /// # Errors
    /// When the text is none of it.
    pub fn parse(text: &str) -> anyhow::Result<MeantDifferences> {
        Ok(toml::from_str(text)?)
    }

    /// The reasons for lines of `name` that differ; `None` where one of them has none.
    pub fn why(&self, name: &str, lines: &[String]) -> Option<Vec<&str>> {
        let mut reasons = Vec::new();
        for line in lines.iter().filter(|line| !line.is_empty()) {
            let mut rules = self.rule.iter().filter(|rule| rule.is_about(name));
            let why = rules.find(|rule| rule.explains(line))?.why.as_str();
            if !reasons.contains(&why) {
                reasons.push(why);
            }
        }
        Some(reasons)
    }
}

/// How two outputs differ.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Every line that one of them has alone; empty ones say nothing by themselves.
    pub lines: Vec<String>,
    /// The hunks, as `diff -u` prints them.
    pub hunks: Vec<String>,
}

impl Difference {
    /// Between what was printed directly and through the gateway; `None` where it is the same.
    pub fn between(direct: &str, through: &str) -> Option<Difference> {
        if direct == through {
            return None;
        }
        let diff = TextDiff::from_lines(direct, through);
        let changes = diff.iter_all_changes().filter(|of| of.tag() != ChangeTag::Equal);
        let lines = changes.map(|of| of.value().trim_end().to_owned()).collect();
        let hunks = diff.unified_diff().iter_hunks().map(|hunk| hunk.to_string()).collect();
        Some(Difference { lines, hunks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_meant_where_each_of_its_lines_has_a_rule() {
        let rules = "[[rule]]\nof = 'async'\nlines = ['PID']\nwhy = 'the server counts'\n\
                     [[rule]]\nof = 'test_copy*'\nwhy = 'all of it'";
        let rules = MeantDifferences::parse(rules).unwrap();
        let of = |through: &str| Difference::between("a\nPID 1\nb\n", through).map(|of| of.lines);
        assert_eq!(of("a\nPID 1\nb\n"), None);
        let meant = of("a\nPID 2\nb\n").unwrap();
        assert_eq!(meant, ["PID 1", "PID 2"]);
        assert_eq!(rules.why("async", &meant), Some(vec!["the server counts"]));
        assert_eq!(rules.why("select", &meant), None);
        assert_eq!(rules.why("async", &of("a\nPID 2\nc\n").unwrap()), None);
        assert_eq!(rules.why("test_copy_in", &meant), Some(vec!["all of it"]));
    }
}
