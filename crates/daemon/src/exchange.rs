//! Processing of a client's queues: submissions are applied to the manager, and the manager's events are sent.

use std::collections::VecDeque;

use timeous_cm::{ClientEvent, ClientId, CmError, FlowId, Implausible, Manager, Update};
use timeous_core::{Duration, Instant};
use timeous_ipc::{Channel, Completion, Handle, Refusal, Submission, Violation};

use crate::handles::Handles;

/// Maximum number of a client's submissions per turn.
const BUDGET: usize = 256;
/// Maximum number of events sent to a client per turn.
const EVENTS: usize = 512;
/// Retry interval of premature feedback: the first one, doubled up to the last, after which the feedback is refused.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LAST_PAUSE: Duration = Duration::from_millis(512);
/// Maximum number of waiting premature updates.
const EARLY: usize = 256;
/// Maximum number of refusals that wait for room. A client that reads its queue never has that many.
const STALLED: usize = 1_024;

/// A client's end of the manager, and the daemon's end of its queues.
#[derive(Debug)]
pub(crate) struct Exchange {
    channel: Channel,
    pub(crate) flows: Handles,
    /// Completions for which the client's queue had no room. Until there is room, nothing more is read from the client,
    /// and its events stay in the manager: grants that wait too long lapse.
    stalled: VecDeque<Completion>,
    /// Feedback that arrived sooner than possible.
    early: VecDeque<PrematureFeedback>,
    /// Whether the client was sent something for which it may have to be woken.
    has_completed: bool,
    /// Flows whose path state has changed.
    touched: Vec<Handle>,
}

/// Premature feedback, retried until it is plausible. A delayed daemon may learn of a packet and of its acknowledgement
/// at once; a client gains nothing by forged feedback that waiting would not have given it as well.
#[derive(Clone, Copy, Debug)]
struct PrematureFeedback {
    flow: Handle,
    update: Update,
    pause: Duration,
    again: Instant,
}

/// Result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnResult {
    /// There is more to do, without waiting.
    pub(crate) more: bool,
    /// The client sleeps, and has to be woken.
    pub(crate) wake: bool,
}

