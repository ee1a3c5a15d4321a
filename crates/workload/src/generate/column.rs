//! One column: what it writes for a row.

use super::copy_text::{NULL, displayed_length};
use super::timestamp::Timestamps;
use super::uuid;
use crate::script::{
    EvalError, Expr, Rng, Template, Value, Variables, integer, room, write_letters, write_uuid,
};

/// A column with its generator.
#[derive(Debug)]
pub(crate) struct Column {
    pub name: String,
    pub generator: Generator,
    pub null_fraction: f64,
    /// Blank-pad to this many characters.
    pub pad: usize,
}

#[derive(Debug)]
pub(crate) enum Generator {
    Expr(Expr),
    Text(Template),
    /// Escaped texts, and the running sums of their weights.
    Choice {
        texts: Vec<Box<[u8]>>,
        bounds: Vec<u64>,
    },
    UuidV4,
    UuidV7,
    /// The value of an expression, as the last digits of a UUID.
    UuidOf(Expr),
    Timestamp(Timestamps),
    /// So many random lower-case letters.
    Letters(Expr),
    Null,
}

impl Column {
    /// Appends the value for the row of this number, which began at `row_start`.
    pub(crate) fn write(
        &self,
        row: u64,
        variables: &Variables,
        rng: &mut Rng,
        row_start: usize,
        buf: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        if self.null_fraction > 0.0 && rng.next_f64() < self.null_fraction {
            buf.extend_from_slice(NULL);
            return Ok(());
        }
        let start = buf.len();
        match &self.generator {
            Generator::Expr(expr) => match expr.eval(variables, rng)? {
                Value::Null => {
                    buf.extend_from_slice(NULL);
                    return Ok(());
                }
                value => value.write_text(buf),
            },
            Generator::Text(template) => template.write(variables, rng, row_start, buf)?,
            Generator::Choice { texts, bounds } => {
                let total = bounds.last().copied().unwrap_or(1);
                let place = rng.range_u64(0, total - 1);
                let index = bounds.partition_point(|bound| *bound <= place);
                if let Some(text) = texts.get(index) {
                    buf.extend_from_slice(text);
                }
            }
            Generator::UuidV4 => uuid::write_v4(rng, buf),
            Generator::UuidV7 => uuid::write_v7(row, rng, buf),
            Generator::UuidOf(expr) => {
                let number = integer(expr, variables, rng)?;
                write_uuid(u128::from(number as u64), buf);
            }
            Generator::Timestamp(timestamps) => timestamps.write(row, rng, buf),
            Generator::Letters(length) => {
                write_letters(integer(length, variables, rng)?, rng, row_start, buf)?;
            }
            Generator::Null => {
                buf.extend_from_slice(NULL);
                return Ok(());
            }
        }
        if self.pad > 0 {
            let missing = self.pad.saturating_sub(displayed_length(&buf[start..]));
            if missing > room(row_start, buf) {
                return Err(EvalError::TooLong);
            }
            buf.resize(buf.len() + missing, b' ');
        }
        Ok(())
    }
}
