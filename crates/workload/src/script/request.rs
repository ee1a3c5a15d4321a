//! Requests of HTTP: what a client sends, written anew each time, and what it keeps of the answer.

use super::text::{integer, write_letters};
use super::{EvalError, Expr, Rng, Slot, Value, Variables};

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST` and the like.
    pub method: String,
    /// What is asked for: a path and a query.
    pub target: RequestText,
    /// Header fields, each with its line break, without those that say where the request goes
    /// and how long it is.
    pub headers: RequestText,
    /// What follows them, if anything does.
    pub body: Option<RequestText>,
    /// What becomes of the answer.
    pub captures: Vec<Capture>,
    /// The header fields of an answer that are kept, in the order of the captures.
    pub kept_headers: Vec<String>,
}

impl Request {
    /// Whether a part of the answer is kept that only its whole body tells.
    pub fn keeps_body(&self) -> bool {
        self.captures.iter().any(|capture| matches!(capture.from, CaptureFrom::Json(_)))
    }
}

/// A variable that is set by an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Where the value goes.
    pub slot: Slot,
    /// Where it comes from.
    pub from: CaptureFrom,
}

/// The part of an answer that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureFrom {
    /// The header field of this name.
    Header(String),
    /// The value at this place of the JSON (a pointer of RFC 6901).
    Json(String),
    /// The status code.
    Status,
}

impl std::fmt::Display for CaptureFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CaptureFrom::Header(name) => write!(f, "header {name}"),
            CaptureFrom::Json(pointer) => write!(f, "JSON at {pointer:?}"),
            CaptureFrom::Status => f.write_str("status"),
        }
    }
}

/// A text with values in it.
#[derive(Debug, Clone, Default)]
pub struct RequestText(pub(crate) Vec<RequestPart>);

/// A part of it.
#[derive(Debug, Clone)]
pub(crate) enum RequestPart {
    /// As it stands.
    Literal(String),
    /// The value of a variable.
    Variable(Slot, Form),
    /// The value of an expression.
    Value(Expr, Form),
    /// So many random lower-case letters.
    Letters(Expr),
}

/// How a value is written where it stands, so that it cannot end what surrounds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The beginning of what is asked for: a whole address, whose parts stay parts.
    Address,
    /// A part of an address or of a form: all but letters, digits and `-._~` as `%41`.
    Percent,
    /// The value of a header field, which ends at a line break.
    Header,
    /// A value of JSON: text in quotes.
    Json,
    /// Inside a text of JSON.
    JsonText,
    /// As it is.
    Plain,
}

impl RequestText {
    /// The text, where no value is in it.
    pub fn constant(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [RequestPart::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the text with the values that the variables have now.
    ///
    /// # Errors
    /// As [`Expr::eval`]; and where a header field cannot hold a value.
    #[inline]
    pub fn write(
        &self,
        variables: &Variables,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        let start = out.len();
        for part in &self.0 {
            match part {
                RequestPart::Literal(text) => out.extend_from_slice(text.as_bytes()),
                RequestPart::Variable(slot, form) => {
                    let value = variables.get(*slot).ok_or(EvalError::Undefined(*slot))?;
                    if !form.write(value, out) {
                        return Err(EvalError::LineBreak(*slot));
                    }
                }
                // An expression is no text, so it fits everywhere.
                RequestPart::Value(expr, form) => {
                    form.write(&expr.eval(variables, rng)?, out);
                }
                RequestPart::Letters(length) => {
                    write_letters(integer(length, variables, rng)?, rng, start, out)?;
                }
            }
        }
        Ok(())
    }
}

impl Form {
    /// Appends a value; false where it cannot stand there.
    fn write(self, value: &Value, out: &mut Vec<u8>) -> bool {
        match (self, value) {
            (Form::Json | Form::JsonText, Value::Null) => out.extend_from_slice(b"null"),
            (Form::Json | Form::JsonText, Value::Double(number)) if !number.is_finite() => {
                out.extend_from_slice(b"null");
            }
            (Form::Json, Value::Text(text)) => {
                out.push(b'"');
                escape_json(text, out);
                out.push(b'"');
            }
            (Form::JsonText, Value::Text(text)) => escape_json(text, out),
            (Form::Address, Value::Text(text)) => address(text, out),
            (Form::Percent, Value::Text(text)) => percent(text, out),
            (Form::Header, Value::Text(text)) if text.bytes().any(ends_header) => return false,
            // An empty place, as of a form that was not filled in.
            (Form::Address | Form::Percent | Form::Header, Value::Null) => {}
            // Only text holds letters that mean something elsewhere.
            (_, value) => value.write_text(out),
        }
        true
    }
}

fn ends_header(byte: u8) -> bool {
    byte != b'\t' && byte.is_ascii_control()
}

fn escape_json(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                hex(byte, out);
            }
            _ => out.push(byte),
        }
    }
}

/// An address as an answer gives it (`Location`), without the server's name, which is known.
fn address(text: &str, out: &mut Vec<u8>) {
    let after_scheme = ["http://", "https://"].iter().find_map(|s| text.strip_prefix(s));
    let path = match after_scheme {
        Some(rest) => rest.find(['/', '?']).map_or("", |at| &rest[at..]),
        None => text,
    };
    if !path.starts_with('/') {
        out.push(b'/');
    }
    for byte in path.bytes() {
        match byte {
            b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                escape_percent(byte, out);
            }
            byte if byte.is_ascii_graphic() => out.push(byte),
            byte => escape_percent(byte, out),
        }
    }
}

fn percent(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(byte),
            byte if byte.is_ascii_alphanumeric() => out.push(byte),
            byte => escape_percent(byte, out),
        }
    }
}

fn escape_percent(byte: u8, out: &mut Vec<u8>) {
    out.push(b'%');
    hex(byte, out);
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(form: Form, value: &Value) -> String {
        let mut out = Vec::new();
        assert!(form.write(value, &mut out), "{form:?} {value:?}");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_value_cannot_leave_its_place() {
        let text = Value::from("a/b?c=\"d\"\n é");
        assert_eq!(written(Form::Percent, &text), "a%2Fb%3Fc%3D%22d%22%0A%20%C3%A9");
        assert_eq!(written(Form::Address, &text), "/a/b?c=%22d%22%0A%20%C3%A9");
        assert_eq!(written(Form::Json, &text), r#""a/b?c=\"d\"\n é""#);
        assert_eq!(written(Form::JsonText, &text), r#"a/b?c=\"d\"\n é"#);
        assert!(!Form::Header.write(&text, &mut Vec::new()));
        assert_eq!(written(Form::Header, &Value::from("a b")), "a b");
    }

    #[test]
    fn numbers_and_null_are_those_of_json() {
        for (value, json, path) in [
            (Value::Int(-7), "-7", "-7"),
            (Value::Bool(true), "true", "true"),
            (Value::Double(0.5), "0.5", "0.5"),
            (Value::Double(f64::INFINITY), "null", "Infinity"),
            (Value::Null, "null", ""),
        ] {
            assert_eq!(written(Form::Json, &value), json);
            assert_eq!(written(Form::Percent, &value), path);
        }
    }

    #[test]
    fn an_address_of_an_answer_is_asked_of_the_same_server() {
        for (given, asked) in [
            ("/data/person/1?x=%41", "/data/person/1?x=%41"),
            ("http://127.0.0.1:80/data", "/data"),
            ("https://host", "/"),
            ("http://host?q", "/?q"),
            ("data", "/data"),
            ("/a b\r\nHost: c", "/a%20b%0D%0AHost:%20c"),
        ] {
            assert_eq!(written(Form::Address, &Value::from(given)), asked);
        }
    }

    proptest! {
        #[test]
        fn json_reads_back_what_was_written(text in "\\PC*|[\\x00-\\x1f\"\\\\]*") {
            let json = written(Form::Json, &Value::from(text.as_str()));
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("a text"), text);
        }

        #[test]
        fn nothing_in_an_address_ends_it(text in "\\PC*|[\\x00-\\x7f]*") {
            for form in [Form::Address, Form::Percent] {
                let written = written(form, &Value::from(text.as_str()));
                prop_assert!(written.bytes().all(|byte| byte.is_ascii_graphic()), "{}", written);
            }
        }
    }
}
