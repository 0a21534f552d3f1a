//! Paths of tl-timelines and tl-dependencies, on real kernels.

use timeous::core::{AduMeta, Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};

use super::super::over_tcp::Offer;
use super::super::tcp_kernel::network::Links;
use super::super::tl::RTT;
use super::super::tl::trial::{link, standing_still};
use crate::bound::{Job, Rates, bound};

/// Duration and period of link outages, as at a handover.
const STILL: Duration = Duration::from_millis(400);
const PERIOD: Duration = Duration::from_secs(5);
const WIDE: Rate = Rate::from_kbps(2_000);
/// Link rate about equal to the pictures' with headers.
const NARROW: Rate = Rate::from_kbps(550);
/// Losses in bursts.
const BURSTS: Loss = Loss::GilbertElliott { p: 0.02, r: 0.5, bad_loss: 0.9, good_loss: 0.0 };
/// Queue of the narrow link, in packets.
const QUEUE: usize = 20;
/// Bytes of IP's and TCP's headers with timestamps, and of the data in a full segment.
const HEADERS: usize = 52;
const SEGMENT: usize = 1_448;
/// Step between tested outage positions in a period: a stream may start at any.
const PHASE: Duration = Duration::from_millis(100);

/// Path of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Path {
    Random,
    Bursts,
    Spikes,
    Narrow,
}

impl Path {
    pub(super) const ALL: [Self; 4] = [Self::Random, Self::Bursts, Self::Spikes, Self::Narrow];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Random => "4 % loss",
            Self::Bursts => "bursts of loss",
            Self::Spikes => "delay spikes",
            Self::Narrow => "narrow link, bursts",
        }
    }

    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Random => "2 Mbit/s, 40 ms there and back, 50 packets; each packet is lost with 4 %",
            Self::Bursts => "the same; bursts begin with 2 %, last two packets, and lose nine of ten in them",
            Self::Spikes => "the same without loss; it stands still for the first 400 ms of each 5 s",
            Self::Narrow => "550 kbit/s, 20 packets, losses in bursts",
        }
    }

    /// Returns the share of the offered bytes, in percent, in frames that an omniscient sender
    /// could have had decoded; losses cost it nothing.
    pub(super) fn bound(self, offers: &[Offer]) -> f64 {
        let jobs = jobs(offers);
        let all: u64 = jobs.iter().map(|job| job.value).sum();
        let lasting = offers.last().map_or(Duration::ZERO, |offer| offer.at + offer.latency);
        let rates: Vec<Rates> = match self {
            Self::Random | Self::Bursts => vec![Rates::fixed(WIDE)],
            Self::Narrow => vec![Rates::fixed(NARROW)],
            Self::Spikes => {
                (0..PERIOD.as_millis() / PHASE.as_millis()).map(|step| standstills(PHASE * step, lasting)).collect()
            }
        };
        let most = rates.iter().map(|rates| bound(&jobs, rates).value).max().unwrap_or(0);
        100.0 * most as f64 / all.max(1) as f64
    }

    pub(super) fn links(self) -> Links {
        let forward = match self {
            Self::Random => link(Loss::Bernoulli { p: 0.04 }),
            Self::Bursts => link(BURSTS),
            Self::Spikes => standing_still(STILL, PERIOD),
            Self::Narrow => {
                LinkConfig { capacity: Capacity::Fixed(NARROW), queue: Limit::Packets(QUEUE), ..link(BURSTS) }
            }
        };
        Links { forward, back: LinkConfig { delay: RTT / 2, ..LinkConfig::default() } }
    }
}

/// Returns the frames as jobs, in full segments.
fn jobs(offers: &[Offer]) -> Vec<Job> {
    let mut jobs: Vec<(AduMeta, Job)> = Vec::new();
    for offer in offers {
        if jobs.last().is_none_or(|(meta, _)| meta.frame != offer.meta.frame) {
            let needs = jobs
                .iter()
                .enumerate()
                .filter(|(_, (meta, _))| offer.meta.references.iter().any(|frame| frame == meta.frame));
            let needs = needs.map(|(place, _)| place).collect();
            let deadline = (offer.at + offer.latency).saturating_sub(RTT / 2).as_nanos();
            jobs.push((offer.meta, Job { release: offer.at.as_nanos(), deadline, bytes: 0, needs, value: 0 }));
        }
        if let Some((_, job)) = jobs.last_mut() {
            job.value += offer.len as u64;
        }
    }
    let whole = |(_, job): (AduMeta, Job)| Job {
        bytes: job.value + job.value.div_ceil(SEGMENT as u64) * HEADERS as u64,
        ..job
    };
    jobs.into_iter().map(whole).collect()
}

/// Returns the link's rates with outages, the first of which begins at `phase`.
fn standstills(phase: Duration, lasting: Duration) -> Rates {
    let mut steps = vec![(Duration::ZERO, WIDE)];
    let mut at = phase;
    while at < lasting {
        steps.extend([(at, Rate::ZERO), (at + STILL, WIDE)]);
        at += PERIOD;
    }
    Rates::steps(&steps)
}

#[cfg(test)]
mod tests {
    use super::super::offers;
    use super::*;

    #[test]
    fn over_the_narrow_link_no_intra_frame_fits_into_the_playout_and_over_the_wide_one_all_do() {
        let offers = offers(1);
        assert_eq!([Path::Random, Path::Narrow].map(|path| path.bound(&offers)), [100.0, 0.0]);
    }
}