impl Exchange {
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            channel,
            flows: Handles::default(),
            stalled: VecDeque::new(),
            early: VecDeque::new(),
            has_completed: false,
            touched: Vec::new(),
        }
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Applies submissions, up to a limit, and sends events.
    pub(crate) fn turn(&mut self, now: Instant, cm: &mut Manager, id: ClientId) -> Result<TurnResult, Violation> {
        let mut done = false;
        self.look_again(now, cm)?;
        if self.relieve()? {
            self.channel.awake();
            let drained = self.apply(now, cm, BUDGET)?;
            self.publish_touched(cm);
            done = self.deliver(cm, id)? && drained;
        }
        self.end_turn(done)
    }

    /// Returns when premature feedback has to be retried, in a turn.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.early.iter().map(|early| early.again).min()
    }

    fn look_again(&mut self, now: Instant, cm: &mut Manager) -> Result<(), Violation> {
        for _ in 0..self.early.len() {
            let Some(early) = self.early.pop_front() else { break };
            if now < early.again {
                self.early.push_back(early);
            } else if let Err(refused) = self.update(now, cm, early.flow, early.update, early.pause * 2)
                && self.flows.flow(early.flow).is_some()
            {
                self.tell(*refused)?;
            }
        }
        self.publish_touched(cm);
        Ok(())
    }

    /// Applies a client's feedback; if it is premature, it is retried after `pause`.
    fn update(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        handle: Handle,
        update: Update,
        pause: Duration,
    ) -> Result<(), Box<Completion>> {
        let value = update.acked.saturating_add(update.lost);
        let refused = |why| Box::new(Completion::Refused { flow: handle, why, value });
        let flow = self.flows.flow(handle).ok_or_else(|| refused(Refusal::UnknownFlow))?;
        self.touch(handle);
        match cm.update(now, flow, update) {
            Ok(()) => Ok(()),
            Err(CmError::Implausible { what: Implausible::TooSoon { .. }, .. })
                if pause <= LAST_PAUSE && self.early.len() < EARLY =>
            {
                self.early.push_back(PrematureFeedback { flow: handle, update, pause, again: now + pause });
                Ok(())
            }
            Err(error) => Err(refused(refusal(&error))),
        }
    }

    /// Applies all submissions that the client made before a call, which is ordered behind them.
    pub(crate) fn catch_up(&mut self, now: Instant, cm: &mut Manager) -> Result<(), Violation> {
        let all = self.channel.geometry().submissions as usize;
        // Also with a full completion queue: a client that waits for an answer may not be reading.
        for _ in 0..all {
            let Some(submission) = self.channel.poll_submission()? else { break };
            if let Err(refused) = self.submit(now, cm, submission) {
                self.tell(*refused)?;
            }
        }
        self.publish_touched(cm);
        Ok(())
    }

    /// Adds an opened flow.
    pub(crate) fn opened(&mut self, cm: &Manager, flow: FlowId) -> Handle {
        let handle = self.flows.add(flow);
        self.publish(cm, handle, flow);
        handle
    }

    /// Removes a closed flow.
    pub(crate) fn closed(&mut self, handle: Handle) {
        self.flows.remove(handle);
        self.channel.unpublish(handle);
    }

    /// Publishes the path states of all flows.
    pub(crate) fn publish_all(&mut self, cm: &Manager) {
        for (flow, handle) in self.flows.iter() {
            if let Ok(state) = cm.query(flow) {
                self.channel.publish(handle, &state);
            }
        }
    }

    /// Retries stalled completions; returns `false` if there is still no room.
    fn relieve(&mut self) -> Result<bool, Violation> {
        while let Some(&completion) = self.stalled.front() {
            if self.channel.complete(completion)? {
                self.has_completed = true;
                self.stalled.pop_front();
            } else if self.channel.starve()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends a completion, or queues it if there is no room.
    fn tell(&mut self, completion: Completion) -> Result<(), Violation> {
        if self.stalled.is_empty() && self.channel.complete(completion)? {
            self.has_completed = true;
        } else if self.stalled.len() < STALLED {
            self.stalled.push_back(completion);
            // The client may have read meanwhile, and would not signal that.
            self.relieve()?;
        }
        Ok(())
    }

    /// Returns `true` if the queue is empty.
    fn apply(&mut self, now: Instant, cm: &mut Manager, most: usize) -> Result<bool, Violation> {
        for _ in 0..most {
            let Some(submission) = self.channel.poll_submission()? else { return Ok(true) };
            if let Err(refused) = self.submit(now, cm, submission) {
                self.tell(*refused)?;
            }
            if !self.stalled.is_empty() {
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn submit(&mut self, now: Instant, cm: &mut Manager, submission: Submission) -> Result<(), Box<Completion>> {
        let (handle, value) = match submission {
            Submission::Request { flow, count } => (flow, count.into()),
            Submission::RequestBy { flow, .. } => (flow, 1),
            Submission::Notify { flow, bytes } | Submission::NotifyUnasked { flow, bytes } => (flow, bytes),
            Submission::Update { flow, update } => return self.update(now, cm, flow, update, FIRST_PAUSE),
            // Reading it is the answer.
            Submission::Ping => return Ok(()),
        };
        let refused = |why| Box::new(Completion::Refused { flow: handle, why, value });
        let flow = self.flows.flow(handle).ok_or_else(|| refused(Refusal::UnknownFlow))?;
        let done = match submission {
            Submission::Request { count, .. } => cm.request_many(now, flow, count),
            Submission::RequestBy { deadline, .. } => cm.request_by(now, flow, deadline),
            Submission::Notify { bytes, .. } => cm.notify(now, flow, bytes),
            Submission::NotifyUnasked { bytes, .. } => cm.notify_unasked(now, flow, bytes),
            Submission::Update { .. } | Submission::Ping => Ok(()),
        };
        done.map_err(|error| refused(refusal(&error)))
    }

    fn touch(&mut self, handle: Handle) {
        if self.touched.last() != Some(&handle) {
            self.touched.push(handle);
        }
    }

    fn publish_touched(&mut self, cm: &Manager) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for handle in touched.drain(..) {
            if let Some(flow) = self.flows.flow(handle) {
                self.publish(cm, handle, flow);
            }
        }
        self.touched = touched;
    }

    fn publish(&mut self, cm: &Manager, handle: Handle, flow: FlowId) {
        if let Ok(state) = cm.query(flow) {
            self.channel.publish(handle, &state);
        }
    }

    /// Returns `true` if the manager has no more events for the client.
    fn deliver(&mut self, cm: &mut Manager, id: ClientId) -> Result<bool, Violation> {
        // Consecutive grants of one flow are merged into one message.
        let mut grants: Option<(Handle, u32)> = None;
        let mut all = false;
        for _ in 0..EVENTS {
            if !self.stalled.is_empty() {
                break;
            }
            let Some(event) = cm.poll_client(id) else {
                all = true;
                break;
            };
            let (ClientEvent::Granted(flow) | ClientEvent::Changed(flow, _)) = event;
            let Some(handle) = self.flows.handle(flow) else { continue };
            match event {
                ClientEvent::Granted(_) => match &mut grants {
                    Some((same, count)) if *same == handle => *count += 1,
                    _ => {
                        self.publish(cm, handle, flow);
                        let before = grants.replace((handle, 1));
                        self.grant(before)?;
                    }
                },
                ClientEvent::Changed(_, state) => {
                    self.channel.publish(handle, &state);
                    self.tell(Completion::Changed { flow: handle, state })?;
                }
            }
        }
        self.grant(grants)?;
        Ok(all)
    }

    fn grant(&mut self, grants: Option<(Handle, u32)>) -> Result<(), Violation> {
        match grants {
            Some((flow, count)) => self.tell(Completion::Granted { flow, count }),
            None => Ok(()),
        }
    }

    fn end_turn(&mut self, done: bool) -> Result<TurnResult, Violation> {
        let mut wake = std::mem::take(&mut self.has_completed) && self.channel.must_wake();
        if !self.stalled.is_empty() {
            // The client signals when it has read.
            return Ok(TurnResult { more: false, wake });
        }
        if !done {
            return Ok(TurnResult { more: true, wake });
        }
        let rest = self.channel.rest()?;
        wake |= rest.wake_client;
        Ok(TurnResult { more: !rest.may_sleep, wake })
    }
}

fn refusal(error: &CmError) -> Refusal {
    match error {
        CmError::NotGranted(_) => Refusal::NotGranted,
        CmError::TooManyRequests { .. } => Refusal::OverLimit,
        CmError::Implausible { what: Implausible::MoreThanSent { .. }, .. } => Refusal::MoreThanSent,
        CmError::Implausible { .. } | CmError::TooLarge { .. } => Refusal::Implausible,
        _ => Refusal::UnknownFlow,
    }
}
