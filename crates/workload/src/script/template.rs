//! Text with expressions in it, and parts of it that are left out or repeated.

use super::error::Fault;
use super::text::{integer, room, write_letters};
use super::{EvalError, Expr, Rng, Value, Variables};

/// A text that is written anew each time: `user-{{random(1, 100)}}`.
#[derive(Debug, Clone, Default)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    /// As it stands, escaped where its place asks for that.
    Literal(Box<[u8]>),
    /// The value of an expression; NULL is the word `null`, as JSON has it.
    Value(Expr),
    /// So many random lower-case letters.
    Letters(Expr),
    /// The first of these whose condition holds; one without is the rest.
    If(Vec<(Option<Expr>, Template)>),
    /// So many times, 0 to [`MOST_REPEATS`].
    Repeat(Expr, Template),
}

/// Most times that a part is repeated.
const MOST_REPEATS: i64 = 10_000;
/// How deep conditions may stand in each other: what reads and writes them calls itself.
const DEEPEST: usize = 16;

/// What a template is compiled with.
pub(crate) struct TemplateReader<C, F> {
    compile: C,
    fault: F,
    escape: fn(&[u8], &mut Vec<u8>),
    /// Whether a part that is repeated is being read.
    repeats: bool,
}

/// What ended a list of parts, and where it stood.
enum End<'t> {
    Text,
    Elif(usize, &'t str),
    Else,
    Endif,
    Endrepeat,
}

/// The text that is left to read, and where it stands.
struct Rest<'t> {
    text: &'t str,
    at: usize,
}

impl<E, C, F> TemplateReader<C, F>
where
    C: FnMut(&str, usize) -> Result<Expr, E>,
    F: Fn(usize, Fault) -> E,
{
    /// `compile` compiles the expression that stands at an offset, `fault` makes an error of a
    /// fault at one, and `escape` appends text as its place needs it.
    pub(crate) fn new(compile: C, fault: F, escape: fn(&[u8], &mut Vec<u8>)) -> Self {
        TemplateReader { compile, fault, escape, repeats: false }
    }

    /// Parses a text that stands at an offset; `{{` starts an expression, `letters(…)` or a word
    /// of control and `}}` ends it. Other braces are text, so JSON needs no escaping; a `{{`
    /// without `}}` is text too.
    pub(crate) fn read(mut self, text: &str, at: usize) -> Result<Template, E> {
        let mut rest = Rest { text, at };
        let (template, end) = self.parts(&mut rest, 0)?;
        let stray = match end {
            End::Text => return Ok(template),
            End::Elif(..) => "{{elif}} has no {{if}}",
            End::Else => "{{else}} has no {{if}}",
            End::Endif => "{{endif}} has no {{if}}",
            End::Endrepeat => "{{endrepeat}} has no {{repeat}}",
        };
        Err((self.fault)(rest.at, Fault::new(stray)))
    }

    /// Parts to the end of the text or of the block that they stand in.
    fn parts<'t>(&mut self, rest: &mut Rest<'t>, depth: usize) -> Result<(Template, End<'t>), E> {
        let mut template = Template::default();
        while let Some((before, (inside, after))) = rest
            .text
            .split_once("{{")
            .and_then(|(before, opened)| Some((before, opened.split_once("}}")?)))
        {
            self.literal(before, &mut template);
            let at = rest.at + before.len() + "{{".len();
            *rest = Rest { text: after, at: at + inside.len() + "}}".len() };
            let (word, argument) = split_word(inside);
            let argument_at = at + (inside.len() - argument.len());
            let part = match word {
                "if" | "repeat" if depth == DEEPEST => {
                    let fault = format!("more than {DEEPEST} blocks stand in each other");
                    return Err((self.fault)(argument_at, Fault::new(fault)));
                }
                "if" => {
                    let condition = (self.compile)(argument, argument_at)?;
                    self.condition(rest, condition, argument_at, depth + 1)?
                }
                "repeat" => {
                    let count = (self.compile)(argument, argument_at)?;
                    self.repeat(rest, count, argument_at, depth + 1)?
                }
                "elif" => return Ok((template, End::Elif(argument_at, argument))),
                "else" => return Ok((template, End::Else)),
                "endif" => return Ok((template, End::Endif)),
                "endrepeat" => return Ok((template, End::Endrepeat)),
                "text" => {
                    let name = argument.trim();
                    let fault = Fault::new(format!("there is no text \"{name}\""));
                    let hint = "the [texts] of workload.toml have a text for each name";
                    return Err((self.fault)(at, fault.hint(hint)));
                }
                _ => match letters(inside) {
                    Some((skipped, length)) => Part::Letters((self.compile)(length, at + skipped)?),
                    None => Part::Value((self.compile)(inside, at)?),
                },
            };
            template.parts.push(part);
        }
        self.literal(rest.text, &mut template);
        *rest = Rest { text: "", at: rest.at + rest.text.len() };
        Ok((template, End::Text))
    }

    fn literal(&self, text: &str, template: &mut Template) {
        if !text.is_empty() {
            let mut escaped = Vec::with_capacity(text.len());
            (self.escape)(text.as_bytes(), &mut escaped);
            template.parts.push(Part::Literal(escaped.into_boxed_slice()));
        }
    }

    /// What stands behind `{{if}}`, whose condition stood at an offset.
    fn condition(
        &mut self,
        rest: &mut Rest<'_>,
        condition: Expr,
        at: usize,
        depth: usize,
    ) -> Result<Part, E> {
        let (mut condition, mut branches) = (Some(condition), Vec::new());
        loop {
            let (template, end) = self.parts(rest, depth)?;
            let is_last = condition.is_none();
            branches.push((condition.take(), template));
            match end {
                End::Endif => return Ok(Part::If(branches)),
                End::Elif(at, argument) if !is_last => {
                    condition = Some((self.compile)(argument, at)?);
                }
                End::Else if !is_last => {}
                End::Elif(..) | End::Else => {
                    let fault = Fault::new("an {{if}} goes on after its {{else}}");
                    return Err((self.fault)(rest.at, fault));
                }
                End::Text | End::Endrepeat => {
                    let fault = Fault::new("an {{if}} has no {{endif}}");
                    return Err((self.fault)(at, fault));
                }
            }
        }
    }

    /// What stands behind `{{repeat}}`, whose count stood at an offset.
    fn repeat(
        &mut self,
        rest: &mut Rest<'_>,
        count: Expr,
        at: usize,
        depth: usize,
    ) -> Result<Part, E> {
        // Two of them in each other could take for ever to write nothing.
        if std::mem::replace(&mut self.repeats, true) {
            return Err((self.fault)(at, Fault::new("a {{repeat}} stands in another")));
        }
        let (template, end) = self.parts(rest, depth)?;
        self.repeats = false;
        match end {
            End::Endrepeat => Ok(Part::Repeat(count, template)),
            _ => Err((self.fault)(at, Fault::new("a {{repeat}} has no {{endrepeat}}"))),
        }
    }
}

