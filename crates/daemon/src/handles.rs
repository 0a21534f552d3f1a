//! Flow handles of a client: a client can refer only to flows that it opened.

use std::collections::BTreeMap;

use timeous_cm::FlowId;
use timeous_ipc::Handle;

/// The open flows of a client.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_flow: BTreeMap<FlowId, Handle>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    flow: Option<FlowId>,
}

impl Handles {
    pub(crate) fn len(&self) -> usize {
        self.by_flow.len()
    }

    /// Adds a flow and returns its handle.
    pub(crate) fn add(&mut self, flow: FlowId) -> Handle {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, flow: None });
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        // Generation 0 is never used, even after the counter wraps.
        entry.generation = entry.generation.wrapping_add(1).max(1);
        entry.flow = Some(flow);
        let handle = Handle { slot, generation: entry.generation };
        self.by_flow.insert(flow, handle);
        handle
    }

    pub(crate) fn flow(&self, handle: Handle) -> Option<FlowId> {
        let slot = self.slots.get(handle.slot as usize)?;
        slot.flow.filter(|_| slot.generation == handle.generation)
    }

    pub(crate) fn handle(&self, flow: FlowId) -> Option<Handle> {
        self.by_flow.get(&flow).copied()
    }

    /// Removes a flow: its handle is invalid from now on.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<FlowId> {
        let flow = self.flow(handle)?;
        self.slots[handle.slot as usize].flow = None;
        self.free.push(handle.slot);
        self.by_flow.remove(&flow);
        Some(flow)
    }

    /// Iterates over the open flows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlowId, Handle)> {
        self.by_flow.iter().map(|(&flow, &handle)| (flow, handle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_flows_name_is_not_the_next_ones() {
        let mut handles = Handles::default();
        let first = handles.add(FlowId::from_u64(70));
        assert_eq!(handles.flow(first), Some(FlowId::from_u64(70)));
        assert_eq!(handles.remove(first), Some(FlowId::from_u64(70)));
        assert_eq!(handles.remove(first), None);
        let second = handles.add(FlowId::from_u64(71));
        assert_eq!(second.slot, first.slot);
        assert_eq!(handles.flow(first), None);
        assert_eq!(handles.handle(FlowId::from_u64(71)), Some(second));
        assert_eq!(handles.flow(Handle { slot: 7, generation: 1 }), None);
        assert_eq!(handles.len(), 1);
    }
}
