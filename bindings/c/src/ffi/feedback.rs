//! C functions to report receivers' feedback and to query the path state.

use std::ffi::c_int;

use timeous::cm::Loss;
use timeous::core::{Duration, Instant};

use super::{CmPath, entries};
use crate::failure::Failure;
use crate::guard::call;
use crate::library::{self, Feedback};

const NO_LOSS: c_int = 0;
const TRANSIENT: c_int = 1;
const PERSISTENT: c_int = 2;
const ECN: c_int = 3;

/// `struct cm_update_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CmUpdateEntry {
    /// The flow.
    pub flow: i64,
    /// Bytes whose fate is known now.
    pub nsent: u64,
    /// Bytes of them that arrived.
    pub nrecd: u64,
    /// A round-trip time sample in nanoseconds, or 0.
    pub rtt_ns: i64,
    /// Send time of the newest packet concerned, or 0.
    pub sent_ns: i64,
    /// `CM_NO_LOSS` and so on.
    pub lossmode: c_int,
    /// Written: 0 or an errno.
    pub error: c_int,
}

/// `struct cm_query_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CmQueryEntry {
    /// The flow.
    pub flow: i64,
    /// Written: state of its path.
    pub path: CmPath,
    /// Written: 0 or an errno.
    pub error: c_int,
}

/// `cm_update`: reports a receiver's feedback.
#[unsafe(no_mangle)]
pub extern "C" fn cm_update(flow: i64, nsent: u64, nrecd: u64, lossmode: c_int, rtt_ns: i64) -> c_int {
    call(|| library::get()?.update(flow, understood(nsent, nrecd, lossmode, rtt_ns, 0)?).map(|()| 0))
}

/// `cm_bulk_update`: the same for several flows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_bulk_update(entries: *mut CmUpdateEntry, n: usize) -> c_int {
    call(|| {
        // SAFETY: `n` entries, as cm(3) says.
        let entries = unsafe { entries::borrow(entries, n) }?;
        let told = entries.iter().map(|e| Ok((e.flow, understood(e.nsent, e.nrecd, e.lossmode, e.rtt_ns, e.sent_ns)?)));
        let answers = library::get()?.bulk_update(told.collect());
        entries::settle(entries, answers, |entry, error, _| entry.error = error)
    })
}

fn understood(sent: u64, received: u64, lossmode: c_int, rtt_ns: i64, sent_ns: i64) -> Result<Feedback, Failure> {
    let loss = match lossmode {
        NO_LOSS => None,
        TRANSIENT => Some(Loss::Transient),
        PERSISTENT => Some(Loss::Persistent),
        ECN => Some(Loss::Ecn),
        other => {
            return Err(Failure::new(libc::EINVAL, format!("loss mode {other}: give one of CM_NO_LOSS to CM_ECN")));
        }
    };
    let positive = |what: &str, nanos: i64| match u64::try_from(nanos) {
        Ok(0) => Ok(None),
        Ok(nanos) => Ok(Some(nanos)),
        Err(_) => {
            Err(Failure::new(libc::EBADMSG, format!("{what} of {nanos} ns cannot be: give 0 if it is not known")))
        }
    };
    let rtt = positive("a round-trip time", rtt_ns)?.map(Duration::from_nanos);
    let sent_at = positive("a time of sending", sent_ns)?.map(Instant::from_nanos);
    Ok(Feedback { sent, received, loss, rtt, sent_at })
}

/// `cm_query`: state of a flow's path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_query(flow: i64, path: *mut CmPath) -> c_int {
    call(|| {
        // SAFETY: null or a `struct cm_path` that may be written, as cm(3) says.
        let path = unsafe { path.as_mut() }.ok_or_else(|| Failure::null("where the path's state shall go"))?;
        *path = library::get()?.query(flow)?;
        Ok(0)
    })
}

/// `cm_bulk_query`: the same for several flows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cm_bulk_query(entries: *mut CmQueryEntry, n: usize) -> c_int {
    call(|| {
        // SAFETY: `n` entries, as cm(3) says.
        let entries = unsafe { entries::borrow(entries, n) }?;
        let flows: Vec<_> = entries.iter().map(|entry| entry.flow).collect();
        let answers = library::get()?.bulk_query(&flows);
        entries::settle(entries, answers, |entry, error, path| {
            entry.error = error;
            entry.path = path.unwrap_or(entry.path);
        })
    })
}
