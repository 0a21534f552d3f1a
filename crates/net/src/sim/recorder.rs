//! Recorder of a run: nothing is recorded unless requested, and recording does not affect the run.

use std::collections::BTreeMap;
use std::io::Write;

use timeous_core::{Duration, Instant};

use super::journey::{Passage, Step};
use super::packet::Packet;
use super::sampler::{Sample, Sampler};
use super::tap::Tap;
use super::topology::LinkId;
use crate::capture::{CaptureError, Interface};
use crate::link::{DropCause, Link};

#[derive(Default)]
pub(super) struct Recorder {
    journeys: Option<Vec<Step>>,
    samplers: BTreeMap<LinkId, Sampler>,
    taps: BTreeMap<LinkId, Tap>,
}

impl Recorder {
    pub(super) fn record_journeys(&mut self) {
        self.journeys.get_or_insert_default();
    }

    pub(super) fn records_journeys(&self) -> bool {
        self.journeys.is_some()
    }

    pub(super) fn journeys(&self) -> &[Step] {
        self.journeys.as_deref().unwrap_or_default()
    }

    pub(super) fn take_journeys(&mut self) -> Vec<Step> {
        self.journeys.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records a step that happens now.
    #[inline]
    pub(super) fn note(&mut self, at: Instant, packet: u64, what: Passage) {
        if let Some(journeys) = &mut self.journeys {
            journeys.push(Step { at, packet, what });
        }
    }

    /// Records a step that a link has reported late, at its place in time.
    pub(super) fn note_late(&mut self, at: Instant, packet: u64, what: Passage) {
        if let Some(journeys) = &mut self.journeys {
            let later = journeys.iter().rev().take_while(|step| step.at > at).count();
            journeys.insert(journeys.len() - later, Step { at, packet, what });
        }
    }

    pub(super) fn sample(&mut self, now: Instant, id: LinkId, every: Duration, link: &Link<Packet>) {
        self.samplers.insert(id, Sampler::new(now, every, link));
    }

    pub(super) fn samples(&self, link: LinkId) -> &[Sample] {
        self.samplers.get(&link).map(Sampler::samples).unwrap_or_default()
    }

    /// Time of the next sample.
    pub(super) fn next_sample(&self) -> Instant {
        self.samplers.values().map(Sampler::next).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Samplers by link.
    pub(super) fn samplers(&mut self) -> impl Iterator<Item = (LinkId, &mut Sampler)> {
        self.samplers.iter_mut().map(|(link, sampler)| (*link, sampler))
    }

    pub(super) fn capture(&mut self, link: LinkId, writer: Box<dyn Write + Send>) -> Result<(), CaptureError> {
        self.taps.insert(link, Tap::new(writer)?);
        Ok(())
    }

    pub(super) fn finish_captures(&mut self) -> Result<(), CaptureError> {
        let outcomes: Vec<_> = std::mem::take(&mut self.taps).into_values().map(Tap::finish).collect();
        outcomes.into_iter().collect()
    }

    /// Keeps a packet that is about to be handed to a link.
    pub(super) fn see(&mut self, link: LinkId, packet: &Packet) {
        if let Some(tap) = self.taps.get_mut(&link) {
            tap.see(packet);
        }
    }

    /// Captures the packet [kept](Self::see) last, as it was accepted or dropped by the link.
    pub(super) fn entered(&mut self, link: LinkId, at: Instant, dropped: Option<DropCause>) {
        if let Some(tap) = self.taps.get_mut(&link) {
            tap.write(Interface::Ingress, at, dropped);
        }
    }

    /// Captures a packet that leaves a link at its far end.
    pub(super) fn left(&mut self, link: LinkId, at: Instant, packet: &Packet) {
        if let Some(tap) = self.taps.get_mut(&link) {
            tap.see(packet);
            tap.write(Interface::Egress, at, None);
        }
    }
}
