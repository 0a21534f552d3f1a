//! `timeous top`: what the daemon's Congestion Manager does, on a full screen or as text for scripts.

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
use timeous::core::units::parse_duration;
use timeous::core::{Duration, Instant};
use timeous_daemon::view::View;

use crate::daemon_link::DaemonLink;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use app::{App, Wish};
use history::History;
use table::{Layout, Order};

/// Show macroflows and their flows: rates, round trips, losses, windows, queues and grants
///
/// Reads what a running `timeous daemon` knows. A user sees what is his own, root sees all.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The daemon's socket, if it is not where it usually is
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Look once, print it and end
    #[arg(long)]
    once: bool,
    /// Print JSON, an object each look; its names bear their units
    #[arg(long)]
    json: bool,
    /// How often to look, from 250ms to 60s
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_duration)]
    interval: Duration,
    /// Sort by this column at first
    #[arg(long, value_enum, default_value = "sent", value_name = "COLUMN")]
    sort: Order,
    /// Macroflows only, without their flows
    #[arg(long)]
    fold: bool,
}

/// Runs until the user has seen enough.
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
            // Who reads has seen enough.
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

/// Waits, less if the user wants to stop.
#[expect(clippy::disallowed_methods, reason = "the tool waits for its next look at the daemon")]
fn pause(interval: Duration, interrupt: &Interrupt) {
    let until = clock::now() + interval;
    while !interrupt.is_set() && clock::now() < until {
        std::thread::sleep((until - clock::now()).min(Duration::from_millis(50)).into());
    }
}

/// A signal that ends the program is noticed within this, so that the terminal is left as it was.
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
        // A new size needs nothing but to be drawn anew.
        if let Event::Key(key) = event::read().map_err(terminal_failed)? {
            match app.key(key, page) {
                Wish::Stay => {}
                Wish::Look => app.seen(daemon.snapshot().map_err(|failure| failure.to_string())),
                Wish::Quit => return Ok(()),
            }
        }
        next_look = next_look.min(clock::now() + app.interval);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
