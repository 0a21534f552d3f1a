//! What is written down of a run, if it is asked for. None of it changes the run.

use std::io::Write;

use timeous_core::{Duration, Instant};

use super::Network;
use crate::capture::CaptureError;
use crate::sim::host::Host;
use crate::sim::journey::Step;
use crate::sim::sampler::Sample;
use crate::sim::topology::LinkId;

impl<H: Host> Network<H> {
    /// From now on, writes down where each packet goes.
    pub fn record_journeys(&mut self) {
        self.recorder.record_journeys();
        self.links.iter_mut().for_each(|line| line.link.keep_drops());
    }

    /// What was written down since [`record_journeys`](Self::record_journeys), in the order of time. Of a packet that
    /// a queue takes in and drops later, a link tells when it is next looked at; the step is then put in its place.
    pub fn journeys(&self) -> &[Step] {
        self.recorder.journeys()
    }

    /// The same, which is then forgotten here.
    pub fn take_journeys(&mut self) -> Vec<Step> {
        self.recorder.take_journeys()
    }

    /// From now on, looks at a link every so often: after one interval for the first time, and at each moment after
    /// all that happens at it.
    ///
    /// # Panics
    /// If the interval is zero.
    pub fn sample_link(&mut self, link: LinkId, every: Duration) {
        assert!(!every.is_zero(), "samples are taken at an interval above zero");
        self.recorder.sample(self.now, link, every, &self.links[link.index()].link);
        self.sample_due = self.recorder.next_sample();
    }

    /// What was seen since [`sample_link`](Self::sample_link).
    pub fn samples(&self, link: LinkId) -> &[Sample] {
        self.recorder.samples(link)
    }

    /// From now on, writes each packet as it enters the link and as it leaves it to a pcapng file. The zero of virtual
    /// time is written as 1970-01-01, so that the same run gives the same bytes everywhere.
    ///
    /// # Errors
    /// If the beginning of the file cannot be written. Later errors are told by
    /// [`finish_captures`](Self::finish_captures).
    pub fn capture(&mut self, link: LinkId, writer: impl Write + Send + 'static) -> Result<(), CaptureError> {
        self.recorder.capture(link, Box::new(writer))
    }

    /// Ends all captures and writes out what is buffered.
    ///
    /// # Errors
    /// If anything could not be written since they began, or is no IP packet: it is too long, or its two ends are of
    /// different families.
    pub fn finish_captures(&mut self) -> Result<(), CaptureError> {
        self.recorder.finish_captures()
    }

    /// Takes all samples due before `at`; those due at it too, if nothing more happens then.
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
