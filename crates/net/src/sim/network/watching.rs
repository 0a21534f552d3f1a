//! Recording of a run: journeys, samples, captures. Recording does not affect the run.

use std::io::Write;

use timeous_core::{Duration, Instant};

use super::Network;
use crate::capture::CaptureError;
use crate::sim::host::Host;
use crate::sim::journey::Step;
use crate::sim::sampler::Sample;
use crate::sim::topology::LinkId;

impl<H: Host> Network<H> {
    /// Starts recording the journey of each packet.
    pub fn record_journeys(&mut self) {
        self.recorder.record_journeys();
        self.links.iter_mut().for_each(|line| line.link.keep_drops());
    }

    /// Steps since [`record_journeys`](Self::record_journeys), in order of time. A link reports a packet dropped on the
    /// way out of its queue when it is next processed; the step is then inserted at its time.
    pub fn journeys(&self) -> &[Step] {
        self.recorder.journeys()
    }

    /// Returns the recorded steps and removes them.
    pub fn take_journeys(&mut self) -> Vec<Step> {
        self.recorder.take_journeys()
    }

    /// Starts sampling a link at this interval: first after one interval, and each time after all events at that time.
    ///
    /// # Panics
    /// If the interval is zero.
    pub fn sample_link(&mut self, link: LinkId, every: Duration) {
        assert!(!every.is_zero(), "samples are taken at an interval above zero");
        self.recorder.sample(self.now, link, every, &self.links[link.index()].link);
        self.sample_due = self.recorder.next_sample();
    }

    /// Samples since [`sample_link`](Self::sample_link).
    pub fn samples(&self, link: LinkId) -> &[Sample] {
        self.recorder.samples(link)
    }

    /// Starts capturing packets that enter and leave the link into a pcapng file. Virtual time zero is written as
    /// 1970-01-01, so that the same run gives the same bytes.
    ///
    /// # Errors
    /// If the file header cannot be written. Later errors are reported by [`finish_captures`](Self::finish_captures).
    pub fn capture(&mut self, link: LinkId, writer: impl Write + Send + 'static) -> Result<(), CaptureError> {
        self.recorder.capture(link, Box::new(writer))
    }

    /// Ends all captures and flushes their buffers.
    ///
    /// # Errors
    /// If a write has failed since they began, or a packet was too long for IP or had ends of different families.
    pub fn finish_captures(&mut self) -> Result<(), CaptureError> {
        self.recorder.finish_captures()
    }

    /// Takes all samples due before `at`; if `inclusive`, also those due at it.
    pub(super) fn sample_until(&mut self, at: Instant, inclusive: bool) {
        while self.sample_due < at || (inclusive && self.sample_due == at) {
            let due = self.sample_due;
            for (link, sampler) in self.recorder.samplers().filter(|(_, sampler)| sampler.next() == due) {
                sampler.take(&mut self.links[link.index()].link);
            }
            self.sample_due = self.recorder.next_sample();
        }
    }
}
