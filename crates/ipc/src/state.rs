//! Path states as words.

use timeous_core::{Duration, PathState, Rate};

use crate::layout::SLOT;

/// Flags of a path state, above its kind; the loss is in the upper half.
const HAS_SRTT: u64 = 1 << 8;
const HAS_MIN_RTT: u64 = 1 << 9;
const CONTENDED: u64 = 1 << 10;
/// The flags of a path state.
pub(crate) const STATE_FLAGS: u64 = HAS_SRTT | HAS_MIN_RTT | CONTENDED;

/// Decodes an optional duration; a missing one must be zero.
pub(crate) fn optional(word: u64, is_there: bool) -> Option<Option<Duration>> {
    match (is_there, word) {
        (true, nanos) => Some(Some(Duration::from_nanos(nanos))),
        (false, 0) => Some(None),
        (false, _) => None,
    }
}

/// Encodes a path state: its loss, its flags, and six words. There is no room for the delivery rate and the latest RTT,
/// which only late choice uses.
pub(crate) fn state_words(state: &PathState) -> [u64; SLOT] {
    let PathState {
        rate,
        srtt,
        rttvar,
        min_rtt,
        window,
        outstanding,
        loss_ppm,
        delivered: _,
        latest_rtt: _,
        contended,
        // Known in the daemon alone.
        arrivals: _,
    } = *state;
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    let flags = flag(srtt.is_some(), HAS_SRTT) | flag(min_rtt.is_some(), HAS_MIN_RTT) | flag(contended, CONTENDED);
    let nanos = |time: Option<Duration>| time.map_or(0, Duration::as_nanos);
    [loss_ppm.into(), flags, rate.as_bps(), nanos(srtt), rttvar.as_nanos(), nanos(min_rtt), window, outstanding]
}

/// Decodes a path state; `None` if flags and words are inconsistent.
pub(crate) fn path_state(loss: u64, flags: u64, rest: [u64; 6]) -> Option<PathState> {
    let [rate, srtt, rttvar, min_rtt, window, outstanding] = rest;
    if flags & !STATE_FLAGS != 0 {
        return None;
    }
    Some(PathState {
        rate: Rate::from_bps(rate),
        srtt: optional(srtt, flags & HAS_SRTT != 0)?,
        rttvar: Duration::from_nanos(rttvar),
        min_rtt: optional(min_rtt, flags & HAS_MIN_RTT != 0)?,
        window,
        outstanding,
        loss_ppm: u32::try_from(loss).ok()?,
        delivered: None,
        latest_rtt: None,
        contended: flags & CONTENDED != 0,
        arrivals: None,
    })
}
