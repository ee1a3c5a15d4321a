//! What can be read off a statement's text without a parser: the columns it sets.

/// Words that end the assignments of a `SET` at their own level.
const ENDS: [&str; 5] = ["where", "from", "returning", "when", "on"];

/// The columns that an `UPDATE`, `ON CONFLICT … DO UPDATE` or `MERGE … UPDATE` sets,
/// of a text in lower case without comments. Names lose their quotes.
pub(super) fn columns_set(plain: &str) -> Vec<String> {
    let mut columns = Vec::new();
    for (at, _) in plain.match_indices(" set ") {
        assignments(&plain[at + 5..], &mut columns);
    }
    columns.sort();
    columns.dedup();
    columns
}

/// Takes in `a = …, "b" = …, (c, d) = …` up to the end of the list.
fn assignments(text: &str, columns: &mut Vec<String>) {
    for assignment in top_level(text) {
        let Some((left, _)) = assignment.split_once('=') else { return };
        let names = left.trim().trim_start_matches('(').trim_end_matches(')');
        columns.extend(names.split(',').filter_map(|name| {
            // `a[1]` and `a.field` set a.
            let name = name.trim().split(['[', '.']).next()?.trim().trim_matches('"');
            let plain = !name.is_empty() && !name.contains(char::is_whitespace);
            plain.then(|| name.to_owned())
        }));
    }
}

/// The parts between commas that are in no bracket and no quote, up to a word that
/// ends the list.
fn top_level(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_i32, None);
    let mut word = 0;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => continue,
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') if depth == 0 => {
                end = at;
                break;
            }
            (None, ')' | ']') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        let inside = c.is_alphanumeric() || c == '_';
        if depth == 0 && !inside {
            if ENDS.contains(&&text[word..at]) {
                end = word;
                break;
            }
            word = at + c.len_utf8();
        }
    }
    if start <= end {
        parts.push(&text[start..end]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_found() {
        let of = |text: &str| columns_set(text).join(" ");
        assert_eq!(
            of("update t set a = $1, \"b\" = f(c, d), (e, g) = ($2, $3) where h = 4"),
            "a b e g"
        );
        assert_eq!(of("update t set a = (select max(x) from u where set = 1), b = b + 1"), "a b");
        assert_eq!(
            of(
                "insert into t (x) values ($1) on conflict (x) do update set n = excluded.n where t.n <> $2"
            ),
            "n"
        );
        assert_eq!(of("with u as (update t set a = 1 where b = 2 returning *) select 1"), "a");
        assert_eq!(of("update t set a[1] = $1, c.f = $2 returning where_at"), "a c");
        assert_eq!(of("select offset from t"), "");
    }

    #[test]
    fn odd_texts_do_no_harm() {
        for text in [" set ", " set ,,,", " set (((", " set )", " set 'x", " set é = ü, ö"] {
            let _ = columns_set(text);
        }
    }
}
