//! Arrays of the bulk functions: memory borrowed from C, and results written there.

use std::ffi::c_int;
use std::{mem, slice};

use crate::failure::Failure;

/// Borrows the `n` entries at `at`.
///
/// # Safety
/// `at` is null, or there are `n` entries that nobody else touches until the call returns.
pub(super) unsafe fn borrow<'a, T>(at: *mut T, n: usize) -> Result<&'a mut [T], Failure> {
    if n == 0 {
        return Ok(&mut []);
    }
    if at.is_null() {
        return Err(Failure::null("the address of the entries"));
    }
    if n > isize::MAX as usize / mem::size_of::<T>() || !at.is_aligned() {
        return Err(Failure::new(libc::EINVAL, format!("{n} entries at {at:p} cannot be")));
    }
    // SAFETY: the caller's promise; size and alignment have been looked at.
    Ok(unsafe { slice::from_raw_parts_mut(at, n) })
}

/// Writes each result into its entry; returns the first error, if any.
pub(super) fn settle<E, T>(
    entries: &mut [E],
    answers: Vec<Result<T, Failure>>,
    mut write: impl FnMut(&mut E, c_int, Option<T>),
) -> Result<c_int, Failure> {
    let mut first = None;
    for (entry, answer) in entries.iter_mut().zip(answers) {
        match answer {
            Ok(answer) => write(entry, 0, Some(answer)),
            Err(failure) => {
                write(entry, failure.code(), None);
                first.get_or_insert(failure);
            }
        }
    }
    first.map_or(Ok(0), Err)
}
