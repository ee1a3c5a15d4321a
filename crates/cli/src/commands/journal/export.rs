//! The journal as Markdown or HTML.

use std::path::Path;

use serde_json::json;
use walwright_report::journal as rendered;
use walwright_store::journal::{Contents, Entry};

use crate::args::ExportJournalArgs;
use crate::commands::write::{write_file, write_told};
use crate::output::{Output, print};

/// Writes the entries that are wanted.
pub(super) fn write(
    contents: &Contents,
    args: &ExportJournalArgs,
    output: &Output,
) -> anyhow::Result<()> {
    let entries: Vec<Entry> = if args.entries.is_empty() {
        contents.entries.clone()
    } else {
        let named = args.entries.iter().map(|name| Ok(contents.find(name)?.clone()));
        named.collect::<anyhow::Result<_>>()?
    };
    let path = args.output.as_deref();
    let called_html = path.and_then(Path::extension).is_some_and(|kind| kind == "html");
    let text = if args.html || (called_html && !args.markdown) {
        rendered::page(&entries).html()
    } else {
        let plots = path.and_then(Path::file_stem);
        let plots = plots.map(|stem| format!("{}-plots", stem.to_string_lossy()));
        let (text, files) = rendered::page(&entries).markdown_beside(plots.as_deref());
        if let (Some(path), Some(plots)) = (path, &plots) {
            let directory = path.with_file_name(plots);
            for file in files {
                write_file(&directory.join(&file.name), &file.svg)?;
            }
        }
        text
    };
    match path {
        Some(path) => write_told(path, &text, output),
        None if output.json => output.print_json(&json!({ "text": text })),
        None => print(&text),
    }
}
