//! What a person means by a name: of a run, an experiment, a tune, a journal entry.

use thiserror::Error;

/// A kind of thing with names, as messages speak of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// One of them, such as `run`.
    pub one: &'static str,
    /// Several, such as `runs`.
    pub many: &'static str,
    /// The command that lists them.
    pub listed_by: &'static str,
}

/// Why a name does not say which one is meant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FindError {
    /// None fits.
    #[error("there is no {} '{name}'; `{}` lists them", kind.one, kind.listed_by)]
    NoSuch {
        /// What was looked for.
        kind: &'static Kind,
        /// The name that was given.
        name: String,
    },
    /// Several fit.
    #[error("'{name}' fits several {}: {candidates}; give more of the name", kind.many)]
    Several {
        /// What was looked for.
        kind: &'static Kind,
        /// The name that was given.
        name: String,
        /// Those that fit.
        candidates: String,
    },
}

impl Kind {
    /// The one of `all`, which come oldest first, that a person means by `name`: `latest`
    /// (or `last`), a whole name, or the beginning or end of one. `names` gives the names
    /// of one of them; the first is the one that lists show, and only that can be cut short.
    ///
    /// # Errors
    /// When none or several fit.
    pub fn find<T>(
        &'static self,
        all: impl IntoIterator<Item = T>,
        names: impl Fn(&T) -> Vec<&str>,
        name: &str,
    ) -> Result<T, FindError> {
        let mut all: Vec<T> = all.into_iter().collect();
        if matches!(name, "latest" | "last") {
            return all.pop().ok_or_else(|| self.no_such(name));
        }
        let is_whole = |one: &T| names(one).contains(&name);
        let fits = |id: &&str| id.starts_with(name) || id.ends_with(name);
        if name.is_empty() {
            all.clear();
        } else if all.iter().any(is_whole) {
            all.retain(is_whole);
        } else {
            all.retain(|one| names(one).first().is_some_and(fits));
        }
        match all.len() {
            0 => Err(self.no_such(name)),
            1 => Ok(all.remove(0)),
            _ => {
                let ids: Vec<&str> =
                    all.iter().filter_map(|one| names(one).first().copied()).collect();
                Err(FindError::Several {
                    kind: self,
                    name: name.to_owned(),
                    candidates: ids.join(", "),
                })
            }
        }
    }

    /// That there is none of this name.
    pub fn no_such(&'static self, name: &str) -> FindError {
        FindError::NoSuch { kind: self, name: name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static THINGS: Kind = Kind { one: "thing", many: "things", listed_by: "walwright things" };

    /// Three things, of which two were given a name.
    fn found(name: &str) -> Result<&'static str, String> {
        let all = [("0101-abc", ""), ("0102-abd", "first"), ("0102-ab", "0101")];
        let found = THINGS.find(all, |(id, called)| vec![*id, *called], name);
        found.map(|(id, _)| id).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_may_be_cut_short_where_one_fits_and_a_whole_one_wins() {
        for (name, id) in [
            ("latest", "0102-ab"),
            ("last", "0102-ab"),
            ("0101-abc", "0101-abc"),
            // Also the beginning of another.
            ("0102-ab", "0102-ab"),
            ("0101-", "0101-abc"),
            ("abd", "0102-abd"),
            ("first", "0102-abd"),
            // The beginning of one, and the whole given name of another.
            ("0101", "0102-ab"),
        ] {
            assert_eq!(found(name), Ok(id), "{name}");
        }
        let several = "'0102' fits several things: 0102-abd, 0102-ab; give more of the name";
        assert_eq!(found("0102"), Err(several.to_owned()));
        for name in ["", "x", "102-", "fir"] {
            let none = format!("there is no thing '{name}'; `walwright things` lists them");
            assert_eq!(found(name), Err(none));
        }
        assert!(THINGS.find([], |one: &&str| vec![*one], "latest").is_err());
    }
}
