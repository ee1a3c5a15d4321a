//! Whether what is stored can be what was measured.
//!
//! The file may come from elsewhere, or from a disk that damaged it. What is read from it is
//! added up and subtracted all over the program, so figures that no run has are refused here.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use walwright_record::{LoadInterval, Timestamp, Window};

/// Larger numbers are counts of nothing: 2^53, as far as a double counts.
const MOST: f64 = 9_007_199_254_740_992.0;
/// Members that may be any number.
const ANY: [&str; 1] = ["seed"];
/// Seconds that no stretch of time has: a hundred years.
const LONGEST: u64 = 3_200_000_000;
/// The last moment: 9999-12-31 in microseconds.
const LAST: i64 = 253_402_300_799_000_000;
/// What an interval of the load counts less than.
const MOST_COUNTED: u64 = 1_000_000_000_000;

/// Reads JSON of which all numbers are of a size that can be worked with.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read<T: DeserializeOwned>(body: &str) -> Result<T, String> {
    let value: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    numbers(&value)?;
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn numbers(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let sound = number.as_f64().is_some_and(|number| number.abs() <= MOST);
            if sound { Ok(()) } else { Err(format!("{number} is too large")) }
        }
        Value::Array(values) => values.iter().try_for_each(numbers),
        Value::Object(members) => {
            if members.get("secs").and_then(Value::as_u64).is_some_and(|secs| secs > LONGEST) {
                return Err("a time in it is longer than any".to_owned());
            }
            let of_size = members.iter().filter(|(name, _)| !ANY.contains(&name.as_str()));
            of_size.map(|(_, value)| value).try_for_each(numbers)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// A moment that there is.
///
/// # Errors
/// When there is not.
pub(super) fn moment(micros: i64) -> Result<Timestamp, String> {
    let sound = (0..=LAST).contains(&micros);
    if sound { Ok(Timestamp(micros)) } else { Err(format!("{micros} µs is no moment")) }
}

/// An interval as clients can have filled it.
///
/// # Errors
/// When it cannot be one.
pub(super) fn interval(of: &LoadInterval) -> Result<(), String> {
    moment(of.start.0)?;
    let scripts = of.scripts.iter().flat_map(|script| {
        let failed = script.failures.values().chain(script.retries.values());
        failed.chain([&script.transactions, &script.retried])
    });
    let counts = scripts.chain([&of.due, &of.skipped, &of.late]);
    if let Some(count) = counts.into_iter().find(|count| **count > MOST_COUNTED) {
        return Err(format!("{count} transactions are too many"));
    }
    Ok(())
}

/// A stretch that does not end before it begins, and that seconds can be counted in.
///
/// # Errors
/// When it is none.
pub(super) fn window(
    start: i64,
    end: Option<i64>,
) -> Result<(Timestamp, Option<Timestamp>), String> {
    let (start, end) = (moment(start)?, end.map(moment).transpose()?);
    let whole = Window { start, end: end.unwrap_or(start) };
    if whole.end < whole.start || whole.length() > Duration::from_secs(YEAR) {
        return Err("it ends before it begins, or after more than a year".to_owned());
    }
    Ok((start, end))
}

/// Seconds of a year.
const YEAR: u64 = 366 * 86_400;
