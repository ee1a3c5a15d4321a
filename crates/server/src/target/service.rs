//! The connection service file: named sets of parameters in INI form.

use super::conninfo::Pairs;

/// The parameters of the section `[name]`, if it is there.
pub(crate) fn section(text: &str, name: &str) -> Option<Pairs> {
    let mut found = None;
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix('[') {
            if inside {
                break;
            }
            inside = title.strip_suffix(']') == Some(name);
            if inside {
                found = Some(Pairs::new());
            }
        } else if inside
            && let Some((key, value)) = line.split_once('=')
            && let Some(pairs) = &mut found
        {
            // The first of two lines with the same key counts, as in libpq.
            pairs.entry(key.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_section_is_read() {
        let text = "# a\n[one]\nhost=a\n\n[two]\nhost=b\nport = 7\nhost=c\n[three]\nuser=x\n";
        let two = section(text, "two").expect("there");
        assert_eq!(two.len(), 2);
        assert_eq!((two["host"].as_str(), two["port"].as_str()), ("b", "7"));
        assert_eq!(section(text, "four"), None);
    }
}
