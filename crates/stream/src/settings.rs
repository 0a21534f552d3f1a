//! Settings of a stream's packet ring.

use timeous_ring::{Config, PAGE};

/// Completion entries per slot. Chosen by us: a higher value takes more memory; a lower one loses fates of an application that rarely reads
/// them.
const COMPLETIONS_PER_SLOT: u32 = 16;

/// Returns the settings of a stream's packet ring with this many slots, whose buffers hold datagrams of up to `largest` bytes.
///
/// ```
/// use timeous_ring::create;
/// use timeous_stream::ring_settings;
/// assert!(create(&ring_settings(64, 1_400)).is_ok());
/// assert!(create(&ring_settings(64, usize::MAX)).is_err(), "no datagram is that large");
/// ```
#[must_use]
pub fn ring_settings(slots: u32, largest: usize) -> Config {
    let largest = largest.checked_next_multiple_of(PAGE);
    // Sizes beyond any datagram are refused by the ring.
    let buffer = largest.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
    Config::new(slots).completions(slots.saturating_mul(COMPLETIONS_PER_SLOT)).buffer_size(buffer)
}
