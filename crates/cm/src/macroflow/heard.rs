//! Latest acknowledgements of two flows: whether the path carried data of others while one flow heard nothing.

use timeous_core::Instant;

use crate::flow::FlowId;

/// Last acknowledgement, and the last one of any other flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    last: Option<(FlowId, Instant)>,
    other: Option<(FlowId, Instant)>,
}

impl Heard {
    pub(super) fn note(&mut self, now: Instant, id: FlowId) {
        if self.last.is_some_and(|(last, _)| last != id) {
            self.other = self.last;
        }
        self.last = Some((id, now));
    }

    /// Time of the last acknowledgement of another flow than `id`.
    pub(super) fn beside(&self, id: FlowId) -> Option<Instant> {
        [self.last, self.other].into_iter().flatten().find(|&(flow, _)| flow != id).map(|(_, at)| at)
    }
}
