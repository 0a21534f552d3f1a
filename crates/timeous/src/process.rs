//! What all of a process shares: one engine, and so what is known of its paths.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use timeous_engine::{Engine, EngineError};

/// The engine of this process: it ends with whoever uses it last.
pub(crate) fn shared_engine() -> Result<Arc<Engine>, EngineError> {
    static ENGINE: Mutex<Weak<Engine>> = Mutex::new(Weak::new());
    let mut slot = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = slot.upgrade() {
        return Ok(engine);
    }
    let engine = Arc::new(Engine::start()?);
    *slot = Arc::downgrade(&engine);
    Ok(engine)
}
