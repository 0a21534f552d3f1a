//! Trace of congestion control in this process.

use std::sync::Arc;

use timeous_engine::Engine;

use crate::error::Error;
use crate::process::shared_engine;

pub use timeous_cm::{Happening, Traced};

/// Trace of the congestion control of this process's streams: windows, losses, and predicted and actual arrivals of packets.
///
/// Streams of a daemon are not among it; `timeous daemon --qlog` logs those. Two traces at once share the events.
///
/// ```
/// use timeous::trace::{Happening, Trace};
///
/// let trace = Trace::start()?;
/// // Here streams send.
/// while let Some(event) = trace.poll() {
///     if let Happening::Arrived(arrived) = event.what {
///         println!("{:?} late", arrived.actual.saturating_since(arrived.predicted));
///     }
/// }
/// # Ok::<(), timeous::Error>(())
/// ```
#[derive(Debug)]
pub struct Trace {
    engine: Arc<Engine>,
}

impl Trace {
    /// Begins a trace of the streams that are open, and of those opened while it lives.
    ///
    /// # Errors
    /// The system's: no thread, no descriptor.
    pub fn start() -> Result<Self, Error> {
        let engine = shared_engine()?;
        engine.all_congestion().for_each(|congestion| congestion.lock().trace(true));
        Ok(Self { engine })
    }

    /// Returns the next event. Up to 16 384 wait for it.
    pub fn poll(&self) -> Option<Traced> {
        self.engine.all_congestion().find_map(|congestion| congestion.lock().poll_trace())
    }

    /// Returns the number of events that found no room because they were not polled in time.
    pub fn missed(&self) -> u64 {
        self.engine.all_congestion().map(|congestion| congestion.lock().trace_missed()).sum()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.engine.all_congestion().for_each(|congestion| congestion.lock().trace(false));
    }
}
