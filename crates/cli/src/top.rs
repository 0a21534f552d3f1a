//! `timeous top`: shows macroflows and flows of the daemon's Congestion Manager, on a full screen or as text.

mod app;
mod history;
mod plain;
mod screen;
mod table;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use ratatui::crossterm::event::{self, Event};
use timeous::clock;
use timeous::core::units::parse_duration_within;
use timeous::core::{Duration, Instant};
use timeous_daemon::view::View;

use crate::daemon_link::DaemonLink;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use app::{App, KeyCommand};
use history::History;
use table::{Layout, Order};

/// Show macroflows and their flows: rates, round-trip times, losses, windows, queues and grants
///
/// Reads the state of a running `timeous daemon`. Users see their own flows, root sees all.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Socket of the daemon, if not at the default path
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one snapshot and exit
    #[arg(long)]
    once: bool,
    /// Print JSON, one object per snapshot; names of fields include their units
    #[arg(long)]
    json: bool,
    /// Refresh interval, from 250ms to 60s
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval)]
    interval: Duration,
    /// Column to sort by initially
    #[arg(long, value_enum, default_value = "sent", value_name = "COLUMN")]
    sort: Order,
    /// Show macroflows only, without their flows
    #[arg(long)]
    fold: bool,
}

/// Parses a refresh interval.
fn interval(text: &str) -> Result<Duration, String> {
    parse_duration_within(text, "250ms", "60s")
}

/// Runs until the user quits.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let mut daemon = DaemonLink::connect(args.socket.clone())?;
    let layout = Layout { order: args.sort, reversed: false, folded: args.fold };
    if args.once || args.json {
        return print(args, layout, &mut daemon);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage("standard output is no terminal: use --once or --json".to_owned()));
    }
    let interrupt = interrupt()?;
    let mut terminal = ratatui::try_init().map_err(terminal_failed)?;
    let shown = show(&mut terminal, App::new(layout, args.interval), &mut daemon, &interrupt);
    ratatui::try_restore().map_err(terminal_failed)?;
    shown
}

fn terminal_failed(error: io::Error) -> Failure {
    Failure::Environment(format!("the terminal: {error}"))
}

fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::new().map_err(|error| Failure::Environment(error.to_string()))
}

fn print(args: &TopArgs, layout: Layout, daemon: &mut DaemonLink) -> Result<(), Failure> {
    let interrupt = interrupt()?;
    loop {
        let view: View = daemon.snapshot()?;
        let text = if args.json {
            serde_json::to_string(&view).map_err(|error| Failure::Environment(error.to_string()))? + "\n"
        } else {
            plain::plain(&view, &History::default(), layout)
        };
        match io::stdout().write_all(text.as_bytes()) {
            // The reader has closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(|error| Failure::file("standard output", &error))?,
        }
        if args.once {
            return Ok(());
        }
        pause(args.interval, &interrupt);
        if interrupt.is_set() {
            return Ok(());
        }
    }
}

/// Waits for the interval, or until a signal.
#[expect(clippy::disallowed_methods, reason = "the tool waits for its next look at the daemon")]
fn pause(interval: Duration, interrupt: &Interrupt) {
    let until = clock::now() + interval;
    while !interrupt.is_set() && clock::now() < until {
        std::thread::sleep((until - clock::now()).min(Duration::from_millis(50)).into());
    }
}

/// Longest delay until a signal is noticed, so that the terminal is restored.
const ATTENTION: Duration = Duration::from_millis(250);

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut app: App,
    daemon: &mut DaemonLink,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut next_look = Instant::ZERO;
    let mut page = 1;
    while !interrupt.is_set() {
        let now = clock::now();
        if now >= next_look {
            next_look = now + app.interval;
            if !app.paused {
                app.seen(daemon.snapshot().map_err(|failure| failure.to_string()));
            }
        }
        terminal.draw(|frame| page = screen::draw(frame, &mut app)).map_err(terminal_failed)?;
        let wait = next_look.saturating_since(clock::now()).min(ATTENTION);
        if !event::poll(wait.into()).map_err(terminal_failed)? {
            continue;
        }
        // A resize only needs redrawing.
        if let Event::Key(key) = event::read().map_err(terminal_failed)? {
            match app.key(key, page) {
                KeyCommand::Stay => {}
                KeyCommand::Look => app.seen(daemon.snapshot().map_err(|failure| failure.to_string())),
                KeyCommand::Quit => return Ok(()),
            }
        }
        next_look = next_look.min(clock::now() + app.interval);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
