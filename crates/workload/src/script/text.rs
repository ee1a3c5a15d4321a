//! `\text` and `\uuid`: variables that are text.

use super::format::write_uuid;
use super::{EvalError, Expr, Rng, Value, ValueType, Variables};

/// A text that is written anew each time.
#[derive(Debug, Clone)]
pub enum TextValue {
    /// Parts one after the other.
    Template(Vec<TextPart>),
    /// A number as the last digits of a UUID.
    Uuid(Expr),
}

/// A part of a text.
#[derive(Debug, Clone)]
pub enum TextPart {
    /// As it stands.
    Literal(String),
    /// The value of an expression; NULL is the word `null`, as JSON has it.
    Value(Expr),
}

impl TextValue {
    /// The text.
    ///
    /// # Errors
    /// As [`Expr::eval`]; and where a UUID is to be made of what is no whole number.
    pub fn eval(&self, variables: &Variables, rng: &mut Rng) -> Result<Value, EvalError> {
        let mut text = Vec::with_capacity(LONG);
        match self {
            TextValue::Template(parts) => {
                for part in parts {
                    match part {
                        TextPart::Literal(literal) => text.extend_from_slice(literal.as_bytes()),
                        TextPart::Value(expr) => match expr.eval(variables, rng)? {
                            Value::Null => text.extend_from_slice(b"null"),
                            value => value.write_text(&mut text),
                        },
                    }
                }
            }
            TextValue::Uuid(expr) => {
                let value = expr.eval(variables, rng)?;
                let number = value
                    .as_int()
                    .ok_or(EvalError::Type { from: value.value_type(), to: ValueType::Int })?;
                write_uuid(u128::from(number as u64), &mut text);
            }
        }
        // Literals and numbers are UTF-8.
        Ok(Value::Text(String::from_utf8_lossy(&text).into()))
    }
}

/// What most texts are shorter than.
const LONG: usize = 96;
