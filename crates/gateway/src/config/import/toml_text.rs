//! Text of `gateway.toml` as it is put together.

use std::fmt::Write as _;

/// A comment, whatever the words hold.
pub fn comment(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {clean}\n")
}

/// A table with the keys that are set.
#[derive(Debug, Default)]
pub struct Table(String);

impl Table {
    /// A text.
    pub fn text(&mut self, key: &str, value: &str) {
        self.raw(key, &basic(value));
    }

    /// A number, a list, whatever is TOML already.
    pub fn raw(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    /// A list of texts.
    pub fn list<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a str>) {
        let values: Vec<String> = values.into_iter().map(basic).collect();
        match values.iter().map(String::len).sum::<usize>() {
            0..80 => self.raw(key, &format!("[{}]", values.join(", "))),
            _ => self.raw(key, &format!("[\n  {},\n]", values.join(",\n  "))),
        }
    }

    /// Its lines.
    pub fn lines(&self) -> &str {
        &self.0
    }

    /// With its title, or nothing where it is empty.
    pub fn titled(&self, title: &str) -> String {
        if self.0.is_empty() { String::new() } else { format!("\n[{title}]\n{}", self.0) }
    }
}

/// A text as a basic string, on one line.
pub fn basic(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
