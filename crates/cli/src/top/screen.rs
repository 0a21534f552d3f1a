//! Rendering of the full screen: summary, table, help line.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout as Split, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as Line_, Table};

use super::app::App;
use super::table::{COLUMNS, complaints, fitting, summary};
use crate::figures::micros;

const HELP: &str = "q quit  ↑↓ scroll  s sort  r reverse  f fold  p pause  +- faster, slower  ? help";
const MORE: &str = "\
TO       where the flows go; below it the flows: number, port, process
USER     whose flows they are; host: the host's own, which it trusts
CC       the congestion controller
RATE     bits a second that may be sent      SENT    that were sent of late
RTT      smoothed round trip                 LOSS    share lost of late
WINDOW   bytes that may be outstanding       FLIGHT  that are
WAIT     requests that wait for a grant      GRANTS  given and not yet used
HISTORY  what was sent, a bar for each look

↑ ↓ PgUp PgDn Home End   scroll              s  sort by the next column
f or Enter   flows or macroflows only        r  the other way round
p   hold still       space   look now        + -  look more or less often
? or Esc   close this                        q  quit";

/// Draws the screen. Returns the number of table rows that fit.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App) -> usize {
    let [top, table, bottom] =
        Split::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(heading(app)), top);
    let height = draw_table(frame, app, table);
    frame.render_widget(Line::from(HELP).dim(), bottom);
    if app.help {
        draw_help(frame, table);
    }
    height
}

fn heading(app: &App) -> Text<'static> {
    let alert = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    let first = if app.view.version.is_empty() { "timeous".to_owned() } else { summary(&app.view, &app.history) };
    let second = match (&app.trouble, complaints(&app.view)) {
        (Some(trouble), _) => Line::styled(trouble.clone(), alert),
        (None, Some(complaints)) => Line::styled(complaints, alert),
        (None, None) => {
            let every = micros(app.interval.as_micros());
            let paths = match app.view.health.paths_remembered {
                0 => String::new(),
                paths => format!(", {paths} paths remembered"),
            };
            let paused = if app.paused { "paused, " } else { "" };
            let way = if app.layout.reversed { ", reversed" } else { "" };
            Line::from(format!("{paused}every {every}, by {}{way}{paths}", app.layout.order.title())).dim()
        }
    };
    Text::from(vec![Line::from(first).bold(), second])
}

fn draw_table(frame: &mut Frame<'_>, app: &mut App, area: Rect) -> usize {
    let rows = app.rows();
    let height = usize::from(area.height.saturating_sub(1));
    let first = app.scroll(rows.len(), height);
    let columns = fitting(area.width);
    let cell = |at: usize, text: String| {
        let alignment = if (3..COLUMNS.len() - 1).contains(&at) { Alignment::Right } else { Alignment::Left };
        Cell::new(Line::from(text).alignment(alignment))
    };
    let titles = columns.iter().map(|&at| {
        let title = cell(at, COLUMNS[at].title.to_owned());
        if COLUMNS[at].title == app.layout.order.title() {
            title.style(Style::new().add_modifier(Modifier::UNDERLINED))
        } else {
            title
        }
    });
    let header = Line_::new(titles).style(Style::new().add_modifier(Modifier::REVERSED));
    let selected = app.selected;
    let lines = rows.into_iter().enumerate().skip(first).take(height).map(|(at, row)| {
        let style = match (at == selected, row.is_flow) {
            (true, _) => Style::new().bg(Color::DarkGray).fg(Color::White),
            (false, true) => Style::new().dim(),
            (false, false) => Style::new(),
        };
        let mut cells: Vec<_> = row.cells.into_iter().map(Some).collect();
        Line_::new(columns.iter().map(|&at| cell(at, cells[at].take().unwrap_or_default()))).style(style)
    });
    let widths = columns.iter().map(|&at| match at {
        0 => Constraint::Min(COLUMNS[0].width),
        _ => Constraint::Length(COLUMNS[at].width),
    });
    frame.render_widget(Table::new(lines, widths).header(header).column_spacing(1), area);
    height
}

fn draw_help(frame: &mut Frame<'_>, over: Rect) {
    let width = MORE.lines().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 4;
    let height = MORE.lines().count() as u16 + 2;
    let area = over.centered(Constraint::Length(width.min(over.width)), Constraint::Length(height.min(over.height)));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" timeous top ").padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(MORE).block(block), area);
}
