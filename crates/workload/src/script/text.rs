//! `\text`, `\uuid` and `\uuids`: variables that are text.

use super::format::write_uuid;
use super::template::Template;
use super::{EvalError, Expr, Rng, Value, ValueType, Variables};

/// A text that is written anew each time.
#[derive(Debug, Clone)]
pub enum TextValue {
    /// What a template comes to.
    Template(Template),
    /// A number as the last digits of a UUID.
    Uuid(Expr),
    /// So many of them, as an array.
    Uuids {
        /// How many: 0 to [`MOST_UUIDS`].
        count: Expr,
        /// The number of each, evaluated anew; the first of them where they are consecutive.
        number: Expr,
        /// Whether they are consecutive numbers.
        consecutive: bool,
    },
}

impl TextValue {
    /// The text.
    ///
    /// # Errors
    /// As [`Expr::eval`]; and where a UUID is to be made of what is no whole number.
    pub fn eval(&self, variables: &Variables, rng: &mut Rng) -> Result<Value, EvalError> {
        let mut text = Vec::with_capacity(LONG);
        match self {
            TextValue::Template(template) => template.write(variables, rng, 0, &mut text)?,
            TextValue::Uuid(expr) => {
                write_uuid(u128::from(integer(expr, variables, rng)? as u64), &mut text);
            }
            TextValue::Uuids { count, number, consecutive } => {
                text.push(b'{');
                let mut first = None;
                for place in 0..integer(count, variables, rng)?.clamp(0, MOST_UUIDS) {
                    if place > 0 {
                        text.push(b',');
                    }
                    let drawn = match first.filter(|_| *consecutive) {
                        Some(first) => place.wrapping_add(first),
                        None => *first.insert(integer(number, variables, rng)?),
                    };
                    write_uuid(u128::from(drawn as u64), &mut text);
                }
                text.push(b'}');
            }
        }
        // Literals and numbers are UTF-8.
        Ok(Value::Text(String::from_utf8_lossy(&text).into()))
    }
}

/// The whole number that `expr` comes to.
pub(crate) fn integer(expr: &Expr, variables: &Variables, rng: &mut Rng) -> Result<i64, EvalError> {
    let value = expr.eval(variables, rng)?;
    value.as_int().ok_or(EvalError::Type { from: value.value_type(), to: ValueType::Int })
}

/// Most UUIDs of an array.
pub const MOST_UUIDS: i64 = 10_000;

/// Appends so many random lower-case letters, none for a negative number, to a text that began
/// at `start` of `out`.
///
/// # Errors
/// When the text would be longer than [`LONGEST`].
pub(crate) fn write_letters(
    count: i64,
    rng: &mut Rng,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<(), EvalError> {
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    if count > room(start, out) {
        return Err(EvalError::TooLong);
    }
    out.extend((0..count).map(|_| b'a' + rng.range_u64(0, 25) as u8));
    Ok(())
}

/// Bytes by which a text that began at `start` of `out` may still grow.
pub(crate) fn room(start: usize, out: &[u8]) -> usize {
    (start + LONGEST).saturating_sub(out.len())
}

/// Most bytes of a text, of a request and of a row: a number of letters with a digit too many
/// must not take all memory.
const LONGEST: usize = 32 << 20;

/// What most texts are shorter than.
const LONG: usize = 96;
