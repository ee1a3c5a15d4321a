//! The fields of a CSV record.

use std::borrow::Cow;

/// A field as it stands in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// What it holds, without quotes.
    pub text: Cow<'a, str>,
    /// Whether it was quoted: what is empty is then a text, and NULL otherwise.
    pub quoted: bool,
}

/// Takes a record apart.
pub fn fields(record: &str) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    let mut rest = Some(record);
    while let Some(text) = rest {
        let (field, behind) = field(text);
        fields.push(field);
        rest = behind;
    }
    fields
}

/// The first field, and what is behind the comma that ends it.
fn field(text: &str) -> (Field<'_>, Option<&str>) {
    let Some(inner) = text.strip_prefix('"') else {
        let (text, rest) = to_comma(text);
        return (Field { text: text.into(), quoted: false }, rest);
    };
    let mut held = Cow::Borrowed("");
    let mut inner = inner;
    loop {
        let end = inner.find('"').unwrap_or(inner.len());
        join(&mut held, &inner[..end]);
        match inner.get(end + 1..) {
            Some(behind) if behind.starts_with('"') => {
                join(&mut held, "\"");
                inner = &behind[1..];
            }
            behind => {
                // What stands between a closing quote and a comma belongs to the field.
                let (tail, rest) = to_comma(behind.unwrap_or_default());
                join(&mut held, tail);
                return (Field { text: held, quoted: true }, rest);
            }
        }
    }
}

fn to_comma(text: &str) -> (&str, Option<&str>) {
    text.split_once(',').map_or((text, None), |(field, rest)| (field, Some(rest)))
}

fn join<'a>(held: &mut Cow<'a, str>, more: &'a str) {
    if held.is_empty() {
        *held = Cow::Borrowed(more);
    } else {
        held.to_mut().push_str(more);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(texts in prop::collection::vec((".{0,9}", any::<bool>()), 1..6)) {
            let mut record = Vec::new();
            let mut expected = Vec::new();
            for (text, quote) in &texts {
                let quoted = *quote || text.contains([',', '"', '\n']);
                let field = format!("\"{}\"", text.replace('"', "\"\""));
                record.push(if quoted { field } else { text.clone() });
                expected.push(Field { text: text.into(), quoted });
            }
            let record = record.join(",");
            prop_assert_eq!(fields(&record), expected);
        }

        #[test]
        fn no_record_brings_it_down(record in "[a,\"\n\u{e4}]{0,20}") {
            prop_assert!(!fields(&record).is_empty());
        }
    }
}
