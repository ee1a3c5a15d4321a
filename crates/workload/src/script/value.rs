//! Values and the variables of one client.

use super::format::{write_double, write_int};
use super::program::Slot;

/// What a script variable can hold.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Double(f64),
    /// Text from `-D` or a query result. Inside an expression it is read as a
    /// number, boolean or NULL; inside SQL it is used as it stands.
    Text(Box<str>),
}

/// The type of a [`Value`], as pgbench names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// NULL, which has no other type.
    Null,
    /// A boolean.
    Boolean,
    /// A 64-bit integer.
    Int,
    /// A double.
    Double,
    /// Text.
    Text,
}

impl std::fmt::Display for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ValueType::Null => "null",
            ValueType::Boolean => "boolean",
            ValueType::Int => "int",
            ValueType::Double => "double",
            ValueType::Text => "text",
        })
    }
}

impl Value {
    /// Whether this is SQL NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Appends the text form that stands in SQL and in text parameters, as
    /// pgbench writes it: `true`/`false`, decimal integers, doubles with 15
    /// significant digits.
    ///
    /// NULL is written as `NULL`, which is right inside the text of a
    /// statement. A parameter that is NULL should be sent as such
    /// ([`Value::is_null`]); pgbench sends the four letters, which most types
    /// refuse.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"NULL"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Int(value) => write_int(*value, out),
            Value::Double(value) => write_double(*value, out),
            Value::Text(value) => out.extend_from_slice(value.as_bytes()),
        }
    }

    /// The type, for messages.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::Null => ValueType::Null,
            Value::Bool(_) => ValueType::Boolean,
            Value::Int(_) => ValueType::Int,
            Value::Double(_) => ValueType::Double,
            Value::Text(_) => ValueType::Text,
        }
    }

    /// The value as an integer, when it is one or is text that reads as one:
    /// what a driver needs to send it as binary int4 or int8.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            Value::Text(text) => text.trim_start().parse().ok(),
            _ => None,
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.into())
    }
}

/// A value inside an expression: never text, so `Copy` and without
/// allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::Int(value),
            Scalar::Double(value) => Value::Double(value),
        }
    }
}

impl Scalar {
    pub(crate) fn is_null(self) -> bool {
        matches!(self, Scalar::Null)
    }

    pub(crate) fn value_type(self) -> ValueType {
        match self {
            Scalar::Null => ValueType::Null,
            Scalar::Bool(_) => ValueType::Boolean,
            Scalar::Int(_) => ValueType::Int,
            Scalar::Double(_) => ValueType::Double,
        }
    }

    /// Non-zero numbers are true; zero and NULL are false.
    pub(crate) fn truth(self) -> bool {
        match self {
            Scalar::Null => false,
            Scalar::Bool(value) => value,
            Scalar::Int(value) => value != 0,
            Scalar::Double(value) => value != 0.0,
        }
    }

    /// Reads text as pgbench does when a variable that holds text is used in
    /// an expression: `null`, prefixes of true/yes/false/no, on/off, an
    /// integer, or a double. `None` when it is none of these.
    pub(crate) fn from_text(text: &str) -> Option<Scalar> {
        let prefix_of = |word: &str| {
            word.len() >= text.len()
                && word.as_bytes()[..text.len()].eq_ignore_ascii_case(text.as_bytes())
        };
        if text.is_empty() {
            return None;
        }
        if text.eq_ignore_ascii_case("null") {
            return Some(Scalar::Null);
        }
        if prefix_of("true") || prefix_of("yes") || text.eq_ignore_ascii_case("on") {
            return Some(Scalar::Bool(true));
        }
        if prefix_of("false")
            || prefix_of("no")
            || text.eq_ignore_ascii_case("off")
            || text.eq_ignore_ascii_case("of")
        {
            return Some(Scalar::Bool(false));
        }
        let trimmed = text.trim_start();
        let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            // What looks like an integer must be one: no silent fallback to double.
            return trimmed.parse().ok().map(Scalar::Int);
        }
        if let Some(hex) = trimmed.strip_prefix("0x").or(trimmed.strip_prefix("0X")) {
            // What strtod reads, as far as whole numbers go.
            let number = u64::from_str_radix(hex, 16).ok();
            return number.map(|number| Scalar::Double(number as f64));
        }
        trimmed.parse().ok().map(Scalar::Double)
    }
}

/// The variables of one client, by slot.
///
/// A variable that nothing has set yet has no value, which is not the same as
/// being NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct Variables {
    values: Vec<Option<Value>>,
}

impl Variables {
    /// `slots` variables without a value.
    pub fn new(slots: usize) -> Self {
        Variables { values: vec![None; slots] }
    }

    /// The value of `slot`, if it has one.
    #[inline]
    pub fn get(&self, slot: Slot) -> Option<&Value> {
        self.values.get(slot.index()).and_then(Option::as_ref)
    }

    /// Gives `slot` a value. A slot of another program is ignored.
    #[inline]
    pub fn set(&mut self, slot: Slot, value: Value) {
        if let Some(place) = self.values.get_mut(slot.index()) {
            *place = Some(value);
        }
    }
}
