//! Link and streams of Lai & Kohler §4.2 and §4.3, the same in virtual and in real time.

use timeous::core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::{Jitter, Limit};

use crate::experiment::{Choice, Claim, setup, values};

values! {
    /// Transport of the measured stream.
    pub(crate) enum Transport {
        /// No congestion control.
        Udp = "UDP",
        /// Reliable in-order delivery.
        Tcp = "TCP",
        /// DCCP from a packet ring.
        Timeous = "Timeous",
        /// The same, with the choice made by the application in its ring.
        Own = "Timeous, own choice",
        /// The same, with stale packets overwritten where they wait.
        Overwritten = "Timeous, overwritten",
    }
}
/// Transports of §4.3, where a packet in excess is dropped, not changed.
pub(crate) const OF_FRAMES: [Transport; 4] = [Transport::Udp, Transport::Tcp, Transport::Timeous, Transport::Own];

/// Rate of the link: 50 kB/s (§4.2).
pub(crate) const RATE: Rate = Rate::from_bps(400_000);
/// Size of the token bucket, in bytes: one packet, and the tokens that accrue meanwhile.
const BURST: u64 = 3_000;
/// Queue of the token bucket, in packets.
const QUEUE: usize = 20;
/// One-way delay of the link.
pub(crate) const DELAY: Duration = Duration::from_millis(5);
/// Returns the link, and the way back.
pub(crate) fn links() -> (LinkConfig, LinkConfig) {
    let back = LinkConfig::with_delay(DELAY);
    (LinkConfig { burst: BURST, ..back.clone().with_rate(RATE, Limit::Packets(QUEUE)) }, back)
}
/// Returns the access link where another flow shares the link: its jitter is up to half a packet's
/// transmission time.
pub(crate) fn access() -> LinkConfig {
    let spread = RATE.time_for(SIZE as u64) / 2;
    LinkConfig { delay: spread, jitter: Jitter { spread, ..Jitter::default() }, ..LinkConfig::default() }
}
/// Payload of a packet in bytes: 1500 without the headers (§4.2).
pub(crate) const SIZE: usize = 1_460;
/// Packet interval in §4.2.
pub(crate) const INTERVAL: Duration = Duration::from_millis(30);
/// Age after which data is useless: three intervals (§4.2).
pub(crate) const AGE: Duration = Duration::from_millis(90);
/// Packet intervals in §4.3.
pub(crate) const FRAME_INTERVALS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(20), Duration::from_millis(25)];
/// Every n-th packet is an I-frame (§4.3).
pub(crate) const I_FRAME_EVERY: u64 = 10;
/// Queued packets beyond which B- and P-frames are dropped (§4.3: at three or more).
pub(crate) const KEPT: usize = 2;
/// Uncounted start, in which the flows converge to their shares.
pub(crate) const WARM_UP: Duration = Duration::from_secs(10);

/// Returns the choices where two flows share the link.
pub(super) fn shared_choices() -> Vec<Choice> {
    setup! {
        ours "way to the link": "15 ± 15 ms each way, half a packet's time there, for both flows"
            => "without it each packet meets the queue as the one before it did, and one flow has most of the link, \
            0.79 for real: phase effects (Floyd & Jacobson 1992). Added after results without it had been seen";
    }
}

/// Returns the choices of both experiments.
pub(super) fn choices() -> Vec<Choice> {
    let number = |n: &dyn ToString, unit: &str| format!("{} {unit}", n.to_string());
    setup! {
        paper "link": "token bucket, 50 kB/s" => "§4.2";
        ours "bucket": "{}", number(&BURST, "bytes")
            => "two packets: the paper does not say, and more would be a second queue";
        ours "queue at the bucket": "{}", number(&QUEUE, "packets, drop-tail")
            => "the paper does not say; its losses of 0.5 to 0.7 % are those of a window that fills a queue of about \
            20";
        ours "delay of the wire": "5 ms each way" => "the paper does not say; the queue is most of the round trip";
        paper "payload of a packet": "{}", number(&SIZE, "bytes") => "§4.2: the TCP MTU";
        ours "warm-up": "10 s, not counted" => "the flows find their shares of the link first";
    }
}

/// Merges the claims of all seeds, which are the same in the same order, into one of each kind.
pub(super) fn over_seeds(of_seeds: Vec<Vec<Claim>>) -> Vec<Claim> {
    let kinds = of_seeds.first().map_or(0, Vec::len);
    let of_kind = |kind: usize| of_seeds.iter().filter_map(|claims| claims.get(kind)).cloned().collect();
    (0..kinds).filter_map(|kind| of_one_kind(of_kind(kind))).collect()
}

fn of_one_kind(mut claims: Vec<Claim>) -> Option<Claim> {
    claims.sort_by(|a, b| a.value.total_cmp(&b.value));
    // A seed that measured nothing is no seed that may be left out.
    let nothing = claims.iter().find(|claim| claim.value.is_nan());
    let middle = nothing.or(claims.get(claims.len().checked_sub(1)? / 2))?.clone();
    let (least, most) = (claims.first()?.value, claims.last()?.value);
    let measured = match claims.len() {
        1 => middle.measured.clone(),
        seeds => format!("{} (median of {seeds} seeds; {least:.2} to {most:.2})", middle.measured),
    };
    Some(Claim { measured, ..middle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_seed_speaks_and_the_others_are_its_spread() {
        let claim = |value: f64| vec![Claim::new("x", "", format!("{value}"), value).pass(2.0..)];
        let claims = over_seeds([5.0, 1.0, 2.0].map(claim).to_vec());
        assert_eq!(claims.len(), 1);
        assert_eq!((claims[0].value, claims[0].passes()), (2.0, Some(true)));
        assert_eq!(claims[0].measured, "2 (median of 3 seeds; 1.00 to 5.00)");
        assert_eq!(over_seeds(vec![claim(3.0)]), claim(3.0), "one seed has no spread");
        assert!(over_seeds(Vec::new()).is_empty());
        assert_eq!(over_seeds([5.0, f64::NAN, 2.0].map(claim).to_vec())[0].passes(), Some(false));
    }
}
