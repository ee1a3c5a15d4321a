//! Errors and notices.

use std::fmt;

use crate::read::{Malformed, Reader, text};

/// The fields of ErrorResponse ('E') and NoticeResponse ('N').
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorFields {
    /// `ERROR`, `FATAL`, `PANIC`, `WARNING` and so on, never translated.
    pub severity: String,
    /// The SQLSTATE, five characters.
    pub code: String,
    /// What happened, in the server's language.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Position in the SQL text, counted in characters from 1.
    pub position: Option<u32>,
    /// The call stack of functions, or a similar context.
    pub context: Option<String>,
    /// Name of the constraint violated.
    pub constraint: Option<String>,
}

impl ErrorFields {
    /// Parses a body. Fields of unknown type are left out.
    ///
    /// # Errors
    /// When it is damaged or has no SQLSTATE.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "ErrorResponse");
        let mut fields = ErrorFields::default();
        let mut translated = String::new();
        loop {
            let kind = reader.u8()?;
            if kind == 0 {
                break;
            }
            let value = text(reader.cstr()?);
            match kind {
                b'S' => translated = value,
                b'V' => fields.severity = value,
                b'C' => fields.code = value,
                b'M' => fields.message = value,
                b'D' => fields.detail = Some(value),
                b'H' => fields.hint = Some(value),
                b'P' => fields.position = value.parse().ok(),
                b'W' => fields.context = Some(value),
                b'n' => fields.constraint = Some(value),
                _ => {}
            }
        }
        if fields.severity.is_empty() {
            fields.severity = translated;
        }
        if fields.code.len() != 5 || !fields.code.is_ascii() {
            return Err(reader.malformed("it has no SQLSTATE"));
        }
        Ok(fields)
    }

    /// Whether the server ends the connection after this.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }
}

impl fmt::Display for ErrorFields {
    /// `ERROR 42P01: relation "x" does not exist`, then detail and hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}
