//! Evaluation of expressions: no allocation, no names.

use super::expr::{BinaryOp, Expr, Function, MAX_ARGUMENTS, Node};
use super::numeric;
use super::program::Slot;
use super::rng::Rng;
use super::value::{Scalar, Value, ValueType, Variables};

/// Why an expression has no value. The messages follow pgbench's.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// Nothing has set the variable yet.
    #[error("a variable is used before anything has set it")]
    Undefined(Slot),
    /// The variable holds text that is no number, boolean or NULL.
    #[error("a variable holds text that is not a number, a boolean or null")]
    Malformed(Slot),
    /// The variable holds a line break, which would end the header field it stands in.
    #[error("a variable holds a line break, which ends a header field")]
    LineBreak(Slot),
    /// A value of one type stands where another is needed.
    #[error("cannot coerce {from} to {to}")]
    Type {
        /// The type of the value.
        from: ValueType,
        /// The type that is needed.
        to: ValueType,
    },
    /// An integer result does not fit 64 bits.
    #[error("bigint {0} out of range")]
    Overflow(&'static str),
    /// A double does not fit 64-bit integers.
    #[error("double to int overflow for {0}")]
    DoubleToInt(f64),
    /// Division or remainder by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// The lower bound of a random range exceeds the upper.
    #[error("empty range given to random: {min} to {max}")]
    EmptyRange {
        /// Lower bound.
        min: i64,
        /// Upper bound.
        max: i64,
    },
    /// A random range holds more than 2^63 - 1 integers.
    #[error("random range is too large: {min} to {max}")]
    RangeTooLarge {
        /// Lower bound.
        min: i64,
        /// Upper bound.
        max: i64,
    },
    /// The parameter of `random_gaussian` is below 2.
    #[error("gaussian parameter must be at least 2 (not {0})")]
    Gaussian(f64),
    /// The parameter of `random_zipfian` is outside its range.
    #[error("zipfian parameter must be in range [1.001, 1000] (not {0})")]
    Zipfian(f64),
    /// The parameter of `random_exponential` is not positive.
    #[error("exponential parameter must be greater than zero (not {0})")]
    Exponential(f64),
    /// The size given to `permute` is not positive.
    #[error("permute size parameter must be greater than zero (not {0})")]
    PermuteSize(i64),
    /// The amount of a `\sleep` is not a whole number in range.
    #[error("\\sleep needs a whole number of units that is not negative")]
    Sleep,
    /// A text, a request or a row is larger than any that is meant.
    #[error("it is longer than 32 MiB")]
    TooLong,
}

impl Expr {
    /// The value of the expression.
    ///
    /// # Errors
    /// As pgbench: overflow, division by zero, wrong types, bad parameters of
    /// a random function, a variable without a value.
    #[inline]
    pub fn eval(&self, variables: &Variables, rng: &mut Rng) -> Result<Value, EvalError> {
        eval(&self.0, variables, rng).map(Value::from)
    }

    /// The expression as a condition: NULL and zero are false, other numbers
    /// are true.
    ///
    /// # Errors
    /// As [`Expr::eval`].
    #[inline]
    pub fn eval_condition(&self, variables: &Variables, rng: &mut Rng) -> Result<bool, EvalError> {
        eval(&self.0, variables, rng).map(Scalar::truth)
    }
}

fn eval(node: &Node, variables: &Variables, rng: &mut Rng) -> Result<Scalar, EvalError> {
    match node {
        Node::Constant(value) => Ok(*value),
        Node::Variable(slot) => variable(*slot, variables),
        Node::Binary(op, sides) => {
            let left = operand(&sides[0], variables, rng)?;
            let right = operand(&sides[1], variables, rng)?;
            binary(*op, left, right)
        }
        // The function of nearly every load script: no array of arguments.
        Node::Call(Function::Random, arguments) if let [min, max] = &**arguments => {
            let min = operand(min, variables, rng)?;
            let max = operand(max, variables, rng)?;
            if min.is_null() || max.is_null() {
                return Ok(Scalar::Null);
            }
            let (min, max) = random_range(min, max)?;
            Ok(Scalar::Int(numeric::uniform(rng, min, max)))
        }
        Node::Call(function, arguments) => call(*function, arguments, variables, rng),
        Node::And(sides) => logical(sides, false, variables, rng),
        Node::Or(sides) => logical(sides, true, variables, rng),
        Node::Not(_) | Node::Is(..) | Node::IsText(..) | Node::Case(_) => {
            eval_rare(node, variables, rng)
        }
    }
}

