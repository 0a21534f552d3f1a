//! Bulk calls for many flows at once. A refused entry does not affect the others.

use timeous_core::{Instant, PathState};

use crate::error::CmError;
use crate::flow::{FlowId, Update};

use super::Manager;

impl Manager {
    /// Calls [`request_many`](Self::request_many) for many flows (`cm_bulk_request`).
    pub fn bulk_request(&mut self, now: Instant, requests: &[(FlowId, u32)]) -> Vec<Result<(), CmError>> {
        requests.iter().map(|&(flow, count)| self.request_many(now, flow, count)).collect()
    }

    /// Calls [`notify`](Self::notify) for many flows.
    pub fn bulk_notify(&mut self, now: Instant, notifications: &[(FlowId, u64)]) -> Vec<Result<(), CmError>> {
        notifications.iter().map(|&(flow, bytes)| self.notify(now, flow, bytes)).collect()
    }

    /// Calls [`update`](Self::update) for many flows.
    pub fn bulk_update(&mut self, now: Instant, updates: &[(FlowId, Update)]) -> Vec<Result<(), CmError>> {
        updates.iter().map(|&(flow, update)| self.update(now, flow, update)).collect()
    }

    /// Calls [`query`](Self::query) for many flows.
    pub fn bulk_query(&self, flows: &[FlowId]) -> Vec<Result<PathState, CmError>> {
        flows.iter().map(|&flow| self.query(flow)).collect()
    }
}
