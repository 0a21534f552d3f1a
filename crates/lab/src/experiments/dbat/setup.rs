//! Setup of Hasan et al. §4: the link, its cross traffic, and the transports of the stream.

use timeous::Uri;
use timeous::core::{Duration, Instant, LateChoice, Rate};
use timeous_choice::dbat::{Dbat, DropRule, Marking, Settings};
use timeous_host::sources::WebTraffic;

use super::super::goddard::message::PACKET;
use super::super::goddard::{HASTE, RATES, player, server};
use crate::experiment::{Choice, setup, values};

/// Rate of the bottleneck.
pub(crate) const RATE: Rate = Rate::from_kbps(1_000);
/// Round-trip times without queueing, in milliseconds.
pub(crate) const RTTS: [u64; 3] = [20, 150, 450];
/// Round-trip time of §4.1 to §4.3, in milliseconds.
pub(crate) const RTT: u64 = 150;
/// One-way delay of a host's access link.
pub(crate) const ACCESS: Duration = Duration::from_millis(1);
/// Bytes of a packet on the link, headers included.
pub(crate) const WIRE: u64 = PACKET as u64 + 40;
/// Stream whose policy is the row `policy=dbat`, with all its defaults.
const SHIPPED: &str = "timeous://player?policy=dbat";
/// Largest threshold of DBAT for few rates, in bytes: three quarters of the send buffer.
const MOST: u64 = (server::BUFFER * PACKET) as u64 / 4 * 3;
/// Start and end of FTP.
pub(crate) const FTP: [Instant; 2] = [Instant::from_nanos(100_000_000), Instant::from_nanos(200_000_000_000)];
/// Start and end of the stream.
pub(crate) const STREAM: [Instant; 2] = [Instant::from_nanos(30_000_000_000), Instant::from_nanos(240_000_000_000)];
/// Time after the stream's end for packets in flight to arrive.
pub(crate) const AFTER: Duration = Duration::from_secs(5);

values! {
    /// Transport of the stream.
    pub(crate) enum StreamTransport {
        /// TCP socket with a send buffer of 64 packets.
        Tcp = "TCP",
        /// DCCP with TFRC (CCID 3), from a ring that drops at its tail.
        Tfrc = "TFRC",
        /// TFRC with the tool's DBAT on the ring.
        Dbat = "TFRC, policy=dbat",
        /// TFRC with DBAT by the library's settings for a source with a few rates.
        FewRates = "TFRC, DBAT for few rates",
        /// TFRC with DBAT exactly as in the paper.
        PaperDbat = "TFRC, DBAT to the letter",
    }
}

impl StreamTransport {
    /// Returns DBAT, if it is used. `asks`: whether the paper's asks TFRC to keep to the stream's rate.
    pub(crate) fn dbat(self, asks: bool) -> Option<Box<dyn LateChoice>> {
        let settings = match self {
            Self::Tcp | Self::Tfrc => return None,
            Self::Dbat => {
                let uri: Uri = SHIPPED.parse().expect("the tool's own policy");
                return Some(uri.options.choice());
            }
            Self::FewRates => {
                let beyond = DropRule::Excess;
                Settings { most: Some(MOST), beyond, spare_what_remains: true, ..Settings::default() }
            }
            Self::PaperDbat => Settings { ask_for_rate: asks, ..Settings::PAPER },
        };
        Some(Box::new(Dbat::new(settings, Marking::default())))
    }
}

/// Returns the bottleneck's queue in packets: twice the bandwidth-delay product.
pub(crate) fn queue(rtt: u64) -> usize {
    let bytes = 2 * RATE.bytes_in(Duration::from_millis(rtt));
    ((bytes + WIRE / 2) / WIRE) as usize
}

/// Returns the web traffic.
pub(crate) fn web() -> WebTraffic {
    WebTraffic { users: 5, max_size: 1_000_000, ..WebTraffic::default() }
}

