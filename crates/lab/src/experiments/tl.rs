//! Shared parts of the experiments of McQuistin's evaluation: protocols, offered data, paths, and
//! measures.

pub(crate) mod measure;
pub(crate) mod offers;
pub(crate) mod trial;

use timeous::core::Duration;

use crate::experiment::Choice;

/// Loss rates, as in the paper.
pub(crate) const LOSSES: [f64; 5] = [0.0, 0.02, 0.04, 0.08, 0.16];
/// Round-trip time without queueing.
pub(crate) const RTT: Duration = Duration::from_millis(40);
/// Useful life of data after its hand-over.
pub(crate) const PLAYOUT: Duration = Duration::from_millis(150);

/// Returns the paper's parameters, and our common choices.
pub(crate) fn choices() -> Vec<Choice> {
    vec![
        Choice::paper("datagrams", "one each 20 ms, of 550 and 650 bytes in turn, 8000 Hz", "§4.1"),
        Choice::ours(
            "round trip",
            "40 ms",
            "figure 6 does not survive in the text; TCP's window at 16 % loss is then just enough for 50 datagrams a second, so \
             that it is not the send queue alone that is measured",
        ),
        Choice::ours("link", "2 Mbit/s, 50 packets", "wide enough, where nothing else is said"),
        Choice::ours("loss", "on the way there", "a lost acknowledgement is made up for by the next"),
        Choice::ours("congestion control", "NewReno, SACK, RACK", "FreeBSD's, with what every TCP has by now"),
        Choice::ours(
            "playout",
            "150 ms after a datagram was handed over",
            "a conversation's; there is time to send a lost one again once, seldom twice",
        ),
        Choice::paper("jitter", "of what came in time; until now we counted what came late, too", "§4.1"),
        Choice::ours(
            "TCP (A)",
            "a byte stream into a send buffer that never fills",
            "no datagram is refused, in any of them",
        ),
    ]
}