impl Template {
    /// Appends the text to one that began at `start`.
    pub(crate) fn write(
        &self,
        variables: &Variables,
        rng: &mut Rng,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), EvalError> {
        for part in &self.parts {
            match part {
                Part::Literal(text) if text.len() > room(start, out) => {
                    return Err(EvalError::TooLong);
                }
                Part::Literal(text) => out.extend_from_slice(text),
                Part::Letters(length) => {
                    write_letters(integer(length, variables, rng)?, rng, start, out)?;
                }
                // Numbers and booleans hold nothing that needs escaping.
                Part::Value(expr) => match expr.eval(variables, rng)? {
                    Value::Null => out.extend_from_slice(b"null"),
                    value => value.write_text(out),
                },
                Part::If(branches) => {
                    for (condition, template) in branches {
                        let holds = match condition {
                            Some(condition) => condition.eval_condition(variables, rng)?,
                            None => true,
                        };
                        if holds {
                            template.write(variables, rng, start, out)?;
                            break;
                        }
                    }
                }
                Part::Repeat(count, template) => {
                    for _ in 0..integer(count, variables, rng)?.clamp(0, MOST_REPEATS) {
                        template.write(variables, rng, start, out)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The first word of what stands in braces, and what follows it.
fn split_word(inside: &str) -> (&str, &str) {
    let trimmed = inside.trim_start();
    let end = trimmed.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
    match &trimmed[end..] {
        // A function of that name, or a longer name.
        rest if rest.starts_with(|c: char| c == '(' || c == '_' || c.is_ascii_digit()) => {
            ("", inside)
        }
        rest => (&trimmed[..end], rest),
    }
}

/// What stands in the brackets of `letters(…)`, where a part of a template is that, and how
/// far behind the part's beginning.
pub(crate) fn letters(part: &str) -> Option<(usize, &str)> {
    const CALL: &str = "letters(";
    let call = part.trim_end().strip_suffix(')')?;
    let inside = call.trim_start().strip_prefix(CALL)?;
    Some((call.len() - inside.len(), inside))
}

/// The text with the named texts in the place of each `{{text NAME}}`, each on one line; those of
/// no name are left.
pub(crate) fn with_texts<'t>(text: &str, named: impl Fn(&str) -> Option<&'t str>) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once("{{") {
        whole.push_str(before);
        rest = opened;
        let found = opened.split_once("}}").and_then(|(inside, after)| {
            let ("text", name) = split_word(inside) else { return None };
            Some((named(name.trim())?, after))
        });
        match found {
            Some((text, after)) => {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
                whole.push_str(&lines.collect::<Vec<_>>().join(" "));
                rest = after;
            }
            None => whole.push_str("{{"),
        }
    }
    whole.push_str(rest);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Scope;

    /// What a template comes to where `:n` is a number, or why it is none.
    fn written(text: &str, n: i64) -> Result<String, String> {
        let mut scope = Scope::new(["n"]);
        let reader = TemplateReader::new(
            |expr: &str, _| scope.compile("a", expr).map_err(|e| e.message),
            |at: usize, fault: Fault| format!("{at}: {}", fault.message),
            |text, out| out.extend_from_slice(text),
        );
        let template = reader.read(text, 0)?;
        let mut variables = Variables::new(scope.slot_count());
        if let Some(slot) = scope.slot("n") {
            variables.set(slot, Value::Int(n));
        }
        let mut out = Vec::new();
        let written = template.write(&variables, &mut Rng::from_seed(1), 0, &mut out);
        written.map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn parts_are_chosen_and_repeated() {
        let text = r#"{"a": {{:n}}, {{if :n = 1}}"one"{{elif :n = 2}}"t{{repeat :n}}w{{endrepeat}}o"{{else}}{"x": {{:n + 1}}}{{endif}}}"#;
        assert_eq!(written(text, 1).as_deref(), Ok(r#"{"a": 1, "one"}"#));
        assert_eq!(written(text, 2).as_deref(), Ok(r#"{"a": 2, "twwo"}"#));
        assert_eq!(written(text, 3).as_deref(), Ok(r#"{"a": 3, {"x": 4}}"#));
        assert_eq!(written("[1{{repeat :n}}, 1{{endrepeat}}]", -1).as_deref(), Ok("[1]"));
        assert_eq!(written("{{if :n > 9}}x{{endif}}{{letters(0)}}{{", 3).as_deref(), Ok("{{"));
    }

    #[test]
    fn blocks_that_do_not_close_are_told_with_their_place() {
        for (text, fault) in [
            ("ab{{if :n}}c", "6: an {{if}} has no {{endif}}"),
            ("{{repeat 2}}c{{endif}}", "8: a {{repeat}} has no {{endrepeat}}"),
            ("a{{endif}}", "10: {{endif}} has no {{if}}"),
            ("{{else}}", "8: {{else}} has no {{if}}"),
            ("{{if :n}}{{else}}{{elif 1}}{{endif}}", "27: an {{if}} goes on after its {{else}}"),
            ("a{{text b}}", "3: there is no text \"b\""),
            (
                "{{repeat 2}}{{repeat 2}}{{endrepeat}}{{endrepeat}}",
                "20: a {{repeat}} stands in another",
            ),
        ] {
            assert_eq!(written(text, 1), Err(fault.to_owned()), "{text}");
        }
        let deep = "{{if 1}}".repeat(40_000);
        assert!(written(&deep, 1).unwrap_err().contains("more than 16"));
    }

    #[test]
    fn a_text_that_repeats_itself_ends() {
        let text = format!("{{{{repeat 10000}}}}{}{{{{endrepeat}}}}", "x".repeat(10_000));
        assert_eq!(written(&text, 1), Err(EvalError::TooLong.to_string()));
    }

    #[test]
    fn named_texts_take_their_places_on_one_line() {
        let named = |name: &str| (name == "a").then_some("\n  x\n  y {{text a}}\n");
        let whole = with_texts("1 {{text a}} {{ text  a }} {{text b}} {{:c}} {{", named);
        assert_eq!(whole, "1 x y {{text a}} x y {{text a}} {{text b}} {{:c}} {{");
    }
}
