//! Parameters of the paper's setup, and our choices where the paper gives none.

use timeous::core::{Duration, Rate};

use crate::experiment::Choice;

/// Rates of the link.
pub(crate) const RATES: [Rate; 3] = [Rate::from_kbps(1_024), Rate::from_kbps(512), Rate::from_kbps(256)];
pub(crate) const LOSS: f64 = 0.05;
pub(crate) const LAYERS: usize = 8;
/// Length of the stream in seconds.
pub(crate) const SECONDS: u64 = 60;
/// Packets of a layer per second, and bytes of each: 128 kbit.
pub(crate) const PACKETS: usize = 12;
pub(crate) const SIZE: usize = 1_333;
/// Bytes of one second of a layer.
pub(crate) const BYTES: u64 = (PACKETS * SIZE) as u64;
/// One-way delay.
pub(crate) const DELAY: Duration = Duration::from_millis(10);
/// Queue of the link, in packets.
pub(crate) const QUEUE: usize = 20;
/// Time from the arrival of the first packet to its playout.
pub(crate) const START_UPS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(20)];

/// Returns the delay of the first packet, of `bytes` bytes, over the idle link.
pub(crate) fn first_way(rate: Rate, bytes: usize) -> Duration {
    DELAY + rate.time_for(bytes as u64)
}

/// Returns all choices.
pub(crate) fn choices() -> Vec<Choice> {
    vec![
        Choice::paper("stream", "8 layers of 128 kbit/s, a second of each at once, lowest first, for 60 s", "§6"),
        Choice::paper("link", "1024, 512 and 256 kbit/s, 5 % loss", "§6"),
        Choice::paper("plain TCP", "New Reno, everything is sent in order", "§6; with SACK, as its Linux had"),
        Choice::ours(
            "ADU",
            "a layer's second is 12 packets of 1333 bytes",
            "the paper's ADU is all of it; here a choice is between packets, since an ADU is a segment",
        ),
        Choice::ours(
            "link's delay and queue",
            "10 ms each way, 20 packets",
            "not in the paper; with longer ways New Reno cannot fill 1024 kbit/s at 5 % loss, as the paper's did to 84 %",
        ),
        Choice::ours(
            "playout",
            "a second's data play 1 s (or 10, 20) after the first packet came, plus their place in the stream",
            "the paper's time reference is the first packet; before a second has passed no second of all layers is whole",
        ),
        Choice::ours(
            "deadline",
            "the playout: the start-up time after the data were made, and the first packet's way over the idle link",
            "the paper's sender keeps to playout speed \"with the first packet as the time reference\"; one that is told of \
             deadlines earlier than the playout would give up, at the end of each second, what is in time",
        ),
        Choice::ours(
            "late choice",
            "`Layers`: too late, or from the top layer down what the rate of the last 4 s leaves no \
             time for; what is not of the lowest layer waits while too much is under way for that one",
            "the paper's application drops from the highest layer until it can send at playout speed, and says no more",
        ),
        Choice::ours("send buffer of plain TCP", "as Linux tunes it; its writer waits", "the paper's regular send()"),
        Choice::ours(
            "transport",
            "our own TCP in virtual time; late choice at the instant of sending",
            "the paper's patch",
        ),
    ]
}
