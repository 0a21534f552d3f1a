//! Interface to a Congestion Manager, in this process or in the daemon.

use std::os::fd::BorrowedFd;

use timeous_cm::{FlowSpec, Kind, Scheduling, Update};
use timeous_core::{Instant, PathState};

use super::error::Error;
use super::event::Event;
use super::flow::FlowId;
use super::poll::WakeReason;

/// Calls to a manager, and the descriptor that is readable when there is an event.
pub(super) trait Control: Send + Sync {
    fn open_flow(&self, spec: FlowSpec) -> Result<FlowId, Error>;
    fn close(&self, flow: FlowId) -> Result<(), Error>;
    fn mtu(&self, flow: FlowId) -> Result<u64, Error>;
    fn request(&self, flow: FlowId, count: u32) -> Result<(), Error>;
    fn request_by(&self, flow: FlowId, deadline: Instant) -> Result<(), Error>;
    fn bulk_request(&self, requests: &[(FlowId, u32)]) -> Vec<Result<(), Error>>;
    fn notify(&self, flow: FlowId, bytes: u64) -> Result<(), Error>;
    fn notify_unasked(&self, flow: FlowId, bytes: u64) -> Result<(), Error>;
    fn bulk_notify(&self, sent: &[(FlowId, u64)]) -> Vec<Result<(), Error>>;
    fn update(&self, flow: FlowId, update: Update) -> Result<(), Error>;
    fn bulk_update(&self, updates: &[(FlowId, Update)]) -> Vec<Result<(), Error>>;
    fn query(&self, flow: FlowId) -> Result<PathState, Error>;
    fn bulk_query(&self, flows: &[FlowId]) -> Vec<Result<PathState, Error>>;
    fn thresh(&self, flow: FlowId, down: f64, up: f64) -> Result<(), Error>;
    fn split(&self, flow: FlowId) -> Result<(), Error>;
    fn merge(&self, flow: FlowId, with: FlowId) -> Result<(), Error>;
    fn set_weight(&self, flow: FlowId, weight: u32) -> Result<(), Error>;
    fn set_scheduler(&self, flow: FlowId, scheduling: Scheduling) -> Result<(), Error>;
    fn set_controller(&self, flow: FlowId, kind: Kind) -> Result<(), Error>;
    fn poll_event(&self) -> Option<Event>;
    /// Sleeps by calling `how` with the descriptor to wait for, unless there is an event already.
    fn sleep(&self, how: &mut dyn FnMut(BorrowedFd<'_>) -> WakeReason) -> bool;
    /// Makes the descriptor ring for every event from now on: it was handed to the application.
    fn show(&self);
    /// Descriptor; it rings while a thread sleeps, and always after `show`.
    fn descriptor(&self) -> BorrowedFd<'_>;
}
