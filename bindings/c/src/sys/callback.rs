//! Callbacks of the application: function pointers with their user data.

use std::ffi::{c_int, c_short, c_void};

/// `struct cm_path`: what is known of a flow's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct CmPath {
    /// The flow's share of the macroflow's rate, in bits a second.
    pub rate_bps: u64,
    /// Smoothed round-trip time in nanoseconds, -1 while unknown.
    pub srtt_ns: i64,
    /// Its mean deviation in nanoseconds, -1 while unknown.
    pub rttvar_ns: i64,
    /// The least round-trip time seen in nanoseconds, -1 while unknown.
    pub min_rtt_ns: i64,
    /// Bytes that the macroflow may have outstanding.
    pub window: u64,
    /// Bytes that it has outstanding.
    pub outstanding: u64,
    /// Share of the packets lost of late, in parts per million.
    pub loss_ppm: u32,
    /// Zero.
    pub reserved: u32,
}

/// `cm_send_fn`. (C-unwind: what a C++ callback throws ends the process, and is not undefined.)
pub type SendFn = unsafe extern "C-unwind" fn(flow: i64, data: *mut c_void);
/// `cm_update_fn`.
pub type UpdateFn = unsafe extern "C-unwind" fn(flow: i64, path: *const CmPath, data: *mut c_void);
/// `cm_error_fn`.
pub type ErrorFn = unsafe extern "C-unwind" fn(flow: i64, error: c_int, data: *mut c_void);
/// `cm_ready_fn`.
pub type ReadyFn = unsafe extern "C-unwind" fn(fd: c_int, revents: c_short, data: *mut c_void);

/// A function of the application, and its `data`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callback<F> {
    function: F,
    data: *mut c_void,
}

// SAFETY: `data` is only handed back to the application, which is told (cm(3)) on which threads its functions run.
unsafe impl<F> Send for Callback<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for Callback<F> {}

impl<F> Callback<F> {
    /// # Safety
    /// `function` may be called with `data` from any thread for as long as it is registered.
    pub(crate) unsafe fn new(function: F, data: *mut c_void) -> Self {
        Self { function, data }
    }
}

impl Callback<SendFn> {
    pub(crate) fn call(self, flow: i64) {
        // SAFETY: promised when it was made.
        unsafe { (self.function)(flow, self.data) }
    }
}

impl Callback<UpdateFn> {
    pub(crate) fn call(self, flow: i64, path: &CmPath) {
        // SAFETY: promised when it was made; the path lives until it returns.
        unsafe { (self.function)(flow, path, self.data) }
    }
}

impl Callback<ErrorFn> {
    pub(crate) fn call(self, flow: i64, error: c_int) {
        // SAFETY: promised when it was made.
        unsafe { (self.function)(flow, error, self.data) }
    }
}

impl Callback<ReadyFn> {
    pub(crate) fn call(self, fd: c_int, revents: c_short) {
        // SAFETY: promised when it was made.
        unsafe { (self.function)(fd, revents, self.data) }
    }
}