/// A side of an operator: mostly a constant or a variable, which this reads
/// without a call.
#[inline(always)]
fn operand(node: &Node, variables: &Variables, rng: &mut Rng) -> Result<Scalar, EvalError> {
    match node {
        Node::Constant(value) => Ok(*value),
        Node::Variable(slot) => variable(*slot, variables),
        other => eval(other, variables, rng),
    }
}

/// What few scripts evaluate, kept apart so that [`eval`] has a small frame.
#[inline(never)]
fn eval_rare(node: &Node, variables: &Variables, rng: &mut Rng) -> Result<Scalar, EvalError> {
    match node {
        Node::Not(operand) => match eval(operand, variables, rng)? {
            Scalar::Null => Ok(Scalar::Null),
            value => Ok(Scalar::Bool(!to_bool(value)?)),
        },
        Node::Is(operand, wanted) => {
            let value = eval(operand, variables, rng)?;
            Ok(Scalar::Bool(match (value, wanted) {
                (Scalar::Null, Scalar::Null) => true,
                (Scalar::Bool(value), Scalar::Bool(wanted)) => value == *wanted,
                _ => false,
            }))
        }
        Node::IsText(slot, text) => match variables.get(*slot) {
            None => Err(EvalError::Undefined(*slot)),
            Some(Value::Null) => Ok(Scalar::Null),
            Some(Value::Text(value)) => Ok(Scalar::Bool(value == text)),
            Some(value) => {
                let mut written = Vec::new();
                value.write_text(&mut written);
                Ok(Scalar::Bool(written == text.as_bytes()))
            }
        },
        Node::Case(case) => {
            for (condition, result) in &case.arms {
                if eval(condition, variables, rng)?.truth() {
                    return eval(result, variables, rng);
                }
            }
            eval(&case.otherwise, variables, rng)
        }
        other => eval(other, variables, rng),
    }
}

#[inline]
fn variable(slot: Slot, variables: &Variables) -> Result<Scalar, EvalError> {
    match variables.get(slot) {
        Some(Value::Int(value)) => Ok(Scalar::Int(*value)),
        other => variable_other(slot, other),
    }
}

#[inline(never)]
fn variable_other(slot: Slot, value: Option<&Value>) -> Result<Scalar, EvalError> {
    match value {
        Some(Value::Int(value)) => Ok(Scalar::Int(*value)),
        Some(Value::Double(value)) => Ok(Scalar::Double(*value)),
        Some(Value::Bool(value)) => Ok(Scalar::Bool(*value)),
        Some(Value::Null) => Ok(Scalar::Null),
        Some(Value::Text(text)) => Scalar::from_text(text).ok_or(EvalError::Malformed(slot)),
        None => Err(EvalError::Undefined(slot)),
    }
}

/// AND and OR: the second side is evaluated only when the first does not
/// decide, and a NULL first side decides (pgbench's rule, not SQL's).
#[inline(never)]
fn logical(
    sides: &[Node; 2],
    decisive: bool,
    variables: &Variables,
    rng: &mut Rng,
) -> Result<Scalar, EvalError> {
    for side in sides {
        match eval(side, variables, rng)? {
            Scalar::Null => return Ok(Scalar::Null),
            value => {
                if to_bool(value)? == decisive {
                    return Ok(Scalar::Bool(decisive));
                }
            }
        }
    }
    Ok(Scalar::Bool(!decisive))
}

