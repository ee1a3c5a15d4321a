//! A document as GitHub-flavoured Markdown, for a ticket, a commit or a chat.

use crate::document::{
    Block, Cell, Chart, ColumnKind, Document, Folded, Part, Picture, Reach, Table, Warning,
};
use crate::format;
use crate::html::STYLE;

impl Document {
    /// The document, less what only a page has room for. Pictures are named, not shown.
    pub fn markdown(&self) -> String {
        self.markdown_beside(None).0
    }

    /// The same, and the pictures that the text refers to as files in the directory `plots`.
    pub fn markdown_beside(&self, plots: Option<&str>) -> (String, Vec<PlotFile>) {
        let mut paper = Paper { plots, files: Vec::new() };
        let mut out = vec![format!("## {}", escape(&self.title))];
        out.extend(self.deck.iter().map(|deck| escape(deck)));
        out.extend(self.state.as_ref().map(|(word, text)| format!("**{word}.** {}", escape(text))));
        out.extend(self.verdict.iter().map(|verdict| format!("**{}**", escape(verdict))));
        let no_figures = self.no_figures.iter().map(|why| format!("| Load | {} |", escape(why)));
        let figures = self.figures.iter().chain(&self.beside).map(|figure| {
            let parts = figure.parts.iter().filter(|part| !figure.spread || part.value.is_some());
            let parts = parts.map(|part| match figure.spread {
                true => format!("{} {}", part.label, part.value.as_deref().unwrap_or_default()),
                false => Part::text(part),
            });
            let mut said: Vec<String> = parts.collect();
            if said.is_empty() {
                said.push(format::NOT_OBSERVABLE.to_owned());
            }
            said.extend(figure.note.clone());
            format!("| {} | {} |", escape(&figure.name), escape(&said.join(", ")))
        });
        let rows: Vec<String> = figures.chain(no_figures).collect();
        if !rows.is_empty() {
            out.push(format!("| | |\n|---|---|\n{}", rows.join("\n")));
        }
        out.extend(self.pass.as_ref().map(|(passed, text)| {
            format!("**{}**: {}", if *passed { "PASS" } else { "FAIL" }, escape(text))
        }));
        for section in self.sections.iter().filter(|section| section.reach >= Reach::Paper) {
            out.push(format!("### {}", escape(&section.title)));
            out.extend(section.blocks.iter().filter_map(|of| paper.block(of)));
        }
        if !self.warnings.is_empty() {
            out.push("### Warnings that go with every figure".to_owned());
            let warnings = self.warnings.iter().map(|of| format!("- {}", warning(of)));
            out.push(warnings.collect::<Vec<_>>().join("\n"));
        }
        out.push(escape(&self.origin));
        let mut text = out.join("\n\n");
        text.push('\n');
        (text, paper.files)
    }
}

/// A picture that goes into a file beside the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlotFile {
    /// Its name, which the text refers to.
    pub name: String,
    /// A whole SVG file.
    pub svg: String,
}

/// What blocks are written on.
struct Paper<'a> {
    /// Where pictures go.
    plots: Option<&'a str>,
    files: Vec<PlotFile>,
}

fn warning(of: &Warning) -> String {
    escape(&[Some(of.text.as_str()), of.hint.as_deref()].map(Option::unwrap_or_default).join(" "))
        .trim_end()
        .to_owned()
}

impl Paper<'_> {
    fn block(&mut self, of: &Block) -> Option<String> {
        Some(match of {
            Block::Lede(text) | Block::Text(text) | Block::Muted(text) | Block::Missing(text) => {
                escape(text)
            }
            Block::Warning(of) => format!("**!** {}", warning(of)),
            Block::Heading(text) => format!("#### {}", escape(text)),
            Block::Code(code) => format!("    {}", code.replace('\n', "\n    ")),
            Block::Fields(fields) => {
                let line = |field: &crate::document::Field| {
                    let note = field.note.as_ref().map(|note| format!(" ({})", escape(note)));
                    let note = note.unwrap_or_default();
                    format!("- {}: {}{note}", escape(&field.name), lines(&field.value))
                };
                fields.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Block::Table(of) => table(of),
            Block::List(items) => items
                .iter()
                .map(|item| format!("- {}", escape(item)))
                .collect::<Vec<_>>()
                .join("\n"),
            Block::Folded(of) => folded(of)?,
            Block::Columns(columns) => columns
                .iter()
                .flatten()
                .filter_map(|of| self.block(of))
                .collect::<Vec<_>>()
                .join("\n\n"),
            Block::Faces(of) => {
                let (_, face) = of.faces.first()?;
                face.iter().filter_map(|of| self.block(of)).collect::<Vec<_>>().join("\n\n")
            }
            Block::Action(of) => escape(&of.text),
            Block::Chart(Chart::Picture(of)) => self.picture(of),
            Block::Chart(Chart::Heat(of)) => table(&of.table()),
            Block::Chart(_) | Block::Aside(_) => return None,
        })
    }

    fn picture(&mut self, of: &Picture) -> String {
        let title = escape(&of.title);
        let Some(directory) = self.plots else { return format!("*Plot: {title}.*") };
        let name = format!("{}.svg", of.name);
        let text = format!("![{title}](<{directory}/{name}>)");
        self.files.push(PlotFile { name, svg: standalone(&of.svg) });
        text
    }
}

/// Text of a person, line by line, so that its lines stay lines inside an item of a list.
fn lines(text: &str) -> String {
    text.trim().lines().map(|line| escape(line.trim_end())).collect::<Vec<_>>().join("\n  ")
}

/// A picture that needs neither page nor style beside it.
fn standalone(svg: &str) -> String {
    let named = if svg.contains("xmlns=") {
        svg.to_owned()
    } else {
        svg.replacen("<svg", r#"<svg xmlns="http://www.w3.org/2000/svg""#, 1)
    };
    match named.find('>') {
        Some(end) => {
            let (head, rest) = named.split_at(end + 1);
            format!("{head}<style><![CDATA[\n{STYLE}]]></style>{rest}\n")
        }
        None => named,
    }
}

/// Its heading, and its first text.
fn folded(of: &Folded) -> Option<String> {
    let first = of.blocks.iter().find_map(|block| match block {
        Block::Text(text) => Some(text),
        _ => None,
    })?;
    let aside: Vec<&str> = of.label.iter().chain(&of.note).map(String::as_str).collect();
    let (title, aside) = (escape(&of.title), escape(&aside.join(", ")));
    Some(format!("- **{title}** ({aside}): {}", escape(first)))
}

fn table(of: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let rule = |kind: ColumnKind| if kind == ColumnKind::Number { "---:" } else { "---" };
    let cell = |cell: &Cell| {
        let note = cell.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        escape(&format!("{}{note}", cell.text))
    };
    let head = [
        row(of.columns.iter().map(|column| escape(&column.head)).collect()),
        row(of.columns.iter().map(|column| rule(column.kind).to_owned()).collect()),
    ];
    let rows = of.rows.iter().map(|cells| row(cells.iter().map(cell).collect()));
    head.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

/// Text that Markdown shows as it is, also inside a table.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_stands_alone_in_its_file() {
        let svg = standalone("<svg viewBox='0'><g/></svg>");
        assert!(svg.starts_with(r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox"#), "{svg}");
        assert!(svg.contains("--main") && svg.contains("<g/>"), "{svg}");
    }

    #[test]
    fn text_from_outside_stays_text() {
        assert_eq!(escape("a|b <img> *x*\n"), "a\\|b &lt;img&gt; \\*x\\* ");
    }
}
