//! HTML, on screen and on paper: one file that needs nothing else, or a page that is served
//! beside its style, its script and its figures.

mod document;

pub use crate::svg::escape;

/// The icon of every page that is served, as SVG.
pub const ICON: &str = include_str!("../../assets/icon.svg");
/// The style of every page.
pub const STYLE: &str = include_str!("../../assets/page.css");
/// The script of every page. A page says the same without it, and prints.
pub const SCRIPT: &str = include_str!("../../assets/page.js");
/// The content security policy of a page that is served: no script and no style but ours, none
/// of them in the page itself. Widths of bars are attributes; pictures are drawn on the way to a
/// download.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     style-src-attr 'unsafe-inline'; img-src 'self' blob:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Where the parts of a page that is served are: addresses of the same origin.
#[derive(Debug, Clone, Copy, Default)]
pub struct Links<'a> {
    /// Where [`ICON`] is.
    pub icon: &'a str,
    /// Where [`STYLE`] is.
    pub style: &'a str,
    /// Where [`SCRIPT`] is.
    pub script: &'a str,
    /// Where [`Series::json`](crate::Series::json) of the document is. Without it the figures
    /// stand in the page.
    pub series: Option<&'a str>,
    /// Where server-sent events tell that the page changed. Without it the page never does.
    pub live: Option<&'a str>,
    /// Markup above the page: trusted, what is in it from outside is escaped.
    pub above: &'a str,
}
