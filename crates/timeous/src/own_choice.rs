//! Late choice of the application's own, in place of a policy by name.

use std::fmt;
use std::sync::Arc;

use timeous_core::LateChoice;
use timeous_engine::NewChoice;

/// Factory of an application's [`LateChoice`]. It is called once for each stream; a listener calls it for each caller.
///
/// [`Uri::with_choice`](crate::Uri::with_choice) sets it. Two factories are equal if one is a clone of the other.
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
