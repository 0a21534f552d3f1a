//! All that is written down of a run. Nothing of it is, unless asked for; and none of it changes the run.

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

    /// Something happens to a packet now.
    #[inline]
    pub(super) fn note(&mut self, at: Instant, packet: u64, what: Passage) {
        if let Some(journeys) = &mut self.journeys {
            journeys.push(Step { at, packet, what });
        }
    }

    /// Something has happened to a packet, of which a link told only now: it is put in its place.
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

    /// When the next sample is due.
    pub(super) fn next_sample(&self) -> Instant {
        self.samplers.values().map(Sampler::next).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The samplers by link.
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

    /// A packet is about to be handed to a link.
    pub(super) fn see(&mut self, link: LinkId, packet: &Packet) {
        if let Some(tap) = self.taps.get_mut(&link) {
            tap.see(packet);
        }
    }

    /// The packet that was [seen](Self::see) last on this link was taken in, or dropped.
    pub(super) fn entered(&mut self, link: LinkId, at: Instant, dropped: Option<DropCause>) {
        if let Some(tap) = self.taps.get_mut(&link) {
            tap.write(Interface::Ingress, at, dropped);
        }
    }

    /// A packet leaves a link at its far end.
    pub(super) fn left(&mut self, link: LinkId, at: Instant, packet: &Packet) {
        if let Some(tap) = self.taps.get_mut(&link) {
            tap.see(packet);
            tap.write(Interface::Egress, at, None);
        }
    }
}
