//! What the scripts of a load that is ours say beyond the statements' texts: where
//! values come from.

use std::collections::BTreeSet;

use walwright_figures::StatementUse;

use crate::Reading;

/// Words of values that differ from call to call whatever the variables are.
const CHANGING: [&str; 7] =
    ["now(", "random", "clock_timestamp", "current_", "nextval", "uuid", "statement_timestamp"];

/// Whether every script that holds this upsert computes all its values from those of
/// the key: written once, a row is written as it is from then on.
pub(super) fn writes_by_key(reading: &Reading, upsert: &StatementUse) -> bool {
    let Some(table) = upsert.target() else { return false };
    let scripts = reading.record.workload.iter().flat_map(|w| &w.scripts);
    let holding: Vec<String> = scripts
        .flat_map(|script| script.text.split(';'))
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase())
        .filter_map(|text| Some(text[text.find("insert into ")?..].to_owned()))
        .filter(|text| text["insert into ".len()..].starts_with(&table))
        .filter(|text| text.contains(" on conflict "))
        .collect();
    !holding.is_empty() && holding.iter().all(|text| depends_on_key(text) == Some(true))
}

/// Whether the values of an upsert use no other variables than its key's do; `None`
/// where the text is not of the simple kind.
fn depends_on_key(text: &str) -> Option<bool> {
    let (head, rest) = text.split_once(" values ")?;
    let (values, conflict) = rest.split_once(" on conflict ")?;
    if CHANGING.iter().any(|word| values.contains(word)) {
        return Some(false);
    }
    let inside = values.trim().strip_prefix('(')?.strip_suffix(')')?;
    let values = parts(inside);
    let keys: Vec<&str> =
        conflict.strip_prefix('(')?.split_once(')')?.0.split(',').map(str::trim).collect();
    let columns: Option<Vec<&str>> = head
        .split_once('(')
        .and_then(|(_, list)| Some(list.split_once(')')?.0.split(',').map(str::trim).collect()));
    // Without names the key is taken to be the first columns.
    let is_key = |place: usize| match &columns {
        Some(columns) => columns.get(place).is_some_and(|name| keys.contains(name)),
        None => place < keys.len(),
    };
    let used = |of_key: bool| -> BTreeSet<&str> {
        let chosen = values.iter().enumerate().filter(|(place, _)| is_key(*place) == of_key);
        chosen.flat_map(|(_, value)| variables(value)).collect()
    };
    Some(used(false).is_subset(&used(true)))
}

/// The parts between commas that are in no bracket and no quote.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Names of the script's variables in an expression; `::` is a cast.
fn variables(expression: &str) -> Vec<&str> {
    expression
        .match_indices(':')
        .filter(|(at, _)| !expression[..*at].ends_with(':'))
        .filter_map(|(at, _)| {
            let rest = &expression[at + 1..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (end > 0).then(|| &rest[..end])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_follow_from_the_key() {
        let of = |values: &str| {
            depends_on_key(&format!(
                "insert into item values ({values}) on conflict (id) do update set a = excluded.a"
            ))
        };
        assert_eq!(of(":id, 'item ' || :id, 100"), Some(true));
        assert_eq!(of(":id::int, 'a, b', 1"), Some(true));
        assert_eq!(of(":id, :price"), Some(false));
        assert_eq!(of(":id, now()"), Some(false));
        let named = "insert into t (a, id) values (:v, :id) on conflict (id) do update set a = 1";
        assert_eq!(depends_on_key(named), Some(false));
        assert_eq!(depends_on_key("insert into t select 1 on conflict (id) do nothing"), None);
    }
}