#[inline]
pub(super) fn binary(op: BinaryOp, left: Scalar, right: Scalar) -> Result<Scalar, EvalError> {
    use BinaryOp as Op;
    if let (Scalar::Int(left), Scalar::Int(right)) = (left, right) {
        return int_binary(op, left, right);
    }
    if left.is_null() || right.is_null() {
        return Ok(Scalar::Null);
    }
    let has_double = matches!(left, Scalar::Double(_)) || matches!(right, Scalar::Double(_));
    let stays_double = matches!(
        op,
        Op::Add
            | Op::Subtract
            | Op::Multiply
            | Op::Divide
            | Op::Equal
            | Op::NotEqual
            | Op::Less
            | Op::LessOrEqual
    );
    if has_double && stays_double {
        let (left, right) = (to_double(left)?, to_double(right)?);
        return Ok(match op {
            Op::Add => Scalar::Double(left + right),
            Op::Subtract => Scalar::Double(left - right),
            Op::Multiply => Scalar::Double(left * right),
            Op::Divide => Scalar::Double(left / right),
            Op::Equal => Scalar::Bool(left == right),
            Op::NotEqual => Scalar::Bool(left != right),
            Op::Less => Scalar::Bool(left < right),
            _ => Scalar::Bool(left <= right),
        });
    }
    int_binary(op, to_int(left)?, to_int(right)?)
}

#[inline]
fn int_binary(op: BinaryOp, left: i64, right: i64) -> Result<Scalar, EvalError> {
    use BinaryOp as Op;
    Ok(match op {
        Op::Add => Scalar::Int(left.checked_add(right).ok_or(EvalError::Overflow("add"))?),
        Op::Subtract => Scalar::Int(left.checked_sub(right).ok_or(EvalError::Overflow("sub"))?),
        Op::Multiply => Scalar::Int(left.checked_mul(right).ok_or(EvalError::Overflow("mul"))?),
        Op::Divide if right == 0 => return Err(EvalError::DivisionByZero),
        Op::Divide => Scalar::Int(left.checked_div(right).ok_or(EvalError::Overflow("div"))?),
        Op::Modulo if right == 0 => return Err(EvalError::DivisionByZero),
        Op::Modulo => Scalar::Int(left.wrapping_rem(right)),
        Op::Equal => Scalar::Bool(left == right),
        Op::NotEqual => Scalar::Bool(left != right),
        Op::Less => Scalar::Bool(left < right),
        Op::LessOrEqual => Scalar::Bool(left <= right),
        Op::BitAnd => Scalar::Int(left & right),
        Op::BitOr => Scalar::Int(left | right),
        Op::BitXor => Scalar::Int(left ^ right),
        // The count is taken modulo 64, as the processors pgbench runs on do.
        Op::ShiftLeft => Scalar::Int(left.wrapping_shl(right as u32)),
        Op::ShiftRight => Scalar::Int(left.wrapping_shr(right as u32)),
    })
}

