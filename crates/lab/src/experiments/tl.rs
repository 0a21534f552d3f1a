//! Shared parts of the experiments of McQuistin's evaluation: protocols, offered data, paths, and
//! measures.

pub(crate) mod measure;
pub(crate) mod offers;
pub(crate) mod sweep;
pub(crate) mod trial;

use timeous::core::Duration;

use crate::experiment::{Choice, Claim, setup};

/// Loss rates, as in the paper.
pub(crate) const LOSSES: [f64; 5] = [0.0, 0.02, 0.04, 0.08, 0.16];
/// Round-trip time without queueing.
pub(crate) const RTT: Duration = Duration::from_millis(40);
/// Useful life of data after its hand-over.
pub(crate) const PLAYOUT: Duration = Duration::from_millis(150);

/// Returns the paper's parameters, and our common choices.
pub(crate) fn choices() -> Vec<Choice> {
    setup! {
        paper "datagrams": "one each 20 ms, of 550 and 650 bytes in turn, 8000 Hz" => "§4.1";
        ours "round trip": "40 ms" => "figure 6 does not survive in the text; TCP's window at 16 % loss is then just \
            enough for 50 datagrams a second, so that it is not the send queue alone that is measured";
        ours "link": "2 Mbit/s, 50 packets" => "wide enough, where nothing else is said";
        ours "loss": "on the way there" => "a lost acknowledgement is made up for by the next";
        ours "congestion control": "NewReno, SACK, RACK" => "FreeBSD's, with what every TCP has by now";
        paper "records": "the paper's, without timelines: sub-stream, COBS, and zeros around, of which two in a segment share one" => "§3.1";
        ours "records with timelines": "numbered and with a CRC, 14 bytes" => "the content of a segment may change: without them neither \
            duplicates nor mixed versions are found";
        ours "playout": "150 ms after a datagram was handed over"
            => "a conversation's; there is time to send a lost one again once, seldom twice";
        paper "jitter": "of what came in time; until now we counted what came late, too" => "§4.1";
        ours "TCP (A)": "a byte stream into a send buffer that never fills"
            => "no datagram is refused, in any of them";
    }
}

/// Returns the claim that the receiver got nothing but what was offered, and that once, for streams of which this number
/// of datagrams came altered or twice, and this number at all.
pub(crate) fn no_corruption(streams: impl Iterator<Item = (u64, usize)>) -> Claim {
    let (corrupt, came) = streams.fold((0, 0), |all, stream| (all.0 + stream.0, all.1 + stream.1));
    let what = "Datagrams delivered that were not as they were offered, or twice";
    Claim::count(what, "—", corrupt).among(came).pass(..=0.0)
}
