//! Slot for this process's state, which a fork empties without touching what is in it.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Slot for a value that is never freed.
pub(crate) struct Slot<T>(AtomicPtr<T>);

impl<T: Sync> Slot<T> {
    /// Creates an empty slot.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the value, if there is one.
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or a leaked box, which stays.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Puts `value` into the slot if it is empty. Returns the one that is there, and whether it is `value`.
    pub(crate) fn fill(&self, value: T) -> (&'static T, bool) {
        let new = Box::into_raw(Box::new(value));
        match self.0.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was leaked above.
            Ok(_) => (unsafe { &*new }, true),
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: not null, and leaked by another thread.
                (unsafe { &*other }, false)
            }
        }
    }

    /// Empties the slot. The value is leaked: after a fork its locks may be held by threads that are not there.
    pub(crate) fn clear(&self) {
        self.0.store(ptr::null_mut(), Ordering::Release);
    }
}
