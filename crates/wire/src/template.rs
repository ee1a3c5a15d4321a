//! Messages made ready once and sent many times with other values.
//!
//! A [`Template`] holds the bytes of one or more messages. Integers in binary
//! form have their place and width fixed and are patched in; text is inserted
//! and the length of the one message it stands in corrected.

use thiserror::Error;

use crate::frontend::SYNC;

/// Format code of a parameter in binary form.
const BINARY: i16 = 1;
/// Describe of the unnamed portal, and Execute of all its rows.
const DESCRIBE: [u8; 7] = *b"D\0\0\0\x06P\0";
const EXECUTE: [u8; 10] = *b"E\0\0\0\x09\0\0\0\0\0";

/// How a parameter travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As text, its type left to the server.
    Text,
    /// `int2` in binary form.
    Int2,
    /// `int4` in binary form.
    Int4,
    /// `int8` in binary form.
    Int8,
}

impl Format {
    /// The binary form of an integer type by its OID, else text.
    pub fn of_type(oid: u32) -> Self {
        match oid {
            20 => Format::Int8,
            21 => Format::Int2,
            23 => Format::Int4,
            _ => Format::Text,
        }
    }

    fn width(self) -> usize {
        match self {
            Format::Text => 0,
            Format::Int2 => 2,
            Format::Int4 => 4,
            Format::Int8 => 8,
        }
    }
}

/// Where values come from when a template is rendered. Slots are the caller's
/// numbers, given when the template was made.
pub trait Values {
    /// Appends the value as text; `false` (and nothing appended) means null.
    fn write_text(&self, slot: u32, out: &mut Vec<u8>) -> bool;
    /// The value as an integer, if it is one.
    fn integer(&self, slot: u32) -> Option<i64>;
}

/// A value that does not fit the binary form its place has; the text form of
/// the same message leaves the judgement to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the value in slot {slot} does not fit its binary type")]
pub struct Unrenderable {
    /// The slot.
    pub slot: u32,
}

/// A part of a simple query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// SQL as it is.
    Sql(&'a str),
    /// A value as text, as it is: no quotes are added.
    Value(u32),
    /// A value as a string constant.
    Quoted(u32),
}

/// One execution of a statement as Bind, perhaps Describe, and Execute.
#[derive(Debug, Clone, Copy)]
pub struct BindTemplate<'a> {
    /// The prepared statement; empty is the unnamed one.
    pub statement: &'a str,
    /// Slot and format of each parameter.
    pub parameters: &'a [(u32, Format)],
    /// Whether the portal is described before it is executed.
    pub describe: bool,
}

/// A place for a value.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Where its bytes begin in the template.
    at: usize,
    slot: u32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Text with a length before it; takes no bytes in the template.
    Sized,
    /// Text alone; takes no bytes in the template.
    Raw,
    /// Text as a string constant; takes no bytes in the template.
    Quoted,
    /// An integer of the format's width, which the template has room for.
    Integer(Format),
}

/// Messages made ready, with places for values.
#[derive(Debug, Clone, Default)]
pub struct Template {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    /// Where the length stands of the message whose length varies.
    varying: Option<usize>,
}

impl Template {
    /// Messages without any value.
    pub fn fixed(bytes: Vec<u8>) -> Self {
        Template { bytes, slots: Vec::new(), varying: None }
    }

    /// Bind to the unnamed portal, perhaps Describe, and Execute of all rows.
    ///
    /// Parameters that are all text are sent as libpq does, without format
    /// codes; results come as text.
    pub fn bind_execute(of: &BindTemplate<'_>) -> Self {
        let mut bytes = Vec::new();
        let mut slots = Vec::new();
        message(&mut bytes, b'B', |out| {
            cstr(out, "");
            cstr(out, of.statement);
            if of.parameters.iter().all(|(_, format)| *format == Format::Text) {
                count(out, 0);
            } else {
                count(out, of.parameters.len());
                for (_, format) in of.parameters {
                    let code = if *format == Format::Text { 0 } else { BINARY };
                    out.extend_from_slice(&code.to_be_bytes());
                }
            }
            count(out, of.parameters.len());
            for &(slot, format) in of.parameters {
                if format == Format::Text {
                    slots.push(Slot { at: out.len(), slot, kind: Kind::Sized });
                } else {
                    let width = format.width();
                    out.extend_from_slice(&(width as u32).to_be_bytes());
                    slots.push(Slot { at: out.len(), slot, kind: Kind::Integer(format) });
                    out.resize(out.len() + width, 0);
                }
            }
            // One format code for all result columns, as libpq sends it: text.
            count(out, 1);
            count(out, 0);
        });
        let varying = slots.iter().any(|slot| matches!(slot.kind, Kind::Sized)).then_some(1);
        if of.describe {
            bytes.extend_from_slice(&DESCRIBE);
        }
        bytes.extend_from_slice(&EXECUTE);
        Template { bytes, slots, varying }
    }

