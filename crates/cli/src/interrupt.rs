//! Signal handling: Ctrl-C and SIGTERM end a stream in order, and keep what was received.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use timeous::clock;
use timeous::core::Duration;

/// Time within which signals count as one: `timeout` of coreutils signals its child, and then the child's group. Chosen by us: less than
/// between two presses of Ctrl-C.
const ONE_SIGNAL: Duration = Duration::from_millis(200);
/// Exit code after a second signal: 128, and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// Flag set by the first signal; a second signal ends the process at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Registers the signal handlers.
    pub(crate) fn new() -> io::Result<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        let (mut signals, flag) = (Signals::new([SIGINT, SIGTERM])?, wanted.clone());
        thread::Builder::new().name("signals".into()).spawn(move || {
            let mut first = None;
            for _ in signals.forever() {
                flag.store(true, Ordering::Relaxed);
                if clock::now().saturating_since(*first.get_or_insert_with(clock::now)) > ONE_SIGNAL {
                    signal_hook::low_level::exit(INTERRUPTED);
                }
            }
        })?;
        Ok(Self(wanted))
    }

    /// Whether a signal has come.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
