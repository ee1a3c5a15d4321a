//! A document as an HTML page.

use std::fmt::Write;

use crate::document::{
    Action, Block, Cell, Chart, Column, ColumnKind, Document, Faces, Figure, Folded, Part, Section,
    Share, Table, Tone, Warning, Whole,
};
use crate::format;
use crate::svg::{self, Series, Timeline};
use crate::terminal::printable;

use super::{Links, SCRIPT, STYLE};

/// The policy of a page that is a file: what it needs stands in it.
const ALONE: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     img-src blob:";

impl Document {
    /// The page as one file, for screen (light and dark) and paper. Text from outside is escaped;
    /// letters that nobody sees, or that turn the order of others around, are shown.
    pub fn html(&self) -> String {
        let series = self.series().map(|series| embedded(&series)).unwrap_or_default();
        let head = format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{ALONE}\">\n\
             <style>\n{STYLE}</style>"
        );
        let end = format!("{series}\n<script>\n{SCRIPT}</script>");
        self.page(&head, "", None, None, &end)
    }

    /// The same page beside its style, its script and its figures, for a server that sends
    /// [`POLICY`](super::POLICY) with it.
    pub fn linked(&self, links: &Links<'_>) -> String {
        let head = format!(
            "<link rel=\"icon\" type=\"image/svg+xml\" href=\"{}\">\n<link rel=\"stylesheet\" href=\"{}\">\n<script src=\"{}\" defer></script>",
            svg::escape(links.icon),
            svg::escape(links.style),
            svg::escape(links.script)
        );
        let end = match (links.series, self.series()) {
            (None, Some(series)) => embedded(&series),
            _ => String::new(),
        };
        self.page(&head, links.above, links.series, links.live, &end)
    }

    /// The figures behind its timeline; `None` without one.
    pub fn series(&self) -> Option<Series> {
        let blocks = self.sections.iter().flat_map(|section| &section.blocks);
        let mut timelines = blocks.filter_map(|block| match block {
            Block::Chart(Chart::Timeline(timeline)) => Some(timeline),
            _ => None,
        });
        timelines.next().map(Series::of)
    }

    fn page(
        &self,
        head: &str,
        above: &str,
        series: Option<&str>,
        live: Option<&str>,
        end: &str,
    ) -> String {
        let mut page = Page { out: String::new(), series: series.map(svg::escape) };
        page.head(self);
        self.sections.iter().for_each(|section| page.section(section));
        let version = env!("CARGO_PKG_VERSION");
        let live = live.map(|live| format!(" data-live=\"{}\"", svg::escape(live)));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"walwright {version}\">\n\
             <title>{} · walwright {}</title>\n{head}\n</head>\n<body>\n{above}<main{}>\n{}\
             <footer>Rendered by walwright {version}. Sizes are powers of 1024, as in PostgreSQL. {}</footer>\n\
             </main>{end}\n</body>\n</html>",
            text(&self.title),
            text(&self.id),
            live.unwrap_or_default(),
            page.out,
            text(&self.origin),
        )
    }
}

/// Figures that stand in a page. Nothing in them may end the element.
fn embedded(of: &Series) -> String {
    let json = of.json().replace('<', "\\u003c");
    format!("\n<script type=\"application/json\" id=\"series\">{json}</script>")
}

/// Text as it stands in markup.
fn text(of: &str) -> String {
    svg::escape(&printable(of))
}

/// Sentences as they stand in markup: what is between backticks is to be typed.
fn prose(of: &str) -> String {
    let escaped = text(of);
    let parts: Vec<&str> = escaped.split('`').collect();
    // One without its partner is a letter like any other.
    let paired = parts.len() - 1 - (parts.len() - 1) % 2;
    let mut out = String::with_capacity(escaped.len());
    for (place, part) in parts.iter().enumerate() {
        match place {
            0 => {}
            _ if place > paired => out.push('`'),
            _ if place % 2 == 1 => out.push_str("<code>"),
            _ => out.push_str("</code>"),
        }
        out.push_str(part);
    }
    out
}

