//! Names and values that the server does not take.

use std::collections::BTreeMap;

use walwright_catalog::{Apply, Parameter, nearest_setting, setting};

use super::input::{Given, ReviewInput};

/// A setting that the server does not take: with it in a file, it does not start.
pub(super) struct Refused {
    /// Name, as in the file but in lower case; the catalogue's where it is known.
    pub(super) name: String,
    /// The value it was given.
    pub(super) value: String,
    /// Where.
    pub(super) place: String,
    /// The setting that was meant, if the name is none but near one.
    pub(super) meant: Option<&'static Parameter>,
    /// Why, in a sentence.
    pub(super) why: String,
}

/// What is refused, and the settings that misspelled names were meant to set, by name in
/// lower case.
///
/// The word of the server's program, where one was asked, is above the catalogue's.
pub(super) fn refused<'a>(
    input: &'a ReviewInput<'_>,
) -> (Vec<Refused>, BTreeMap<String, &'a Given>) {
    let (mut refused, mut meant) = (Vec::new(), BTreeMap::new());
    if input.running {
        return (refused, meant);
    }
    for (name, given) in &input.settings {
        let known = setting(name);
        let asked = input.asked.as_ref().filter(|asked| asked.names.contains(name));
        let own = own_word(input.major, name, known, given);
        let why = match (asked, own) {
            (Some(asked), own) => match asked.refused.get(name) {
                // Our word for a name that is none says more.
                Some(_) if own.is_some() && known.is_none() => own,
                Some(said) => Some(format!("{}: {said}", asked.by)),
                None => None,
            },
            (None, own) => own,
        };
        let Some(why) = why else { continue };
        let near = known.is_none().then(|| nearest_setting(name, input.major)).flatten();
        if let Some(near) = near
            && near.read_in(input.major, &given.value).is_ok()
            && !input.settings.contains_key(&near.name.to_lowercase())
        {
            meant.insert(near.name.to_lowercase(), given);
        }
        refused.push(Refused {
            name: known.map_or_else(|| name.clone(), |known| known.name.clone()),
            value: given.value.clone(),
            place: given.place.clone(),
            meant: near,
            why,
        });
    }
    (refused, meant)
}

/// What the catalogue has against a setting.
fn own_word(major: u32, name: &str, known: Option<&Parameter>, given: &Given) -> Option<String> {
    let Some(known) = known else {
        // An extension's, which is not known before it is loaded.
        if name.contains('.') {
            return None;
        }
        let near = nearest_setting(name, major)
            .map_or_else(String::new, |near| format!("; did you mean {}?", near.name));
        return Some(format!("PostgreSQL {major} has no setting of this name{near}"));
    };
    if !known.is_in(major) {
        return Some(match known.since.filter(|since| *since > major) {
            Some(since) => format!("PostgreSQL {major} does not have it: it came with {since}"),
            None => format!("PostgreSQL {major} does not have it any more"),
        });
    }
    if known.apply(major) == Apply::Recreate {
        return Some("it belongs to the cluster or the build, and no file can set it".to_owned());
    }
    known.read_in(major, &given.value).err().map(|error| error.to_string())
}
