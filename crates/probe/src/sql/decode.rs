//! PostgreSQL's binary values as scalars of a record.

use tokio_postgres::types::Type;
use walwright_record::Scalar;
use walwright_server::readable;

/// Microseconds from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;
/// Days of a month in an interval, as PostgreSQL counts them in `extract(epoch …)`.
const DAYS_PER_MONTH: f64 = 30.0;

/// The value of `raw`, or `None` for a type that a record does not hold (such a
/// column is then absent).
pub(crate) fn scalar(ty: &Type, raw: Option<&[u8]>) -> Option<Scalar> {
    if !is_known(ty) {
        return None;
    }
    let Some(raw) = raw else { return Some(Scalar::Null) };
    Some(match *ty {
        Type::BOOL => Scalar::Bool(*raw.first()? != 0),
        Type::INT2 => Scalar::Int(i16::from_be_bytes(raw.try_into().ok()?).into()),
        Type::INT4 => Scalar::Int(i32::from_be_bytes(raw.try_into().ok()?).into()),
        Type::INT8 => Scalar::Int(i64::from_be_bytes(raw.try_into().ok()?)),
        Type::OID | Type::XID | Type::REGCLASS => {
            Scalar::Int(u32::from_be_bytes(raw.try_into().ok()?).into())
        }
        Type::PG_LSN => Scalar::from(u64::from_be_bytes(raw.try_into().ok()?)),
        Type::FLOAT4 => Scalar::from(f64::from(f32::from_be_bytes(raw.try_into().ok()?))),
        Type::FLOAT8 => Scalar::from(f64::from_be_bytes(raw.try_into().ok()?)),
        Type::TIMESTAMPTZ => {
            let since_2000 = i64::from_be_bytes(raw.try_into().ok()?);
            since_2000.checked_add(POSTGRES_EPOCH_MICROS).map_or(Scalar::Null, Scalar::Int)
        }
        Type::INTERVAL => interval_millis(raw)?,
        Type::NUMERIC => numeric(raw)?,
        _ => Scalar::Text(readable(raw)),
    })
}

fn is_known(ty: &Type) -> bool {
    matches!(
        *ty,
        Type::BOOL
            | Type::INT2
            | Type::INT4
            | Type::INT8
            | Type::OID
            | Type::XID
            | Type::REGCLASS
            | Type::PG_LSN
            | Type::FLOAT4
            | Type::FLOAT8
            | Type::TIMESTAMPTZ
            | Type::INTERVAL
            | Type::NUMERIC
            | Type::TEXT
            | Type::NAME
            | Type::VARCHAR
            | Type::CHAR
    )
}

fn interval_millis(raw: &[u8]) -> Option<Scalar> {
    let micros = i64::from_be_bytes(raw.get(0..8)?.try_into().ok()?);
    let days = i32::from_be_bytes(raw.get(8..12)?.try_into().ok()?);
    let months = i32::from_be_bytes(raw.get(12..16)?.try_into().ok()?);
    let days = f64::from(days) + DAYS_PER_MONTH * f64::from(months);
    Some(Scalar::Float(micros as f64 / 1e3 + days * 86_400_000.0))
}

/// A `numeric`: digits of base 10,000, the first weighing 10,000^weight
/// (`numeric_send`). Whole numbers that fit stay whole.
fn numeric(raw: &[u8]) -> Option<Scalar> {
    const NEGATIVE: u16 = 0x4000;
    let field = |at: usize| Some(u16::from_be_bytes(raw.get(at..at + 2)?.try_into().ok()?));
    let digits = usize::from(field(0)?);
    let weight = i32::from(field(2)? as i16);
    let sign = field(4)?;
    if sign != 0 && sign != NEGATIVE {
        // NaN and the infinities.
        return Some(Scalar::Null);
    }
    let mut whole: Option<i64> = Some(0);
    let mut approximate = 0.0_f64;
    for place in 0..digits {
        let digit = field(8 + 2 * place)?;
        let power = weight - i32::try_from(place).ok()?;
        approximate += f64::from(digit) * 10_000_f64.powi(power);
        whole = match whole {
            Some(sum) if power >= 0 => {
                sum.checked_mul(10_000).and_then(|sum| sum.checked_add(i64::from(digit)))
            }
            Some(_) if digit != 0 => None,
            other => other,
        };
    }
    // Trailing groups of zeros are not sent.
    let sent = i32::try_from(digits).ok()?;
    for _ in sent..=weight {
        whole = whole.and_then(|sum| sum.checked_mul(10_000));
    }
    Some(match whole {
        Some(sum) => Scalar::Int(if sign == NEGATIVE { -sum } else { sum }),
        None => Scalar::from(if sign == NEGATIVE { -approximate } else { approximate }),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What `numeric_send` makes of a whole number.
    fn sent(value: i64) -> Vec<u8> {
        let mut rest = value.unsigned_abs();
        let mut digits = Vec::new();
        while rest > 0 {
            digits.insert(0, u16::try_from(rest % 10_000).unwrap());
            rest /= 10_000;
        }
        let weight = i16::try_from(digits.len()).unwrap() - 1;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let mut raw = Vec::new();
        raw.extend(u16::try_from(digits.len()).unwrap().to_be_bytes());
        raw.extend(if digits.is_empty() { 0 } else { weight }.to_be_bytes());
        raw.extend(if value < 0 { 0x4000_u16 } else { 0 }.to_be_bytes());
        raw.extend(0_u16.to_be_bytes());
        digits.iter().for_each(|d| raw.extend(d.to_be_bytes()));
        raw
    }

    proptest! {
        #[test]
        fn whole_numerics_stay_whole(value in -i64::MAX..i64::MAX) {
            prop_assert_eq!(scalar(&Type::NUMERIC, Some(&sent(value))), Some(Scalar::Int(value)));
        }

        #[test]
        fn no_bytes_bring_it_down(raw in proptest::collection::vec(any::<u8>(), 0..40)) {
            for ty in [Type::NUMERIC, Type::INT8, Type::INTERVAL, Type::BOOL, Type::TEXT, Type::PG_LSN] {
                let _ = scalar(&ty, Some(&raw));
            }
        }
    }

    #[test]
    fn fractions_and_zero() {
        // 12.5: digits 12, 5000; weight 0.
        let raw = [0, 2, 0, 0, 0, 0, 0, 1, 0, 12, 0x13, 0x88];
        assert_eq!(numeric(&raw), Some(Scalar::Float(12.5)));
        assert_eq!(numeric(&sent(0)), Some(Scalar::Int(0)));
        let nan = [0, 0, 0, 0, 0xC0, 0, 0, 0];
        assert_eq!(numeric(&nan), Some(Scalar::Null));
    }

    #[test]
    fn moments_count_from_1970_and_nulls_stay_unknown() {
        assert_eq!(
            scalar(&Type::TIMESTAMPTZ, Some(&0_i64.to_be_bytes())),
            Some(Scalar::Int(POSTGRES_EPOCH_MICROS))
        );
        assert_eq!(scalar(&Type::INT8, None), Some(Scalar::Null));
        assert_eq!(scalar(&Type::INET, Some(&[1])), None);
    }

    #[test]
    fn an_interval_is_milliseconds() {
        let mut raw = 1_500_i64.to_be_bytes().to_vec();
        raw.extend(1_i32.to_be_bytes());
        raw.extend(0_i32.to_be_bytes());
        assert_eq!(scalar(&Type::INTERVAL, Some(&raw)), Some(Scalar::Float(86_400_001.5)));
    }
}
