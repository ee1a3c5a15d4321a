//! Command-line forms: `file.sql@3` and `name=value`.

use super::compile::Definition;
use super::names::is_valid_name;

/// A script or variable argument that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// What follows the last `@` is not a weight.
    #[error(
        "\"{argument}\": the weight after @ must be a whole number from 0 to 2147483647, not \"{weight}\""
    )]
    Weight {
        /// The whole argument.
        argument: String,
        /// What stands where the weight should.
        weight: String,
    },
    /// There is no file name before the `@`.
    #[error("\"{0}\": a file name is missing before the weight")]
    NoFile(String),
    /// Not of the form `name=value`.
    #[error(
        "\"{0}\": a variable is defined as name=value, with a name of letters, digits and underscores that does not start with a digit, and a value that is not empty"
    )]
    Definition(String),
}

/// Splits `file.sql@3` into the file and its weight, which is 1 when no `@` is
/// given. As in pgbench the last `@` counts, so a path that holds one needs a
/// weight.
///
/// # Errors
/// When the weight is not a whole number up to 2147483647 or the name is empty.
pub fn parse_script_argument(argument: &str) -> Result<(&str, u32), ArgumentError> {
    let (file, weight) = match argument.rsplit_once('@') {
        None => (argument, 1),
        Some((file, weight)) => {
            let parsed = weight.parse::<i32>().ok().and_then(|weight| weight.try_into().ok());
            let parsed = parsed.ok_or_else(|| ArgumentError::Weight {
                argument: argument.to_owned(),
                weight: weight.to_owned(),
            })?;
            (file, parsed)
        }
    };
    if file.is_empty() {
        return Err(ArgumentError::NoFile(argument.to_owned()));
    }
    Ok((file, weight))
}

/// Reads `name=value`, the argument of `-D`.
///
/// # Errors
/// When there is no `=`, the name is not one, or the value is empty.
pub fn parse_definition(argument: &str) -> Result<Definition, ArgumentError> {
    match argument.split_once('=') {
        Some((name, value)) if is_valid_name(name) && !value.is_empty() => {
            Ok(Definition { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err(ArgumentError::Definition(argument.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_at_sign_separates_the_weight() {
        assert_eq!(parse_script_argument("a.sql"), Ok(("a.sql", 1)));
        assert_eq!(parse_script_argument("a.sql@3"), Ok(("a.sql", 3)));
        assert_eq!(parse_script_argument("d@v/a.sql@0"), Ok(("d@v/a.sql", 0)));
        for bad in ["a.sql@", "a.sql@x", "a.sql@-1", "a.sql@2147483648", "d@v/a.sql"] {
            assert!(
                matches!(parse_script_argument(bad), Err(ArgumentError::Weight { .. })),
                "{bad}"
            );
        }
        assert_eq!(parse_script_argument("@3"), Err(ArgumentError::NoFile("@3".into())));
    }

    #[test]
    fn a_definition_is_a_name_and_a_value() {
        let definition = parse_definition("size=a=b").unwrap();
        assert_eq!((definition.name.as_str(), definition.value.as_str()), ("size", "a=b"));
        for bad in ["size", "=1", "1a=2", "size=", "si ze=1"] {
            assert!(parse_definition(bad).is_err(), "{bad}");
        }
    }
}
