//! Late choice of the application's own, in place of a policy by name.

use std::fmt;
use std::sync::Arc;

use timeous_core::LateChoice;
use timeous_engine::NewChoice;

use crate::uri::Uri;

/// Factory of an application's [`LateChoice`]. It is called once for each stream; a listener calls it for each caller.
///
/// [`Uri::with_choice`] sets it. Two factories are equal if one is a clone of the other.
#[derive(Clone)]
pub struct OwnChoice(NewChoice);

impl OwnChoice {
    /// Creates a factory of the choices that `make` returns.
    pub fn new<C: LateChoice + 'static>(make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        Self(Arc::new(move || Box::new(make())))
    }

    pub(crate) fn make(&self) -> Box<dyn LateChoice> {
        (self.0)()
    }
}

impl PartialEq for OwnChoice {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for OwnChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnChoice").finish_non_exhaustive()
    }
}

impl Uri {
    /// Sets a late choice of one's own, in place of the key `policy`: it decides, whenever a packet may be sent, which
    /// queued ADUs are still worth sending. It holds for all that opens a stream by this URI: [`Sender`](crate::Sender),
    /// [`open_both`](crate::open_both), [`Listener`](crate::Listener), [`Dialer`](crate::Dialer), and those for tokio.
    ///
    /// ```no_run
    /// use timeous::core::Instant;
    /// use timeous::{DropReason, LateChoice, PathState, Queue, Sender, Uri};
    ///
    /// /// A sensor of which only the newest reading matters.
    /// struct Newest;
    ///
    /// impl LateChoice for Newest {
    ///     fn choose(&mut self, _: Instant, _: &PathState, queue: &mut dyn Queue) {
    ///         for stale in 0..queue.len().saturating_sub(1) {
    ///             queue.drop_at(stale, DropReason::Policy);
    ///         }
    ///     }
    /// }
    ///
    /// let uri: Uri = "timeous://receiver.example:7000?latency=200ms".parse()?;
    /// let sender = Sender::open(&uri.with_choice(|| Newest))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The policies of [`choice`](crate::choice) can be composed, also with one of the application:
    ///
    /// ```
    /// use timeous::Uri;
    /// use timeous::choice::{Chain, Dependencies, Layers};
    /// let uri: Uri = "timeous://receiver.example:7000".parse()?;
    /// let uri = uri.with_choice(|| Chain::default().then(Layers::default()).then(Dependencies::default()));
    /// # assert!(uri.options.own_choice.is_some());
    /// # Ok::<(), timeous::UriError>(())
    /// ```
    ///
    /// Whatever it keeps, nothing is sent after its deadline. It runs on the engine's thread, which serves all streams
    /// of the process: it must neither block nor panic, and its time delays their packets.
    ///
    /// Opening fails with [`UriError::BadMode`](crate::UriError::BadMode) if the URI also names a policy or a setting
    /// of one, or a daemon: the daemon's streams run in its process. `daemon=auto` stands for this process then.
    #[must_use]
    pub fn with_choice<C: LateChoice + 'static>(mut self, make: impl Fn() -> C + Send + Sync + 'static) -> Self {
        self.options.own_choice = Some(OwnChoice::new(make));
        self
    }
}

#[cfg(test)]
mod tests {
    use timeous_choice::Deadlines;

    use super::*;

    #[test]
    fn an_own_choice_equals_its_clones_only() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let one = uri("timeous://h").with_choice(|| Deadlines);
        assert_eq!(one, one.clone());
        assert_ne!(one, uri("timeous://h").with_choice(|| Deadlines));
        assert_ne!(one, uri("timeous://h"));
        assert!(format!("{one:?}").contains("OwnChoice"));
    }
}
