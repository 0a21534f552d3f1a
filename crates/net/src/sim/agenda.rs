//! Event queue: alarms that can be rescheduled, ordered by time and then by scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use timeous_core::Instant;

/// Time of an alarm and the number of its scheduling: of two at one time, the one scheduled first comes first.
type Due = (Instant, u64);

const NEVER: Due = (Instant::FAR_FUTURE, u64::MAX);

/// An alarm of an [`Agenda`].
pub(super) type AlarmId = u32;

#[derive(Clone, Copy, Debug)]
struct Alarm {
    due: Due,
    /// Its valid entry in the heap, never after `due`; other entries are stale.
    posted: Due,
}

/// Alarms. Postponing one is free: its old entry is checked when it comes up, and reinserted.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    alarms: Vec<Alarm>,
    entries: BinaryHeap<Reverse<(Instant, u64, AlarmId)>>,
    settings: u64,
}

impl Agenda {
    /// Adds an alarm, not scheduled.
    pub(super) fn add(&mut self) -> AlarmId {
        self.alarms.push(Alarm { due: NEVER, posted: NEVER });
        AlarmId::try_from(self.alarms.len() - 1).expect("fewer than 2^32 hosts and links")
    }

    /// Schedules an alarm at `due`, or cancels it. If it is already scheduled at that time it keeps its place in the
    /// order.
    pub(super) fn set(&mut self, id: AlarmId, due: Option<Instant>) {
        let due = due.unwrap_or(Instant::FAR_FUTURE);
        let alarm = &mut self.alarms[id as usize];
        if alarm.due.0 == due {
            return;
        }
        alarm.due = if due == Instant::FAR_FUTURE { NEVER } else { (due, self.settings) };
        self.settings += 1;
        if alarm.due < alarm.posted {
            alarm.posted = alarm.due;
            self.entries.push(Reverse((alarm.due.0, alarm.due.1, id)));
        }
    }

    /// Time of the next alarm.
    pub(super) fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, order, id))) = self.entries.peek().copied() {
            if self.alarms[id as usize].due == (at, order) {
                return Some(at);
            }
            self.entries.pop();
            self.repost((at, order), id);
        }
        None
    }

    /// Removes and returns the next alarm due by `until`.
    pub(super) fn pop(&mut self, until: Instant) -> Option<(Instant, AlarmId)> {
        self.next().filter(|due| *due <= until)?;
        let Reverse((at, _, id)) = self.entries.pop()?;
        self.alarms[id as usize] = Alarm { due: NEVER, posted: NEVER };
        Some((at, id))
    }

    /// Reinserts an alarm whose heap entry `gone` was stale.
    fn repost(&mut self, gone: Due, id: AlarmId) {
        let alarm = &mut self.alarms[id as usize];
        if alarm.posted != gone {
            return;
        }
        alarm.posted = alarm.due;
        if alarm.due != NEVER {
            self.entries.push(Reverse((alarm.due.0, alarm.due.1, id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a plain list that is searched from end to end.
        #[test]
        fn alarms_ring_in_the_order_of_time_and_then_of_setting(
            steps in prop::collection::vec((0u32..6, prop::option::of(0u64..12), any::<bool>()), 0..200),
        ) {
            let mut agenda = Agenda::default();
            let mut model: Vec<Option<(u64, usize)>> = vec![None; 6];
            for _ in 0..6 {
                agenda.add();
            }
            for (number, (id, due, pops)) in steps.into_iter().enumerate() {
                agenda.set(id, due.map(Instant::from_nanos));
                let old = &mut model[id as usize];
                if old.map(|(at, _)| at) != due {
                    *old = due.map(|at| (at, number));
                }
                let first = (0..6).filter_map(|id| model[id].map(|due| (due, id as u32))).min();
                prop_assert_eq!(agenda.next().map(Instant::as_nanos), first.map(|((at, _), _)| at));
                if pops {
                    let until = Instant::from_nanos(6);
                    let rung = agenda.pop(until).map(|(at, id)| (at.as_nanos(), id));
                    let expected = first.map(|((at, _), id)| (at, id)).filter(|(at, _)| *at <= 6);
                    prop_assert_eq!(rung, expected);
                    if let Some((_, id)) = expected {
                        model[id as usize] = None;
                    }
                }
            }
        }
    }
}