#[inline(never)]
fn call(
    function: Function,
    arguments: &[Node],
    variables: &Variables,
    rng: &mut Rng,
) -> Result<Scalar, EvalError> {
    let mut values = [Scalar::Null; MAX_ARGUMENTS];
    let values = &mut values[..arguments.len().min(MAX_ARGUMENTS)];
    let mut has_null = false;
    for (value, argument) in values.iter_mut().zip(arguments) {
        *value = eval(argument, variables, rng)?;
        has_null |= value.is_null();
    }
    if has_null && function != Function::Debug {
        return Ok(Scalar::Null);
    }
    match (function, &*values) {
        (Function::RandomGaussian, [min, max, parameter]) => {
            let (min, max) = random_range(*min, *max)?;
            let parameter = to_double(*parameter)?;
            if parameter.is_nan() || parameter < numeric::MIN_GAUSSIAN {
                return Err(EvalError::Gaussian(parameter));
            }
            Ok(Scalar::Int(numeric::gaussian(rng, min, max, parameter)))
        }
        (Function::RandomExponential, [min, max, parameter]) => {
            let (min, max) = random_range(*min, *max)?;
            let parameter = to_double(*parameter)?;
            if parameter.is_nan() || parameter <= 0.0 {
                return Err(EvalError::Exponential(parameter));
            }
            Ok(Scalar::Int(numeric::exponential(rng, min, max, parameter)))
        }
        (Function::RandomZipfian, [min, max, parameter]) => {
            let (min, max) = random_range(*min, *max)?;
            let parameter = to_double(*parameter)?;
            if !(numeric::MIN_ZIPFIAN..=numeric::MAX_ZIPFIAN).contains(&parameter) {
                return Err(EvalError::Zipfian(parameter));
            }
            Ok(Scalar::Int(numeric::zipfian(rng, min, max, parameter)))
        }
        (Function::HashFnv1a, [value, seed]) => {
            Ok(Scalar::Int(numeric::hash_fnv1a(to_int(*value)?, to_int(*seed)?)))
        }
        (Function::HashMurmur2, [value, seed]) => {
            Ok(Scalar::Int(numeric::hash_murmur2(to_int(*value)?, to_int(*seed)?)))
        }
        (Function::Permute, [value, size, seed]) => {
            let (value, size, seed) = (to_int(*value)?, to_int(*size)?, to_int(*seed)?);
            if size <= 0 {
                return Err(EvalError::PermuteSize(size));
            }
            Ok(Scalar::Int(numeric::permute(value, size, seed)))
        }
        (Function::Mod, [left, right]) => binary(BinaryOp::Modulo, *left, *right),
        (Function::Power, [base, exponent]) => {
            Ok(Scalar::Double(to_double(*base)?.powf(to_double(*exponent)?)))
        }
        (Function::Abs, [Scalar::Double(value)]) => Ok(Scalar::Double(value.abs())),
        (Function::Abs, [value]) => Ok(Scalar::Int(to_int(*value)?.wrapping_abs())),
        (Function::Double, [value]) => Ok(Scalar::Double(to_double(*value)?)),
        (Function::Sqrt, [value]) => Ok(Scalar::Double(to_double(*value)?.sqrt())),
        (Function::Ln, [value]) => Ok(Scalar::Double(to_double(*value)?.ln())),
        (Function::Exp, [value]) => Ok(Scalar::Double(to_double(*value)?.exp())),
        (Function::Int, [value]) => Ok(Scalar::Int(to_int(*value)?)),
        (Function::Debug, [value]) => {
            tracing::info!(target: "walwright::script", "debug(): {value:?}");
            Ok(*value)
        }
        (Function::Pi, _) => Ok(Scalar::Double(std::f64::consts::PI)),
        (Function::Least, values) => extremum(values, i64::min, |a, b| if a < b { a } else { b }),
        (Function::Greatest, values) => {
            extremum(values, i64::max, |a, b| if a > b { a } else { b })
        }
        // The parser has checked the number of arguments.
        _ => Ok(Scalar::Null),
    }
}

fn extremum(
    values: &[Scalar],
    of_ints: fn(i64, i64) -> i64,
    of_doubles: fn(f64, f64) -> f64,
) -> Result<Scalar, EvalError> {
    let Some((first, rest)) = values.split_first() else {
        return Ok(Scalar::Null);
    };
    if values.iter().any(|value| matches!(value, Scalar::Double(_))) {
        let mut best = to_double(*first)?;
        for value in rest {
            best = of_doubles(best, to_double(*value)?);
        }
        Ok(Scalar::Double(best))
    } else {
        let mut best = to_int(*first)?;
        for value in rest {
            best = of_ints(best, to_int(*value)?);
        }
        Ok(Scalar::Int(best))
    }
}

#[inline]
fn random_range(min: Scalar, max: Scalar) -> Result<(i64, i64), EvalError> {
    let (min, max) = (to_int(min)?, to_int(max)?);
    if min > max {
        return Err(EvalError::EmptyRange { min, max });
    }
    // The number of integers in the range must fit too, for the functions
    // that scale by it.
    if max.checked_sub(min).and_then(|width| width.checked_add(1)).is_none() {
        return Err(EvalError::RangeTooLarge { min, max });
    }
    Ok((min, max))
}

fn to_bool(value: Scalar) -> Result<bool, EvalError> {
    match value {
        Scalar::Bool(value) => Ok(value),
        other => Err(EvalError::Type { from: other.value_type(), to: ValueType::Boolean }),
    }
}

#[inline]
fn to_int(value: Scalar) -> Result<i64, EvalError> {
    match value {
        Scalar::Int(value) => Ok(value),
        Scalar::Double(value) => {
            let rounded = value.round_ties_even();
            // -2^63 is representable, 2^63 is the first double too large.
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                Ok(rounded as i64)
            } else {
                Err(EvalError::DoubleToInt(value))
            }
        }
        other => Err(EvalError::Type { from: other.value_type(), to: ValueType::Int }),
    }
}

fn to_double(value: Scalar) -> Result<f64, EvalError> {
    match value {
        Scalar::Double(value) => Ok(value),
        Scalar::Int(value) => Ok(value as f64),
        other => Err(EvalError::Type { from: other.value_type(), to: ValueType::Double }),
    }
}