/// Returns the choices of the setup, each with its source.
pub(crate) fn choices(rtts: &[u64]) -> Vec<Choice> {
    let queues: Vec<String> = rtts.iter().map(|&rtt| format!("{} packets at {rtt} ms", queue(rtt))).collect();
    let rates: Vec<String> = RATES.iter().map(|rate| (rate.as_bps() / 1_000).to_string()).collect();
    let mut choices = setup! {
        paper "topology": "dumbbell, bottleneck 1 Mbit/s" => "§4, figure 6";
        paper "queue": "twice the bandwidth-delay product, drop-tail: {}", queues.join(", ") => "§4";
        paper "times": "FTP 0.1 to 200 s, stream 30 to 240 s, web traffic throughout" => "§4";
        paper "rates of the media": "{} kbit/s", rates.join(", ") => "§4";
        paper "send buffer": "{} packets of 1 kB; what finds it full is given up", server::BUFFER
            => "§4: non-blocking; for TCP what is not acknowledged counts, as in Linux";
        paper "playout buffer": "1 s of media before it plays" => "§4";
        ours "access links": "1 ms each way, no limit" => "the rest of the round trip is the bottleneck's";
    };
    choices.extend(application());
    choices.extend(transports());
    choices
}

/// Returns the choices about streamer and player.
fn application() -> Vec<Choice> {
    setup! {
        paper "media": "a packet of 1000 bytes is a frame; the rate is the gap between them"
            => "§4: \"we only vary the inter-packet gap\"";
        ours "marked packets": "every {}th", server::MARKED
            => "the paper has marked packets, and does not say which; an I-frame in each half second of 24 a second";
        ours "streamer and player": "the control loop of Goddard's source: pair, buffer, play; a level down for \
            losses, all that is needed for an empty buffer, a level up after a quiet step"
            => "the paper took it as it was; what its source only meant to do (its congestion flag is never set) is \
            done here";
        ours "packet pair": "beside the stream, by UDP; asked for again after 1 s"
            => "through TFRC's pace it would tell of that, not of the link";
        ours "requests of the player": "on the stream's own connection (over DCCP by CCID 2), said again after 1 s \
            without an answer" => "Goddard has a connection of its own for them; the way back is not congested";
        ours "losses": "a level down beyond {} % of at least {} s, if less comes than the level needs",
            100.0 * player::INTOLERABLE, player::MONITORED.as_secs_f64() => "§2.1: \"a pre-defined threshold\"";
        ours "a level up": "after {} s below {} % loss, if a pair ever told of so much; not to where the buffer ran \
            empty, for twice as long", player::STEP.as_secs_f64(), 100.0 * player::TOLERABLE
            => "30 s is what Goddard's published scripts have";
        ours "while the buffer fills": "{} packets for every {} that play", HASTE.0, HASTE.1
            => "Goddard sends faster then. By table 1 a second of media takes 0.82 s at least (0.39 % of 210 s)";
        ours "while the link is probed": "nothing is made; the media wait"
            => "§4.1: \"Packet transmission is stopped until a new streamed bit rate is decided\"";
        ours "time spent buffering": "from the player's first request, and from each instant at which the buffer is \
            empty, until it plays; of 210 s"
            => "the paper counts the state \"buffering\"; the probe after an empty buffer is counted here, too";
        ours "a lost frame": "its time passes like any other's"
            => "nothing comes in its place, and the media's clock goes on";
    }
}

fn transports() -> Vec<Choice> {
    setup! {
        paper "under DBAT": "TFRC" => "§4";
        ours "TFRC": "DCCP's CCID 3" => "loss events are found at the receiver, as in ns-2";
        ours "TCP": "the streams' and all others': as RFC 6582 has it, without SACK, RACK and tail loss probes, two \
            segments at first, each acknowledged, windows of 20 segments, of 536 bytes, and in dbat-buffering of the \
            paper's 1 kB; and beside it today's: NewReno with SACK, no timestamps, no ECN" => "§4 has ns-2's full TCP, and says of its send buffer alone that it \
            was made adjustable: so all else is ns-2's, by its source";
        ours "DBAT": "`policy=dbat` of the tool with all its defaults, told of room, too; and beside it with the library's \
            settings for a source of a few rates: thresholds within three quarters of the send buffer, giving up no \
            more than what is beyond Max_Th (`DropRule::Excess`), and sparing what a higher rate has left \
            (`spare_what_remains`); and to the letter of figure 5 and of §3.2, where only the player asks for more, and \
            TFRC keeps between the stream's rate, as far as the equation allows, and a quarter more"
            => "told of a queue, the streamer takes the highest rate that fits into the advice; told of room for a \
            second, the next one if the path carries it, and after one that did not stay for 8 s it waits twice as \
            long, up to 16 s: as Timeous's own sources of a few rates do (`Ladder`), and not a rule of this \
            experiment's";
        ours "web traffic": "5 users; pages of five objects in the mean, 12 kB each (Pareto, 1.2, at most 1 MB), 10 s \
            between pages" => "ns-2's empirical traffic is not described; this is a sixth of the link, or less";
        ours "fair share": "half of what stream and FTP have together from 30 to 200 s"
            => "what web traffic takes is neither's";
    }
}