/// A title; an option of a command line in it is not broken at its hyphens.
fn title(of: &str) -> String {
    let words = of.split(' ').map(|word| match word.starts_with('-') {
        true => format!("<span class=\"whole\">{}</span>", text(word)),
        false => text(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Markup in the making.
struct Page {
    out: String,
    /// Where the figures of its timeline are, where they do not stand in it.
    series: Option<String>,
}

impl Page {
    fn put(&mut self, markup: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(markup);
        self.out.push('\n');
    }

    /// An element around sentences.
    fn element(&mut self, element: &str, class: &str, of: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.put(format_args!("<{element}{class}>{}</{element}>", prose(of)));
    }

    fn head(&mut self, of: &Document) {
        let label = of.label.as_ref().map(|label| format!(" · {}", text(label)));
        let between = if of.id.is_empty() { "" } else { " · " };
        let date = of.date.as_ref().map(|date| format!("{}{between}", text(date)));
        self.put(format_args!(
            "<header>\n<div class=\"kicker\"><span><b>walwright</b> {}{}</span><span>{}<span class=\"mono\">{}</span></span></div>",
            of.kind,
            label.unwrap_or_default(),
            date.unwrap_or_default(),
            text(&of.id)
        ));
        let called = if of.title.is_empty() { of.kind } else { &of.title };
        self.put(format_args!("<h1>{}</h1>", title(called)));
        of.deck.iter().for_each(|deck| self.element("p", "deck", deck));
        if let Some((word, said)) = &of.state {
            self.put(format_args!("<p class=\"state\"><b>{word}.</b> {}</p>", prose(said)));
        }
        if let Some(verdict) = &of.verdict {
            let class = match of.is_better {
                Some(true) => "said good",
                Some(false) => "said bad",
                None => "said",
            };
            self.element("p", class, verdict);
        }
        if let Some(missing) = &of.no_figures {
            self.element("p", "missing", missing);
        }
        let (leads, others): (Vec<&Figure>, Vec<&Figure>) =
            of.figures.iter().partition(|figure| figure.lead || figure.spread);
        let leads: Vec<Figure> = leads.into_iter().flat_map(tiles).collect();
        let others: Vec<Figure> = others.into_iter().chain(&of.beside).cloned().collect();
        self.figures("figures", &leads);
        self.figures("figures below", &others);
        if let Some((passed, said)) = &of.pass {
            let (class, word) = if *passed { ("mark pass", "PASS") } else { ("mark", "FAIL") };
            self.put(format_args!("<p class=\"{class}\"><b>{word}</b>{}</p>", text(said)));
        }
        if !of.warnings.is_empty() {
            let title = match of.warnings.len() {
                1 => "A warning that goes with every figure".to_owned(),
                n => format!("{n} warnings that go with every figure"),
            };
            self.put(format_args!("<div class=\"warnings\" role=\"note\"><h2>{title}</h2><ul>"));
            for warning in &of.warnings {
                self.put(format_args!("<li>{}</li>", warning_text(warning)));
            }
            self.put(format_args!("</ul></div>"));
        }
        if of.sections.len() > 2 {
            self.put(format_args!("<nav aria-label=\"Sections\">"));
            for section in &of.sections {
                let title = text(&section.title);
                self.put(format_args!("<a href=\"#{}\">{title}</a>", section.id));
            }
            self.put(format_args!("</nav>"));
        }
        self.put(format_args!("</header>"));
    }

    fn figures(&mut self, class: &str, of: &[Figure]) {
        if of.is_empty() {
            return;
        }
        self.put(format_args!("<dl class=\"{class}\">"));
        for figure in of {
            let (first, rest) = match figure.parts.split_first() {
                Some((first, rest)) => (first.clone(), rest),
                None => (Part::default(), &[][..]),
            };
            let lead = if figure.lead { " lead" } else { "" };
            let ink = first.ink.map(|ink| format!("<i class=\"{}\"></i>", ink.class()));
            let value = match &first.value {
                Some(value) if value.chars().count() > LONG && !figure.lead => {
                    format!("<span class=\"long\">{}</span>", text(value))
                }
                Some(value) => text(value),
                None => format!("<span class=\"unknown\">{}</span>", format::NOT_OBSERVABLE),
            };
            let small: Vec<String> = [first.label.clone()]
                .into_iter()
                .chain(rest.iter().map(Part::text))
                .chain(figure.note.clone())
                .filter(|text| !text.is_empty())
                .collect();
            let small = match small.is_empty() {
                true => String::new(),
                false => format!("<small>{}</small>", prose(&small.join(", "))),
            };
            self.put(format_args!(
                "<div class=\"figure{lead}\"><dt>{}{}</dt><dd>{value}{small}</dd></div>",
                ink.unwrap_or_default(),
                text(&figure.name)
            ));
        }
        self.put(format_args!("</dl>"));
    }

    fn section(&mut self, of: &Section) {
        self.put(format_args!("\n<section id=\"{}\">", of.id));
        if !of.title.is_empty() {
            self.element("h2", "", &of.title);
        }
        self.blocks(&of.blocks);
        self.put(format_args!("</section>"));
    }

    fn blocks(&mut self, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.block(block));
    }

    fn block(&mut self, of: &Block) {
        match of {
            Block::Lede(said) => self.element("p", "lede", said),
            Block::Text(said) => self.element("p", "", said),
            Block::Muted(said) => self.element("p", "muted", said),
            Block::Missing(said) => self.element("p", "missing", said),
            Block::Warning(warning) => {
                self.put(format_args!("<p class=\"warn\">{}</p>", warning_text(warning)));
            }
            Block::Heading(said) => self.element("h3", "", said),
            Block::Code(code) => self.put(format_args!("<pre>{}</pre>", text(code))),
            Block::Fields(fields) => {
                self.put(format_args!("<table class=\"facts\"><tbody>"));
                for (place, field) in fields.iter().enumerate() {
                    // A field without a name is another value of the one before.
                    let more = fields[place + 1..].iter().take_while(|f| f.name.is_empty()).count();
                    let span =
                        if more > 0 { format!(" rowspan=\"{}\"", more + 1) } else { String::new() };
                    let name = match field.name.is_empty() {
                        false => format!("<th scope=\"row\"{span}>{}</th>", text(&field.name)),
                        true if place == 0 => "<td></td>".to_owned(),
                        true => String::new(),
                    };
                    let class = if field.code { " class=\"mono\"" } else { "" };
                    self.put(format_args!(
                        "<tr>{name}<td{class}>{}{}</td></tr>",
                        linked(&field.value, &field.link),
                        muted(field.note.as_deref())
                    ));
                }
                self.put(format_args!("</tbody></table>"));
            }
            Block::Table(table) => self.table(table),
            Block::Chart(chart) => self.chart(chart),
            Block::List(items) => {
                self.put(format_args!("<ul>"));
                items.iter().for_each(|item| self.element("li", "", item));
                self.put(format_args!("</ul>"));
            }
            Block::Action(Action { text: said, command, conditions }) => {
                let command = command.as_ref().map(|c| format!(" <code>{}</code>", text(c)));
                self.put(format_args!(
                    "<p class=\"action\">{}{}{}</p>",
                    prose(said),
                    command.unwrap_or_default(),
                    muted(conditions.as_deref())
                ));
            }
            Block::Folded(folded) => self.folded(folded),
            Block::Aside(blocks) => self.blocks(blocks),
            Block::Faces(of) => self.faces(of),
            Block::Columns(columns) => {
                self.put(format_args!("<div class=\"pair paper-whole\">"));
                for column in columns {
                    self.put(format_args!("<div>"));
                    self.blocks(column);
                    self.put(format_args!("</div>"));
                }
                self.put(format_args!("</div>"));
            }
        }
    }

    /// A choice that needs no script: the style shows the piece whose button is pressed.
    fn faces(&mut self, of: &Faces) {
        let name = of.name;
        self.put(format_args!("<div class=\"faces\" role=\"group\" aria-label=\"{name}\">"));
        for (place, (face, _)) in of.faces.iter().enumerate() {
            let checked = if place == 0 { " checked" } else { "" };
            self.put(format_args!(
                "<input type=\"radio\" class=\"screen\" name=\"{name}\" id=\"{name}-{face}\" value=\"{face}\"{checked}>\
                 <label class=\"screen\" for=\"{name}-{face}\">{face}</label>"
            ));
        }
        for (_, face) in &of.faces {
            self.put(format_args!("<div class=\"face\">"));
            self.blocks(face);
            self.put(format_args!("</div>"));
        }
        self.put(format_args!("</div>"));
    }

    fn folded(&mut self, of: &Folded) {
        let class = match of.tone {
            Tone::Bad => "folded problem",
            Tone::Warn => "folded symptom",
            Tone::Plain => "folded",
        };
        let label = of.label.as_ref().map(|label| format!(" <small>{}</small>", text(label)));
        self.put(format_args!(
            "<details class=\"{class}\"{}><summary><b>{}</b>{}{}</summary>",
            if of.open { " open" } else { "" },
            text(&of.title),
            muted(of.note.as_deref()),
            label.unwrap_or_default()
        ));
        self.blocks(&of.blocks);
        self.put(format_args!("</details>"));
    }

    fn table(&mut self, of: &Table) {
        self.put(format_args!("<div class=\"scroll\"><table><thead><tr>"));
        for column in &of.columns {
            let width = column.width.map(|width| format!(" style=\"width:{width}%\""));
            let class = if column.kind == ColumnKind::Number { " class=\"n\"" } else { "" };
            let (width, head) = (width.unwrap_or_default(), linked(&column.head, &column.link));
            self.put(format_args!("<th{class}{width}>{head}</th>"));
        }
        self.put(format_args!("</tr></thead><tbody>"));
        for row in &of.rows {
            let cells = row.iter().zip(&of.columns).map(|(cell, column)| markup(cell, column));
            let cells: String = cells.collect();
            self.put(format_args!("<tr>{cells}</tr>"));
        }
        self.put(format_args!("</tbody></table></div>"));
    }

    fn chart(&mut self, of: &Chart) {
        let drawn = match of {
            Chart::Shares(shares) => return self.shares(shares),
            Chart::Timeline(timeline) => return self.timeline(timeline),
            Chart::Histogram { buckets, marks, per_decade } => {
                svg::histogram(buckets, marks, *per_decade)
            }
            Chart::Beside(wholes) => return self.beside(wholes),
            Chart::Picture(picture) => {
                return self.put(format_args!(
                    "<figure class=\"paper-whole\">{}<figcaption class=\"lede\">{}</figcaption></figure>",
                    picture.svg,
                    text(&picture.title)
                ));
            }
            Chart::Forest(forest) => svg::forest::forest(forest),
            Chart::Heat(heat) => heat.svg(),
            Chart::Curves(curves) => curves.svg(),
            Chart::ScalingThroughput(of) => svg::scaling::throughput(of),
            Chart::ScalingBreakdown(of) => svg::scaling::latency_breakdown(of),
            Chart::Course(course) => course.svg(),
            Chart::ThroughputCurves(overlay) => overlay.throughput(),
            Chart::LatencyCurves(overlay) => overlay.latency(),
            Chart::Percentiles { points, marks } => svg::percentile_curve(points, marks),
        };
        if let Some(drawn) = drawn {
            self.put(format_args!("<figure>{drawn}</figure>"));
        }
    }

    fn shares(&mut self, of: &[Share]) {
        self.put(format_args!("<div class=\"shares\" aria-hidden=\"true\">"));
        for part in of {
            let (class, weight) = (part.ink.class(), part.share.max(0.0) * 100.0);
            let inside = text(&inside(&part.name, part.share));
            self.put(format_args!(
                "<span class=\"{class}\" style=\"flex:{weight} 0 0\">{inside}</span>"
            ));
        }
        self.put(format_args!("</div>"));
    }

    fn beside(&mut self, of: &[Whole]) {
        let total = |whole: &Whole| whole.parts.iter().map(|part| part.seconds).sum::<f64>();
        let longest = of.iter().map(total).fold(0.0, f64::max);
        for whole in of.iter().filter(|_| longest > 0.0) {
            let total = total(whole);
            let width = 100.0 * total / longest;
            self.put(format_args!(
                "<div class=\"latency-breakdown\"><span>{}, {}</span><div><div style=\"width:{width:.1}%\">",
                text(&whole.name),
                format::seconds(total)
            ));
            self.shares(&whole.parts);
            self.put(format_args!("</div></div></div>"));
        }
    }

    fn timeline(&mut self, of: &Timeline) {
        let series = self.series.as_ref().map(|at| format!(" data-series=\"{at}\""));
        self.put(format_args!(
            "<div class=\"wide\"><div class=\"timeline\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline plots\"{}>\n\
             <div id=\"moment\" aria-hidden=\"true\"><span></span></div>\n{}",
            series.unwrap_or_default(),
            of.frame.ribbon()
        ));
        let map = of.map.as_ref().and_then(|map| svg::map(map, of.origin, &of.frame));
        let after = of.panels.iter().position(|panel| panel.id == "latency");
        for (place, panel) in of.panels.iter().enumerate() {
            self.panel(&panel.title, &panel.about, &panel.svg(&of.frame));
            if let Some(map) = map.as_ref().filter(|_| after.unwrap_or(0) == place) {
                self.panel("Latency map", MAP, map);
            }
        }
        self.put(format_args!("{}\n</div></div>", of.frame.footer()));
    }

    fn panel(&mut self, title: &str, about: &str, drawn: &str) {
        self.put(format_args!(
            "<figure class=\"panel\"><figcaption><b>{}</b> <span>{}</span></figcaption>{drawn}</figure>",
            text(title),
            text(about)
        ));
    }
}

/// What the map of latencies shows.
const MAP: &str = "how many transactions took how long, over time; log scale";

/// Values longer than this are written small.
const LONG: usize = 12;

/// A figure as tiles: one for each part where they stand apart.
fn tiles(of: &Figure) -> Vec<Figure> {
    if !of.spread {
        return vec![of.clone()];
    }
    let tile = |(place, part): (usize, &Part)| {
        let value = part.value.clone().or_else(|| Some("too few".to_owned()));
        let parts = vec![Part { value, label: String::new(), ink: part.ink }];
        let note = of.note.clone().filter(|_| place == 0);
        Figure { name: part.label.clone(), parts, note, ..Figure::default() }
    };
    of.parts.iter().enumerate().map(tile).collect()
}

fn muted(note: Option<&str>) -> String {
    note.map(|note| format!(" <span class=\"muted\">{}</span>", prose(note))).unwrap_or_default()
}

fn warning_text(of: &Warning) -> String {
    let hint = of.hint.as_ref().map(|hint| format!(" <span class=\"hint\">{}</span>", prose(hint)));
    format!("{}{}", prose(&of.text), hint.unwrap_or_default())
}

/// Text, and where it leads.
fn linked(said: &str, link: &Option<String>) -> String {
    match link {
        Some(link) => format!("<a href=\"{}\">{}</a>", text(link), text(said)),
        None => text(said),
    }
}

fn markup(cell: &Cell, column: &Column) -> String {
    let kind = match column.kind {
        ColumnKind::Number => "n",
        ColumnKind::Code => "sql mono",
        ColumnKind::Muted => "muted",
        ColumnKind::Text => "",
    };
    let tone = match cell.is_better {
        Some(true) => "good",
        Some(false) => "bad",
        None => "",
    };
    let classes = format!("{kind} {tone}");
    let class = match classes.trim() {
        "" => String::new(),
        classes => format!(" class=\"{classes}\""),
    };
    let key = cell.key.map(|ink| format!("<i class=\"key {}\"></i>", ink.class()));
    let shown = match &cell.short {
        Some(short) => {
            format!("<details><summary>{}</summary>{}</details>", text(short), text(&cell.text))
        }
        None => linked(&cell.text, &cell.link),
    };
    let course = svg::sparkline(&cell.course).unwrap_or_default();
    let bar = cell.bar.map(|(width, ink)| {
        format!("<i class=\"length {}\" style=\"width:{width:.1}%\"></i>", ink.class())
    });
    let tick = cell.tick.as_ref().map(|tick| {
        format!(
            "<input type=\"checkbox\" form=\"{}\" name=\"{}\" value=\"{}\" aria-label=\"{}\"> ",
            tick.form,
            tick.name,
            text(&tick.value),
            text(&tick.said)
        )
    });
    format!(
        "<td{class}>{}{}{shown}{course}{}{}</td>",
        tick.unwrap_or_default(),
        key.unwrap_or_default(),
        muted(cell.note.as_deref()),
        bar.unwrap_or_default()
    )
}

/// Parts smaller than this have no room for their name.
const NAMED: f64 = 0.045;

/// What is written in a part of a bar of shares, where there is room.
fn inside(name: &str, share: f64) -> String {
    // Letters are about 0.7 % of the bar wide.
    let room = share / 0.0078;
    let length = name.chars().count() as f64;
    if share < NAMED || room <= length + 1.0 {
        String::new()
    } else if room > length + 8.0 {
        format!("{name} {}", format::percent(share))
    } else {
        name.to_owned()
    }
}
