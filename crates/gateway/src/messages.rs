//! Messages that the gateway itself sends to clients.

use walwright_wire::backend;

/// An error that the gateway reports in its own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// `FATAL` ends the connection.
    pub severity: &'static str,
    /// SQLSTATE.
    pub code: &'a str,
    /// What happened.
    pub message: &'a str,
    /// What to do about it.
    pub hint: Option<&'a str>,
}

impl<'a> Refusal<'a> {
    /// One that ends the connection.
    pub fn fatal(code: &'a str, message: &'a str) -> Self {
        Refusal { severity: "FATAL", code, message, hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(self, hint: &'a str) -> Self {
        Refusal { hint: Some(hint), ..self }
    }
}

/// Writes a message: its type, its length, and what `write` puts into its body.
pub fn message(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend([0; 4]);
    write(out);
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// ErrorResponse.
pub fn error(out: &mut Vec<u8>, refusal: &Refusal<'_>) {
    message(out, backend::ERROR_RESPONSE, |body| {
        let mut field = |kind: u8, text: &str| {
            body.push(kind);
            body.extend(text.bytes().filter(|&byte| byte != 0));
            body.push(0);
        };
        field(b'S', refusal.severity);
        field(b'V', refusal.severity);
        field(b'C', refusal.code);
        field(b'M', refusal.message);
        if let Some(hint) = refusal.hint {
            field(b'H', hint);
        }
        body.push(0);
    });
}

/// ErrorResponse of a server that has a prepared statement whose columns have changed: drivers
/// know it by its routine, and prepare the statement anew.
pub fn columns_changed(out: &mut Vec<u8>) {
    message(out, backend::ERROR_RESPONSE, |body| {
        body.extend_from_slice(
            b"SERROR\0VERROR\0C0A000\0Mcached plan must not change result type\0\
              RRevalidateCachedQuery\0\0",
        );
    });
}

/// NoticeResponse with details, as `SHOW HELP` answers.
pub fn notice(out: &mut Vec<u8>, details: &str) {
    message(out, backend::NOTICE_RESPONSE, |body| {
        let fields = [
            (b'S', "NOTICE"),
            (b'V', "NOTICE"),
            (b'C', "00000"),
            (b'M', "Console usage"),
            (b'D', details),
        ];
        for (kind, text) in fields {
            body.push(kind);
            body.extend(text.bytes());
            body.push(0);
        }
        body.push(0);
    });
}

/// CommandComplete.
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    message(out, backend::COMMAND_COMPLETE, |body| {
        body.extend(tag.bytes());
        body.push(0);
    });
}

/// AuthenticationOk.
pub fn authentication_ok(out: &mut Vec<u8>) {
    message(out, backend::AUTHENTICATION, |body| body.extend(0_u32.to_be_bytes()));
}

/// AuthenticationSASL with the mechanisms offered.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    message(out, backend::AUTHENTICATION, |body| {
        body.extend(10_u32.to_be_bytes());
        for mechanism in mechanisms {
            body.extend(mechanism.bytes());
            body.push(0);
        }
        body.push(0);
    });
}

/// AuthenticationSASLContinue (11) or AuthenticationSASLFinal (12).
pub fn authentication_sasl_data(out: &mut Vec<u8>, code: u32, data: &[u8]) {
    message(out, backend::AUTHENTICATION, |body| {
        body.extend(code.to_be_bytes());
        body.extend(data);
    });
}

/// ParameterStatus.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, backend::PARAMETER_STATUS, |body| {
        for text in [name, value] {
            body.extend(text.bytes());
            body.push(0);
        }
    });
}

/// NegotiateProtocolVersion: the newest minor version spoken, and options not known.
pub fn negotiate_protocol(out: &mut Vec<u8>, minor: u16, unknown: &[&str]) {
    message(out, b'v', |body| {
        body.extend((3_u32 << 16 | u32::from(minor)).to_be_bytes());
        body.extend(u32::try_from(unknown.len()).unwrap_or_default().to_be_bytes());
        for name in unknown {
            body.extend(name.bytes());
            body.push(0);
        }
    });
}

/// BackendKeyData.
pub fn backend_key_data(out: &mut Vec<u8>, process: u32, key: &[u8]) {
    message(out, backend::BACKEND_KEY_DATA, |body| {
        body.extend(process.to_be_bytes());
        body.extend(key);
    });
}

/// ReadyForQuery, with `I`, `T` or `E`.
pub fn ready_for_query(out: &mut Vec<u8>, status: u8) {
    message(out, backend::READY_FOR_QUERY, |body| body.push(status));
}

/// A message without a body.
pub fn bare(out: &mut Vec<u8>, tag: u8) {
    message(out, tag, |_| {});
}

#[cfg(test)]
mod tests {
    use walwright_wire::backend::ErrorFields;

    use super::*;

    #[test]
    fn an_error_is_read_as_it_was_meant() {
        let mut out = Vec::new();
        let refusal = Refusal::fatal("53300", "too many\0 clients").hint("raise max_client_conn");
        error(&mut out, &refusal);
        assert_eq!(out[0], b'E');
        assert_eq!(u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize, out.len() - 1);
        let fields = ErrorFields::parse(&out[5..]).unwrap();
        assert_eq!((fields.severity.as_str(), fields.code.as_str()), ("FATAL", "53300"));
        assert_eq!(fields.message, "too many clients");
        assert_eq!(fields.hint.as_deref(), Some("raise max_client_conn"));
    }
}
