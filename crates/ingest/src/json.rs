//! JSON documents, with each value as it was written.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a document in their order.
#[derive(Debug)]
pub struct Document<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Document<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Document<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some((Name(name), value)) =
                    map.next_entry::<Name<'de>, &'de RawValue>()?
                {
                    members.push((name, value));
                }
                Ok(Document(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A text that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads one document.
///
/// # Errors
/// A sentence where it is none.
pub fn document(text: &str) -> Result<Document<'_>, String> {
    serde_json::from_str(text).map_err(|error| told(&error))
}

/// What is wrong with a document that is one line: the line's number is known already.
fn told(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    if what.contains("invalid type") {
        return "it is JSON, but no object".to_owned();
    }
    format!("it is no JSON: {what} at column {}", error.column())
}

/// How a column takes a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// As JSON.
    Json,
    /// Arrays as array literals.
    Array {
        /// Whether the elements are JSON.
        of_json: bool,
    },
    /// A text's characters, a number as it was written; arrays and objects as JSON.
    Text,
}

/// A value as the server's input function reads it; `None` is NULL.
///
/// # Errors
/// A sentence where it has a character that no text of the server holds.
pub fn value(value: &RawValue, take: Take) -> Result<Option<String>, String> {
    let raw = value.get();
    match (take, raw.as_bytes().first()) {
        (_, Some(b'n')) => Ok(None),
        (Take::Text | Take::Array { .. }, Some(b'"')) => string(raw).map(Some),
        (Take::Array { of_json }, Some(b'[')) => {
            let mut literal = String::with_capacity(raw.len() + 2);
            array(value, of_json, &mut literal)?;
            Ok(Some(literal))
        }
        _ => Ok(Some(raw.to_owned())),
    }
}

fn string(raw: &str) -> Result<String, String> {
    let text: String = serde_json::from_str(raw).map_err(|error| told(&error))?;
    if text.contains('\0') {
        return Err("\\u0000 cannot be stored as text".to_owned());
    }
    Ok(text)
}

/// <https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO>.
fn array(value: &RawValue, of_json: bool, into: &mut String) -> Result<(), String> {
    let elements: Vec<&RawValue> =
        serde_json::from_str(value.get()).map_err(|error| told(&error))?;
    into.push('{');
    for (at, element) in elements.into_iter().enumerate() {
        if at > 0 {
            into.push(',');
        }
        let raw = element.get();
        match raw.as_bytes().first() {
            Some(b'n') => into.push_str("NULL"),
            Some(b'[') if !of_json => array(element, of_json, into)?,
            Some(b'"') if !of_json => quote(&string(raw)?, into),
            _ => quote(raw, into),
        }
    }
    into.push('}');
    Ok(())
}

fn quote(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            into.push('\\');
        }
        into.push(c);
    }
    into.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taken(json: &str, take: Take) -> Result<Option<String>, String> {
        value(serde_json::from_str(json).unwrap(), take)
    }

    #[test]
    fn values_keep_what_was_written() {
        let text = |json| taken(json, Take::Text).unwrap();
        assert_eq!(text(r#""a\n\u00e4""#).as_deref(), Some("a\nä"));
        let number = "12345678901234567890.123456789012345678901234567890";
        assert_eq!(text(number).as_deref(), Some(number));
        assert_eq!(text("true").as_deref(), Some("true"));
        assert_eq!(text("null"), None);
        assert_eq!(text(r#"{"a": [1]}"#).as_deref(), Some(r#"{"a": [1]}"#));
        assert_eq!(taken(r#""a""#, Take::Json).unwrap().as_deref(), Some(r#""a""#));
        assert!(taken(r#""a\u0000""#, Take::Text).is_err());
    }

    #[test]
    fn an_array_becomes_a_literal_of_an_array_column() {
        let array = |json, of_json| taken(json, Take::Array { of_json }).unwrap().unwrap();
        assert_eq!(array(r#"[1, null, "a\"b,\\", [2]]"#, false), r#"{"1",NULL,"a\"b,\\",{"2"}}"#);
        assert_eq!(array(r#"[{"a": "b"}, [1], "c"]"#, true), r#"{"{\"a\": \"b\"}","[1]","\"c\""}"#);
        assert_eq!(array("[]", false), "{}");
        assert_eq!(array(r#""{1,2}""#, false), "{1,2}");
    }

    #[test]
    fn what_is_no_document_is_told_in_a_sentence() {
        let told = |text| document(text).unwrap_err();
        assert_eq!(told("[1]"), "it is JSON, but no object");
        assert_eq!(told("{\"a\":"), "it is no JSON: EOF while parsing a value at column 5");
        assert!(told("{} {}").contains("trailing"));
    }

    proptest! {
        #[test]
        fn no_line_brings_it_down(line in r#"[{}\[\]",:\\u0an1 ]{0,30}"#) {
            if let Ok(Document(members)) = document(&line) {
                for (_, raw) in members {
                    for take in [Take::Text, Take::Json, Take::Array { of_json: false }] {
                        _ = value(raw, take);
                    }
                }
            }
        }
    }
}
