//! Numbers as text, without going through `String`.

/// Appends a decimal integer.
pub(crate) fn write_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a UUID in its usual form.
pub(crate) fn write_uuid(bits: u128, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 0xF)]);
    }
}

/// Digits that a double carries for certain (C's `DBL_DIG`).
const DOUBLE_DIGITS: i32 = 15;

/// Appends a double as `%.15g` of PostgreSQL's own printf, as pgbench does.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
        return;
    }
    if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-Infinity" } else { b"Infinity" });
        return;
    }
    let scientific = format!("{value:.*e}", DOUBLE_DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..DOUBLE_DIGITS).contains(&exponent) {
        out.extend_from_slice(trim_fraction(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else {
        let decimals = (DOUBLE_DIGITS - 1 - exponent) as usize;
        let fixed = format!("{value:.decimals$}");
        out.extend_from_slice(trim_fraction(&fixed).as_bytes());
    }
}

fn trim_fraction(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i64) -> String {
        let mut out = Vec::new();
        write_int(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        write_double(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_match_the_standard_library() {
        for value in [0, 1, -1, 9, 10, 100_000, i64::MAX, i64::MIN] {
            assert_eq!(int(value), value.to_string());
        }
    }

    #[test]
    fn doubles_are_written_as_percent_15_g() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.333333333333333"),
            (2.0 / 3.0, "0.666666666666667"),
            (std::f64::consts::PI, "3.14159265358979"),
            (1e15, "1e+15"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (-2.5e-300, "-2.5e-300"),
            (999_999_999_999_999.9, "1e+15"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(double(value), expected, "{value:e}");
        }
    }
}
