//! State of the full screen, and its key bindings.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use timeous::core::Duration;
use timeous_daemon::view::View;

use super::history::History;
use super::table::{Layout, Row, rows};

/// Bounds of the refresh interval: faster ones cannot be read, and cost the daemon time.
const FASTEST: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_secs(60);

/// State of the screen.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) view: View,
    pub(crate) history: History,
    pub(crate) layout: Layout,
    /// Selected row, and first row on the screen.
    pub(crate) selected: usize,
    pub(crate) offset: usize,
    pub(crate) interval: Duration,
    pub(crate) paused: bool,
    pub(crate) help: bool,
    /// Reason for which the view is outdated.
    pub(crate) trouble: Option<String>,
}

/// Action that a key requests beyond the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCommand {
    Stay,
    Look,
    Quit,
}

impl App {
    pub(crate) fn new(layout: Layout, interval: Duration) -> Self {
        Self {
            view: View::default(),
            history: History::default(),
            layout,
            selected: 0,
            offset: 0,
            interval: interval.clamp(FASTEST, SLOWEST),
            paused: false,
            help: false,
            trouble: None,
        }
    }

    /// Updates the view with a snapshot of the daemon, or an error; then the last snapshot stays on the screen.
    pub(crate) fn seen(&mut self, look: Result<View, String>) {
        match look {
            Ok(view) => {
                self.trouble = None;
                if view.pid != self.view.pid {
                    // A restarted daemon counts from zero, and its ids refer to other flows.
                    self.history = History::default();
                }
                self.history.add(&view);
                self.follow(view);
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// Keeps the same macroflow selected when rows change places, unless the first row is selected.
    fn follow(&mut self, view: View) {
        let picked = if self.selected == 0 { None } else { self.rows().into_iter().nth(self.selected) };
        self.view = view;
        let rows = self.rows();
        let same =
            |row: &Row| Some((row.macroflow, row.is_flow)) == picked.as_ref().map(|row| (row.macroflow, row.is_flow));
        let exact = |row: &Row| picked.as_ref().is_some_and(|picked| same(row) && row.cells[0] == picked.cells[0]);
        let place = rows.iter().position(exact).or_else(|| rows.iter().position(same));
        self.selected = place.unwrap_or(self.selected).min(rows.len().saturating_sub(1));
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        rows(&self.view, &self.history, self.layout)
    }

    /// First row on the screen, for `height` of `rows` rows; the selected row is always visible.
    pub(crate) fn scroll(&mut self, rows: usize, height: usize) -> usize {
        let last = rows.saturating_sub(height.max(1));
        self.selected = self.selected.min(rows.saturating_sub(1));
        self.offset = self.offset.clamp((self.selected + 1).saturating_sub(height.max(1)), self.selected).min(last);
        self.offset
    }

    /// Handles a key.
    pub(crate) fn key(&mut self, key: KeyEvent, page: usize) -> KeyCommand {
        if key.kind == KeyEventKind::Release {
            return KeyCommand::Stay;
        }
        let rows = self.rows().len();
        let to = |place: usize| place.min(rows.saturating_sub(1));
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return KeyCommand::Quit,
            KeyCode::Char('q') => return KeyCommand::Quit,
            KeyCode::Esc if !self.help => return KeyCommand::Quit,
            KeyCode::Esc => self.help = false,
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = to(self.selected + 1),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(page),
            KeyCode::PageDown => self.selected = to(self.selected + page),
            KeyCode::Home | KeyCode::Char('g') => self.selected = 0,
            KeyCode::End | KeyCode::Char('G') => self.selected = to(usize::MAX),
            KeyCode::Char('s') => self.layout.order = self.layout.order.next(),
            KeyCode::Char('r') => self.layout.reversed = !self.layout.reversed,
            KeyCode::Char('f') | KeyCode::Enter => self.layout.folded = !self.layout.folded,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.interval = (self.interval / 2).max(FASTEST),
            KeyCode::Char('-') => self.interval = (self.interval * 2).min(SLOWEST),
            KeyCode::Char(' ') => return KeyCommand::Look,
            _ => {}
        }
        KeyCommand::Stay
    }
}
