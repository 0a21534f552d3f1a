//! Reports: a self-contained HTML page with plots and tables, and videos beside it.

pub mod columns;
pub mod lanes;
pub mod markdown;
pub mod plot;

use std::fmt::Write;

/// An HTML page, written from top to bottom.
///
/// Plots are drawn in the colours of the reader's theme, light or dark.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

/// A video on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Video {
    /// Path relative to the page; or the reason why there is none.
    pub path: Result<String, String>,
    /// Caption of the video.
    pub caption: String,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Text of the cell.
    pub text: String,
    /// Kind of the cell.
    pub mark: Mark,
}

impl Cell {
    /// Creates a cell.
    pub fn new(text: &str, mark: Mark) -> Self {
        Self { text: text.to_owned(), mark }
    }
}

/// Kind of a table cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A number.
    Plain,
    /// A name, on a single line.
    Name,
    /// Text, wrapped as needed.
    Text,
    /// A passed verdict.
    Good,
    /// A failed verdict.
    Bad,
}

impl Mark {
    fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Name => " class=\"name\"",
            Self::Text => " class=\"text\"",
            Self::Good => " class=\"good\"",
            Self::Bad => " class=\"bad\"",
        }
    }
}

impl Page {
    /// Creates an empty page.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: String::new() }
    }

    /// Adds a section heading.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.element("h2", text)
    }

    /// Adds a section heading with the anchor `#id`.
    pub fn section(&mut self, id: &str, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<h2 id=\"{}\">{}</h2>", escape(id), escape(text));
        self
    }

    /// Adds a heading within a section.
    pub fn subheading(&mut self, text: &str) -> &mut Self {
        self.element("h3", text)
    }

    /// Adds links to sections, given by anchor and heading.
    pub fn contents(&mut self, sections: &[(String, String)]) -> &mut Self {
        self.body.push_str("<nav><ul>\n");
        for (id, heading) in sections {
            let _ = writeln!(self.body, "<li><a href=\"#{}\">{}</a></li>", escape(id), escape(heading));
        }
        self.body.push_str("</ul></nav>\n");
        self
    }

    /// Adds a link to a file beside the page.
    pub fn link(&mut self, path: &str, text: &str) -> &mut Self {
        let _ = writeln!(self.body, "<p><a href=\"{}\">{}</a></p>", escape(path), escape(text));
        self
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.element("p", text)
    }

    /// Adds preformatted text, such as a command or its output.
    pub fn listing(&mut self, text: &str) -> &mut Self {
        self.element("pre", text)
    }

    /// Adds a table; its first column names the rows.
    pub fn table(&mut self, head: &[impl AsRef<str>], rows: &[Vec<String>]) -> &mut Self {
        let number =
            |text: &str| text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit() || "+-–−≥≤".contains(c));
        let numbers = |column: usize| rows.iter().filter_map(|row| row.get(column)).all(|text| number(text));
        let marks: Vec<Mark> =
            (0..head.len()).map(|column| if numbers(column) { Mark::Plain } else { Mark::Name }).collect();
        let cell = |(text, mark): (&String, &Mark)| Cell { text: text.clone(), mark: *mark };
        self.cells(head, &rows.iter().map(|row| row.iter().zip(&marks).map(cell).collect()).collect::<Vec<_>>())
    }

    /// Adds a table of marked cells; its first column names the rows.
    pub fn cells(&mut self, head: &[impl AsRef<str>], rows: &[Vec<Cell>]) -> &mut Self {
        self.body.push_str("<div class=\"wide\"><table>\n<thead><tr>");
        for (column, cell) in head.iter().enumerate() {
            let left = |row: &Vec<Cell>| matches!(row.get(column), Some(Cell { mark: Mark::Text | Mark::Name, .. }));
            let class = if rows.first().is_some_and(left) { Mark::Name.class() } else { "" };
            let _ = writeln!(self.body, "<th{class}>{}</th>", escape(cell.as_ref()));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.body.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let name = if i == 0 { "th" } else { "td" };
                let _ = writeln!(self.body, "<{name}{}>{}</{name}>", cell.mark.class(), escape(&cell.text));
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
        self
    }

    /// Adds a plot, as drawn by [`plot::Lines`], [`plot::Bars`] and [`lanes::Lanes`].
    pub fn figure(&mut self, svg: &str, caption: &str) -> &mut Self {
        self.body.push_str("<figure class=\"plot\">");
        self.body.push_str(svg);
        self.element("figcaption", caption);
        self.body.push_str("</figure>\n");
        self
    }

    /// Adds videos side by side, with a button that starts all.
    pub fn videos(&mut self, videos: &[Video]) -> &mut Self {
        self.body.push_str("<div class=\"videos\">\n");
        for Video { path, caption } in videos {
            self.body.push_str("<figure>");
            let _ = match path {
                Ok(path) => write!(
                    self.body,
                    "<video src=\"{}\" controls muted playsinline preload=\"auto\"></video>",
                    escape(path)
                ),
                Err(why) => write!(self.body, "<p class=\"none\">{}</p>", escape(why)),
            };
            self.element("figcaption", caption);
            self.body.push_str("</figure>\n");
        }
        self.body.push_str("</div>\n");
        if videos.iter().filter(|video| video.path.is_ok()).count() > 1 {
            self.body.push_str(PLAY_ALL);
        }
        self
    }

    /// Renders the page as HTML.
    pub fn html(&self) -> String {
        let (title, body) = (escape(&self.title), &self.body);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
        )
    }

    fn element(&mut self, name: &str, text: &str) -> &mut Self {
        let text = escape(text);
        let _ = writeln!(self.body, "<{name}>{text}</{name}>");
        self
    }
}

