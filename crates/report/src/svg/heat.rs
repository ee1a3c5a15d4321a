//! A heat map: cells in rows and columns, each as deep in colour as its change is large.

use std::fmt::Write;

use super::label::shortened;
use super::{escape, put, px, text};
use crate::document::{Cell, Column, Table};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 200.0;
const TOP: f64 = 28.0;
const ROW: f64 = 58.0;
const GAP: f64 = 3.0;
const CAPTION: f64 = 26.0;
/// Letters of a row's name.
const LETTERS: usize = 28;
/// Opacity of the largest change, which leaves text readable, and of none.
const DEEPEST: f64 = 0.62;
const FAINTEST: f64 = 0.08;
/// Changes from here on have the deepest colour, so that one outlier leaves others theirs.
const LARGEST: f64 = 1.0;

/// One cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HeatCell {
    /// What was measured.
    pub(crate) value: String,
    /// What is said of it.
    pub(crate) note: String,
    /// The relative change against its control; `None` for a control.
    pub(crate) change: Option<f64>,
    /// Whether that is to the better, where it is more than noise.
    pub(crate) is_better: Option<bool>,
}

/// Cells in rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heat {
    /// What it shows, for who does not see it.
    pub(crate) name: String,
    /// What the rows are.
    pub(crate) corner: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<(String, Vec<Option<HeatCell>>)>,
    /// How to read it.
    pub(crate) caption: String,
}

impl Heat {
    /// The picture; `None` without cells.
    pub(crate) fn svg(&self) -> Option<String> {
        if self.rows.is_empty() || self.columns.is_empty() {
            return None;
        }
        let width = (WIDTH - LEFT) / self.columns.len() as f64;
        let height = TOP + ROW * self.rows.len() as f64 + CAPTION;
        let mut out = format!(
            r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#,
            escape(&self.name)
        );
        let room = (width / 7.0) as usize;
        for (place, column) in self.columns.iter().enumerate() {
            let middle = LEFT + width * (place as f64 + 0.5);
            text(&mut out, middle, TOP - 10.0, "tick centred", &shortened(column, room));
        }
        let cells = || self.rows.iter().flat_map(|(_, cells)| cells.iter().flatten());
        let sizes = cells().filter(|cell| cell.is_better.is_some()).filter_map(|cell| cell.change);
        let most = sizes.map(f64::abs).fold(0.0, f64::max).min(LARGEST);
        for (at, (name, cells)) in self.rows.iter().enumerate() {
            let top = TOP + ROW * at as f64;
            let middle = top + ROW / 2.0 + 4.0;
            text(&mut out, LEFT - 14.0, middle, "name from-right", &shortened(name, LETTERS));
            for (place, cell) in cells.iter().enumerate() {
                if let Some(cell) = cell {
                    let of = (self.columns[place].as_str(), name.as_str());
                    draw(&mut out, cell, (LEFT + width * place as f64, top), width, most, of);
                }
            }
        }
        text(&mut out, LEFT, height - 6.0, "tick quiet", &self.caption);
        out.push_str("</svg>");
        Some(out)
    }

    /// The same as a table.
    pub(crate) fn table(&self) -> Table {
        let heads = self.columns.iter().map(Column::number);
        let columns = [Column::text(&self.corner)].into_iter().chain(heads).collect();
        let cell = |cell: &Option<HeatCell>| match cell {
            None => Cell::from("–"),
            Some(cell) => {
                let parts = [cell.value.as_str(), cell.note.as_str()];
                let told: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                Cell { is_better: cell.is_better, ..Cell::from(told.join(", ")) }
            }
        };
        let rows = self.rows.iter().map(|(name, cells)| {
            [Cell::from(name)].into_iter().chain(cells.iter().map(cell)).collect()
        });
        Table { rows: rows.collect(), columns }
    }
}

fn draw(
    out: &mut String,
    cell: &HeatCell,
    (left, top): (f64, f64),
    width: f64,
    most: f64,
    (column, row): (&str, &str),
) {
    let class = match cell.is_better {
        Some(true) => "heat good",
        Some(false) => "heat bad",
        None => "heat",
    };
    let size = cell.change.filter(|_| cell.is_better.is_some()).map_or(0.0, f64::abs);
    let share = if most > 0.0 { (size / most).min(1.0) } else { 0.0 };
    let opacity = FAINTEST + share * (DEEPEST - FAINTEST);
    let title = format!("{row}, {column}: {} {}", cell.value, cell.note);
    put!(out, r#"<g><title>{}</title>"#, escape(title.trim_end()));
    put!(
        out,
        r#"<rect x="{}" y="{}" width="{}" height="{}" class="{class}" fill-opacity="{opacity:.2}"/>"#,
        px(left),
        px(top),
        px(width - GAP),
        px(ROW - GAP)
    );
    let middle = left + (width - GAP) / 2.0;
    let room = (width / 6.5) as usize;
    let first = if cell.note.is_empty() { top + ROW / 2.0 + 3.0 } else { top + ROW / 2.0 - 4.0 };
    text(out, middle, first, "name centred", &cell.value);
    text(out, middle, top + ROW / 2.0 + 14.0, "tick centred", &shortened(&cell.note, room));
    out.push_str("</g>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(change: f64, is_better: Option<bool>) -> Option<HeatCell> {
        let note = "a<b".to_owned();
        Some(HeatCell { value: "5/s".to_owned(), note, change: Some(change), is_better })
    }

    #[test]
    fn the_largest_change_beyond_noise_is_the_deepest() {
        let heat = Heat {
            name: "requests".to_owned(),
            corner: String::new(),
            columns: vec!["pool 10".to_owned(), "pool 25".to_owned(), "pool 50".to_owned()],
            rows: vec![(
                "25".to_owned(),
                vec![cell(0.9, None), cell(-0.2, Some(false)), cell(0.1, Some(true))],
            )],
            caption: String::new(),
        };
        let svg = heat.svg().unwrap();
        let opacity = |class: &str| {
            let from = svg.find(&format!("class=\"{class}\"")).unwrap();
            svg[from..].split('"').nth(3).unwrap().to_owned()
        };
        assert_eq!(
            [opacity("heat"), opacity("heat bad"), opacity("heat good")],
            ["0.08", "0.62", "0.35"]
        );
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert_eq!(heat.table().rows[0][2].text, "5/s, a<b");
        assert_eq!(Heat { rows: Vec::new(), ..heat }.svg(), None);
    }
}
