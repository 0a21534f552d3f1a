//! qlog of a stream: what congestion control does while it lasts, predicted and actual arrivals among it.

use timeous::clock;
use timeous::trace::Trace;
use timeous_daemon::qlog::Log;
use timeous_daemon::wall::WallTime;

use crate::failure::Failure;
use crate::notice::tell;

/// An open qlog. It is complete when this is dropped.
pub(super) struct Qlog {
    trace: Trace,
    log: Log,
    is_empty: bool,
}

impl Qlog {
    /// Opens a qlog of the streams that are opened from now on.
    pub(super) fn open(path: &str) -> Result<Self, Failure> {
        let log = Log::open(path.as_ref(), clock::now(), WallTime::now());
        let log = log.map_err(|error| Failure::Environment(error.to_string()))?;
        Ok(Self { trace: Trace::start()?, log, is_empty: true })
    }

    /// Logs what has happened since the last call.
    pub(super) fn look(&mut self) {
        while let Some(event) = self.trace.poll() {
            self.log.write(&event);
            self.is_empty = false;
        }
        self.log.missed(self.trace.missed());
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        self.look();
        if self.is_empty {
            tell(format_args!(
                "nothing is in the qlog: of streams that a daemon carries, `timeous daemon --qlog` has it"
            ));
        }
    }
}