    /// A Query with values written into its SQL.
    pub fn query(pieces: &[Piece<'_>]) -> Self {
        let mut bytes = Vec::new();
        let mut slots = Vec::new();
        message(&mut bytes, b'Q', |out| {
            for piece in pieces {
                match *piece {
                    Piece::Sql(sql) => out.extend_from_slice(sql.as_bytes()),
                    Piece::Value(slot) => {
                        slots.push(Slot { at: out.len(), slot, kind: Kind::Raw });
                    }
                    Piece::Quoted(slot) => {
                        slots.push(Slot { at: out.len(), slot, kind: Kind::Quoted });
                    }
                }
            }
            out.push(0);
        });
        let varying = (!slots.is_empty()).then_some(1);
        Template { bytes, slots, varying }
    }

    /// Puts messages without values in front, such as the Parse of the unnamed statement.
    #[must_use]
    pub fn after(self, messages: &[u8]) -> Self {
        let shift = messages.len();
        let mut bytes = messages.to_vec();
        bytes.extend_from_slice(&self.bytes);
        let slots =
            self.slots.into_iter().map(|slot| Slot { at: slot.at + shift, ..slot }).collect();
        Template { bytes, slots, varying: self.varying.map(|at| at + shift) }
    }

    /// Adds Sync at the end.
    #[must_use]
    pub fn then_sync(mut self) -> Self {
        self.bytes.extend_from_slice(&SYNC);
        self
    }

    /// Appends the messages with values in their places.
    ///
    /// # Errors
    /// When a value does not fit the binary form its place has; `out` is then
    /// as it was.
    #[inline]
    pub fn render(&self, values: &impl Values, out: &mut Vec<u8>) -> Result<(), Unrenderable> {
        let start = out.len();
        let mut from = 0;
        let mut grown = 0;
        for &Slot { at, slot, kind } in &self.slots {
            out.extend_from_slice(&self.bytes[from..at]);
            from = at;
            match kind {
                Kind::Integer(format) => {
                    if !write_integer(format, values.integer(slot), out) {
                        out.truncate(start);
                        return Err(Unrenderable { slot });
                    }
                    from += format.width();
                }
                Kind::Sized => {
                    let length_at = out.len();
                    out.extend_from_slice(&(-1_i32).to_be_bytes());
                    if values.write_text(slot, out) {
                        let length = (out.len() - length_at - 4) as u32;
                        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
                    }
                    grown += out.len() - length_at;
                }
                Kind::Quoted => {
                    let text_at = out.len();
                    if values.write_text(slot, out) {
                        quote(out, text_at);
                    } else {
                        out.extend_from_slice(b"null");
                    }
                    grown += out.len() - text_at;
                }
                Kind::Raw => {
                    let text_at = out.len();
                    if !values.write_text(slot, out) {
                        out.extend_from_slice(b"null");
                    }
                    grown += out.len() - text_at;
                }
            }
        }
        out.extend_from_slice(&self.bytes[from..]);
        if let Some(at) = self.varying
            && let Some(field) = out.get_mut(start + at..start + at + 4)
        {
            let [a, b, c, d] = [field[0], field[1], field[2], field[3]];
            let length = u32::from_be_bytes([a, b, c, d]) + grown as u32;
            field.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

/// Appends Bind of parameters whose length and bytes `values` holds, all of them text, perhaps
/// Describe, and Execute of all rows: for statements with more parameters than a [`Template`]
/// should have places.
pub fn bind_execute_values(
    statement: &str,
    parameters: usize,
    describe: bool,
    values: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    message(out, b'B', |out| {
        cstr(out, "");
        cstr(out, statement);
        count(out, 0);
        count(out, parameters);
        values(out);
        count(out, 1);
        count(out, 0);
    });
    if describe {
        out.extend_from_slice(&DESCRIBE);
    }
    out.extend_from_slice(&EXECUTE);
}

/// Makes the text from `at` on a string constant, whatever `standard_conforming_strings` is.
fn quote(out: &mut Vec<u8>, at: usize) {
    let text = out.split_off(at);
    if text.contains(&b'\\') {
        out.extend_from_slice(b" E");
    }
    out.push(b'\'');
    for byte in text {
        if matches!(byte, b'\'' | b'\\') {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}

/// Parse of a statement whose parameters' types the server infers. The name and SQL hold no
/// NUL.
pub fn parse_message(statement: &str, sql: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(&mut bytes, b'P', |out| {
        cstr(out, statement);
        cstr(out, sql);
        count(out, 0);
    });
    bytes
}

/// Appends a message: its type, a length that counts itself, and what `body` appends.
///
/// Lengths above what PostgreSQL takes (1 GiB) are written cut off; the server
/// answers those with an error.
fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn cstr(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// A count in 16 bits; the protocol's limit is 65,535 of anything.
fn count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

/// Appends an integer in binary form, if there is one and it fits.
fn write_integer(format: Format, value: Option<i64>, out: &mut Vec<u8>) -> bool {
    let Some(value) = value else { return false };
    match format {
        Format::Int8 => out.extend_from_slice(&value.to_be_bytes()),
        Format::Int4 => match i32::try_from(value) {
            Ok(value) => out.extend_from_slice(&value.to_be_bytes()),
            Err(_) => return false,
        },
        Format::Int2 => match i16::try_from(value) {
            Ok(value) => out.extend_from_slice(&value.to_be_bytes()),
            Err(_) => return false,
        },
        Format::Text => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use postgres_protocol::IsNull;
    use postgres_protocol::message::frontend;
    use proptest::prelude::*;

    use super::*;

    /// Values as text, null where there is none.
    struct Texts(Vec<Option<String>>);

    impl Values for Texts {
        fn write_text(&self, slot: u32, out: &mut Vec<u8>) -> bool {
            match &self.0[slot as usize] {
                Some(text) => {
                    out.extend_from_slice(text.as_bytes());
                    true
                }
                None => false,
            }
        }

        fn integer(&self, slot: u32) -> Option<i64> {
            self.0[slot as usize].as_ref()?.parse().ok()
        }
    }

    fn integers(values: &[i64]) -> Texts {
        Texts(values.iter().map(|value| Some(value.to_string())).collect())
    }

    fn rendered(template: &Template, values: &Texts) -> Vec<u8> {
        let mut out = b"before".to_vec();
        template.render(values, &mut out).unwrap();
        out.split_off(6)
    }

    /// Bind to the unnamed portal with results as text, by the library.
    fn bound(statement: &str, formats: &[i16], values: &[Option<&[u8]>]) -> BytesMut {
        let mut out = BytesMut::new();
        let value = |value: &Option<&[u8]>, out: &mut BytesMut| {
            Ok(match value {
                Some(bytes) => {
                    out.put_slice(bytes);
                    IsNull::No
                }
                None => IsNull::Yes,
            })
        };
        let formats = formats.iter().copied();
        let bound = frontend::bind("", statement, formats, values, value, [0], &mut out);
        assert!(bound.is_ok());
        out
    }

    proptest! {
        #[test]
        fn text_parameters_give_the_messages_written_one_by_one(
            values in prop::collection::vec(prop::option::of("[ -~]{0,20}"), 0..6),
            describe: bool,
        ) {
            let parameters: Vec<_> =
                (0..values.len() as u32).rev().map(|slot| (slot, Format::Text)).collect();
            let template = Template::bind_execute(&BindTemplate {
                statement: "P_1",
                parameters: &parameters,
                describe,
            })
            .then_sync();
            let reversed: Vec<_> =
                values.iter().rev().map(|value| value.as_ref().map(String::as_bytes)).collect();
            let mut expected = bound("P_1", &[], &reversed);
            if describe {
                frontend::describe(b'P', "", &mut expected).unwrap();
            }
            frontend::execute("", 0, &mut expected).unwrap();
            frontend::sync(&mut expected);
            prop_assert_eq!(rendered(&template, &Texts(values)), expected);
        }

        #[test]
        fn binary_and_text_parameters_mix(a: i32, b: i64, c in "[a-z]{0,9}") {
            let template = Template::bind_execute(&BindTemplate {
                statement: "",
                parameters: &[(0, Format::Int4), (2, Format::Text), (1, Format::Int8)],
                describe: false,
            });
            let bytes = [Some(&a.to_be_bytes()[..]), Some(c.as_bytes()), Some(&b.to_be_bytes())];
            let mut expected = bound("", &[1, 0, 1], &bytes);
            frontend::execute("", 0, &mut expected).unwrap();
            let values = Texts(vec![Some(a.to_string()), Some(b.to_string()), Some(c)]);
            prop_assert_eq!(rendered(&template, &values), expected);
        }
    }

    #[test]
    fn values_that_are_encoded_already_give_the_same_messages() {
        let template = Template::bind_execute(&BindTemplate {
            statement: "P_1",
            parameters: &[(0, Format::Text), (1, Format::Text)],
            describe: true,
        });
        let values = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"\0\0\0\x01a");
            out.extend_from_slice(&(-1_i32).to_be_bytes());
        };
        let mut out = Vec::new();
        bind_execute_values("P_1", 2, true, values, &mut out);
        assert_eq!(out, rendered(&template, &Texts(vec![Some("a".to_owned()), None])));
    }

    /// What pgbench 18.6 sends for the second statement of its built-in script,
    /// recorded from its socket.
    #[test]
    fn an_execution_equals_what_libpq_sends() {
        let recorded = b"B\0\0\0#\0P_1\0\0\0\0\x02\0\0\0\x044527\0\0\0\x06469817\0\x01\0\0\
            D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        let template = Template::bind_execute(&BindTemplate {
            statement: "P_1",
            parameters: &[(0, Format::Text), (1, Format::Text)],
            describe: true,
        });
        let sent = rendered(&template.then_sync(), &integers(&[4_527, 469_817]));
        assert_eq!(sent, recorded);
    }

    #[test]
    fn a_query_has_its_values_written_in() {
        let template = Template::query(&[
            Piece::Sql("UPDATE t SET a = a + "),
            Piece::Value(1),
            Piece::Sql(" WHERE id = "),
            Piece::Value(0),
            Piece::Sql(";"),
        ]);
        let mut expected = BytesMut::new();
        frontend::query("UPDATE t SET a = a + -77 WHERE id = 5;", &mut expected).unwrap();
        assert_eq!(rendered(&template, &integers(&[5, -77])), expected);
        let template = Template::query(&[Piece::Sql("SELECT "), Piece::Quoted(0), Piece::Sql(";")]);
        for (value, sql) in [
            (Some("it's"), "SELECT 'it''s';"),
            (Some("a\\'"), "SELECT  E'a\\\\''';"),
            (None, "SELECT null;"),
        ] {
            let mut expected = BytesMut::new();
            frontend::query(sql, &mut expected).unwrap();
            let value = Texts(vec![value.map(str::to_owned)]);
            assert_eq!(rendered(&template, &value), expected, "{sql}");
        }
    }

    #[test]
    fn messages_can_stand_in_front() {
        let parse = parse_message("", "SELECT $1");
        let mut library = BytesMut::new();
        frontend::parse("", "SELECT $1", [], &mut library).unwrap();
        assert_eq!(parse, library);
        let bind = Template::bind_execute(&BindTemplate {
            statement: "",
            parameters: &[(0, Format::Text)],
            describe: true,
        });
        let mut expected = parse.clone();
        expected.extend(rendered(&bind, &integers(&[123])));
        assert_eq!(rendered(&bind.after(&parse), &integers(&[123])), expected);
    }

    #[test]
    fn a_value_too_large_for_its_type_is_refused_and_leaves_nothing() {
        for (format, value) in [(Format::Int4, 1 << 31), (Format::Int2, -32_769)] {
            let template = Template::bind_execute(&BindTemplate {
                statement: "s",
                parameters: &[(0, format)],
                describe: false,
            });
            let mut out = b"kept".to_vec();
            assert_eq!(
                template.render(&integers(&[value]), &mut out),
                Err(Unrenderable { slot: 0 })
            );
            assert_eq!(out, b"kept");
        }
    }
}
