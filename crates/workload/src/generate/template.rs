//! Text with expressions in it: `user-{{random(1, 100)}}`.

use super::copy_text::escape;
use crate::script::{EvalError, Expr, Rng, Variables, integer, letters, write_letters};

/// A compiled template.
#[derive(Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    /// Escaped for COPY.
    Text(Box<[u8]>),
    Expr(Expr),
    /// So many random lower-case letters.
    Letters(Expr),
}

impl Template {
    /// Parses `text`; `{{` starts an expression and `}}` ends it. Other braces
    /// are text, so JSON needs no escaping; a `{{` without `}}` is text too.
    pub(crate) fn parse<E>(
        text: &str,
        mut compile: impl FnMut(&str) -> Result<Expr, E>,
    ) -> Result<Template, E> {
        let mut parts = Vec::new();
        let push_text = |parts: &mut Vec<Part>, text: &str| {
            if !text.is_empty() {
                let mut escaped = Vec::new();
                escape(text.as_bytes(), &mut escaped);
                parts.push(Part::Text(escaped.into_boxed_slice()));
            }
        };
        let mut rest = text;
        while let Some((before, opened)) = rest.split_once("{{") {
            let Some((expr, after)) = opened.split_once("}}") else {
                break;
            };
            push_text(&mut parts, before);
            parts.push(match letters(expr) {
                Some((_, length)) => Part::Letters(compile(length)?),
                None => Part::Expr(compile(expr)?),
            });
            rest = after;
        }
        push_text(&mut parts, rest);
        Ok(Template { parts })
    }

    /// Appends the text for a row that began at `start`.
    pub(crate) fn write(
        &self,
        variables: &Variables,
        rng: &mut Rng,
        start: usize,
        buf: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        for part in &self.parts {
            match part {
                Part::Text(text) => buf.extend_from_slice(text),
                Part::Letters(length) => {
                    write_letters(integer(length, variables, rng)?, rng, start, buf)?;
                }
                // Numbers and booleans hold nothing that needs escaping; NULL
                // becomes the JSON word.
                Part::Expr(expr) => match expr.eval(variables, rng)? {
                    crate::script::Value::Null => buf.extend_from_slice(b"null"),
                    value => value.write_text(buf),
                },
            }
        }
        Ok(())
    }
}