/// Escapes text for an element or a quoted attribute.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

const PLAY_ALL: &str = "<p><button onclick=\"document.querySelectorAll('video').forEach(v => \
                        { v.currentTime = 0; v.play(); })\">Play all from the beginning</button></p>\n";

/// Black, white and grey follow the reader's theme; the plots' colours are visible on either.
const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
pre { overflow-x: auto; padding: .7rem; border: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th:first-child { text-align: left; white-space: nowrap; } tbody th { font-weight: normal; }
table { font-size: .92rem; } td, th { vertical-align: top; }
.name { text-align: left; white-space: nowrap; }
td.text, th.text:first-child { text-align: left; white-space: normal; min-width: 5rem; overflow-wrap: break-word; }
td.text:last-child { min-width: 14rem; } td.good, td.bad { white-space: nowrap; font-weight: 600; }
.good { color: #00785a; color: light-dark(#00684e, #5fd6b0); } .bad { color: #c43c00; color: light-dark(#a83400, #ff9a5c); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; } nav ul { padding-left: 1.2rem; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; opacity: .8; }
.plot { overflow-x: auto; } .plot svg { width: 100%; min-width: 30rem; max-width: 56rem; height: auto; }
.plot svg text { fill: currentColor; font-family: inherit; }
.plot svg [stroke='#000000'] { stroke: currentColor; }
.plot svg [stroke='#0072B2'] { stroke: #0072b2; stroke: light-dark(#0072b2, #4db2ee); }
.plot svg [fill='#0072B2'] { fill: #0072b2; fill: light-dark(#0072b2, #4db2ee); }
.videos { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem; }
video { width: 100%; background: #000; }
.none { aspect-ratio: 16 / 9; margin: 0; display: grid; place-content: center; text-align: center; padding: 1rem;
  box-sizing: border-box; border: 1px dashed color-mix(in srgb, currentColor 40%, transparent); }
";

#[cfg(test)]
mod tests {
    use super::plot::{Lines, Series};
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        let mut page = Page::new("a < b & \"c\"");
        page.paragraph("<script>").table(&["x", "<y>"], &[vec!["1".into(), "</td>".into()]]);
        let video = Video { path: Ok("a\"b.mp4".into()), caption: "<i>".into() };
        page.videos(&[video, Video { path: Err("<b>nothing</b>".into()), caption: "c".into() }]);
        let html = page.html();
        assert!(!html.contains("<script>") && !html.contains("<y>") && !html.contains("<i>"));
        assert!(html.contains("<p class=\"none\">&lt;b&gt;nothing"), "the reason stands in place of the video");
        assert!(html.contains("<title>a &lt; b &amp; &quot;c&quot;</title>"));
        assert!(html.contains("src=\"a&quot;b.mp4\""));
        assert!(!html.contains("Play all"), "one video has its own button");
    }

    #[test]
    fn every_element_that_is_opened_is_closed() {
        let lines = Lines { title: "t", x: "x", y: "y", series: vec![Series::new("a", vec![(0.0, 1.0), (1.0, 2.0)])] };
        let mut page = Page::new("t");
        page.heading("h").paragraph("p").listing("l").table(&["a"], &[vec!["b".into()]]);
        page.contents(&[("i".into(), "<s>".into())]).section("i", "<s>").subheading("t").link("f.json", "f");
        let marks = [Mark::Text, Mark::Name, Mark::Good, Mark::Bad, Mark::Plain];
        page.cells(&["a"; 5], &[marks.map(|mark| Cell { text: "c".into(), mark }).to_vec()]);
        page.figure(&lines.draw().unwrap(), "c");
        let video = |path: &str| Video { path: Ok(path.into()), caption: "v".into() };
        let none = Video { path: Err("none".into()), caption: "v".into() };
        page.videos(&[video("a.mp4"), video("b.mp4"), none]);
        let html = page.html();
        for name in [
            "p",
            "h1",
            "h2",
            "h3",
            "nav",
            "ul",
            "li",
            "a",
            "pre",
            "table",
            "tr",
            "th",
            "td",
            "figure",
            "figcaption",
            "svg",
            "video",
            "div",
        ] {
            let opened = html.matches(&format!("<{name}>")).count() + html.matches(&format!("<{name} ")).count();
            assert_eq!(opened, html.matches(&format!("</{name}>")).count(), "{name}");
        }
    }
}