/// Returns notes on where the order differs from the paper's, and on attempts to explain it.
pub(crate) fn notes() -> Vec<String> {
    vec![
        "The paper's row of TCP may be one of its simulator's application. Here TCP's buffer seldom runs empty: with packets of 1 kB, seed 1, never \
         at 150 and 450 ms, and its time is that of the start. What its send buffer refuses is lost, and the player can see that and take a lower \
         rate. In ns-2 it cannot: TcpApp notes what is written before the agent has taken it, and its peer counts bytes, so that the \
         player gets without a gap the oldest that it has not got, ever later (§4.1: \"TCP hides the packet loss information\"). With that \
         alone added TCP buffers 8 to 16 % of the time at 150 ms and 9 to 43 % at 450 ms, about the paper's size (dbat-buffering). That the authors' full TCP \
         left TcpApp as it is agrees with their text, and is not known; at 20 ms it does not fit, where the paper has 0.39 %, the time in which a second of \
         media comes at the least, and that makes 3 to 30."
            .to_owned(),
        "The paper's TCP is ns-2's. With today's in its place the orders turn: of buffering at 150 and at 450 ms, of latency and of losses. \
         Where today's has no SACK, no RACK and no tail loss probes and starts with two segments, and nothing else is otherwise, they are the paper's \
         again in the mean (\"no SACK, RACK, probes; starts with 2\"). TCP stalls then, a round trip for each loss or a timeout, while \
         its send buffer overflows."
            .to_owned(),
        "Beside today's TCP the time that TFRC buffers at 150 and 450 ms is all start-up: a packet pair tells of the link's rate and not of a share, so that the \
         stream begins at 960 or 640 kbit/s, and TFRC begins with four packets a round trip where TCP has ten. At \
         150 ms the order is the paper's where the stream begins at 240 kbit/s."
            .to_owned(),
        "TFRC is later than today's TCP, and loses more, for reasons that are taken away one at a time in dbat-latency and dbat-loss. The \
         beginning: where the stream begins at 240 kbit/s, TFRC's p99 is the nearer one to its \
         median, and more than half of what either loses is gone. The send buffer: TCP's 64 packets hold what is under way, too, TFRC's \
         do not, and a full one is that much longer; where TFRC's does as well, its p99 is the nearer one. The player, which asks for more \
         every 30 s, and fills TFRC's buffer each time: without this and that beginning TCP loses nothing, and TFRC some forty packets: what is lost \
         under way TCP sends again."
            .to_owned(),
        "Beside FTP over today's TCP DBAT takes what TFRC allows, and climbs by itself: where the player never asks for more and the stream begins low, it \
         has much more than both others (dbat-throughput). As it is they keep the send buffer full each time that the player asks for too \
         much, and have so all that TCP or TFRC gives, at the price of losses and seconds of delay. DBAT goes down to what \
         TFRC allows in its first seconds, a tenth of the link; loss intervals are counted in packets, of which there are few then, and \
         for half a minute TFRC does not allow the next rate."
            .to_owned(),
        "By the letter of figure 5, Max_Th is 108 kB at 960 kbit/s and 450 ms: the send buffer of 64 kB overflows before anybody \
         is told, and DBAT does nothing; nor does `policy=dbat` there, whose ring holds more in the tool (`maxth=48k` keeps the thresholds \
         within such a buffer, as the settings for few rates do)."
            .to_owned(),
        "Of runs of ten and more DBAT has some, and TFRC hardly any: what is too much goes at once, oldest first, and the eleven \
         between two marked packets follow each other."
            .to_owned(),
        "A stream that keeps the send buffer full has all of TFRC's rate: with the player's losses ignored, TFRC and TCP had 1.0 \
         of their fair share. One that fits has less, since the next higher rate is a half or twice as much, and a sender that \
         is limited by its data leaves the rest to FTP."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_twice_the_product() {
        assert_eq!(RTTS.map(queue), [5, 36, 108]);
    }
}
