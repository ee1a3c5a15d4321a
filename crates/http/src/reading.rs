//! Metrics of a program, read from the text that Prometheus reads.

use std::collections::BTreeMap;

/// Labels with their values.
pub type Labels = BTreeMap<String, String>;

/// Values by name and labels, as a page shows them. Lines that are none are passed over.
#[derive(Debug, Default)]
pub struct Reading(Vec<(String, Labels, f64)>);

impl Reading {
    /// Those of a page whose names begin with `prefix`, without it.
    pub fn of(page: &str, prefix: &str) -> Reading {
        Reading(page.lines().filter_map(|text| line(text.trim().strip_prefix(prefix)?)).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of this name.
    pub fn of_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Labels, f64)> {
        let named = self.0.iter().filter(move |(called, ..)| called == name);
        named.map(|(_, labels, value)| (labels, *value))
    }

    /// The sum over all that have these labels; `None` where there are none.
    pub fn sum(&self, name: &str, with: &[(&str, &str)]) -> Option<f64> {
        let fits = |labels: &Labels| {
            with.iter().all(|(label, value)| labels.get(*label).is_some_and(|has| has == value))
        };
        let values = self.of_name(name).filter(|(labels, _)| fits(labels)).map(|(_, value)| value);
        values.reduce(|a, b| a + b)
    }
}

/// A name, labels, a value, and perhaps when it was taken.
fn line(text: &str) -> Option<(String, Labels, f64)> {
    let end = text.find(['{', ' '])?;
    let (name, rest) = text.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty() && name != "#").then(|| (name.to_owned(), labels, value))
}

/// Labels up to their closing brace, and what is behind it; their values are quoted and may hold
/// anything.
fn labels(text: &str) -> Option<(Labels, &str)> {
    let mut found = Labels::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((found, behind));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, plain) => value.push(plain),
            }
        };
        found.insert(name.to_owned(), value);
        rest = &quoted[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn metrics_are_read_with_any_labels() {
        let page = "# HELP a_clients Clients.\n# TYPE a_clients gauge\n\
            a_clients{database=\"a } ,\\\"b\\\\\",user=\"u\", state=\"active\",} 3 1700000000\n\
            a_clients{database=\"c\",user=\"u\",state=\"active\"} 4\n\
            a_clients{database=\"c\",user=\"u\",state=\"waiting\"} 1\n\
            a_paused 0\n other 1\na_torn{a=\"b 2\na_clients_seen 9\nb_clients 9\na_le{le=\"+Inf\"} +Inf\n";
        let reading = Reading::of(page, "a_");
        assert_eq!(reading.sum("clients", &[]), Some(8.0));
        assert_eq!(reading.sum("clients", &[("state", "active")]), Some(7.0));
        assert_eq!(reading.sum("clients", &[("database", "a } ,\"b\\")]), Some(3.0));
        assert_eq!(reading.sum("paused", &[]), Some(0.0));
        assert_eq!(reading.sum("le", &[]), Some(f64::INFINITY));
        assert_eq!(reading.sum("clients", &[("state", "gone")]), None);
        assert_eq!(reading.0.len(), 6, "{reading:?}");
    }

    proptest! {
        #[test]
        fn any_page_is_read(page in "[a_{}=\", \\\\0-9\n#.é+-]{0,200}") {
            let _ = Reading::of(&page, "a");
        }
    }
}
