//! Command line of `timeous recv`.

use clap::Args;
use timeous::core::Duration;
use timeous::core::units::parse_duration_within;

use crate::meter::MeterArgs;
use crate::output::SinkArgs;

/// Receives live H.264 video, MPEG-TS with audio, or RTP of any codec
///
/// URI is timeous://:port?latency=…, or udp://:port for RTP without congestion control. SINK is a file (raw H.264, or
/// MP4 if its name ends with .mp4; MPEG-TS if that is sent), '-' for standard output, or udp://host:port for RTP, or MPEG-TS, to a player,
/// or a file .sdp, which describes RTP to free ports of this host. Only frames that
/// are complete, decodable and in time are written, at a constant delay after their capture. It runs until interrupted,
/// over path failures and restarts of the sender, one caller after another (with reconnect=off in the URI, for one
/// stream); with %n in the file name, for any number of callers at once, each with its own file.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::help::uri_and_exit_codes())]
pub(crate) struct RecvArgs {
    /// Source of the video
    pub(crate) uri: String,
    /// Destination of the video
    pub(crate) sink: String,
    /// With udp://: the delay from capture to playout [default: 300ms]
    #[arg(long, value_name = "TIME", value_parser = latency)]
    pub(crate) latency: Option<Duration>,
    /// Release frames as soon as they can be decoded, like playout=immediate in the URI
    #[arg(long)]
    pub(crate) immediate: bool,
    /// With udp://: the RTP payload type, if it is not the first dynamic one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=127))]
    pub(crate) pt: Option<u8>,
    /// Write a line for each frame to this CSV file, with its times and outcome
    #[arg(long, value_name = "FILE")]
    pub(crate) frames: Option<String>,
    #[command(flatten)]
    pub(crate) sink_args: SinkArgs,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
}

/// Parses a latency as in the URI.
fn latency(text: &str) -> Result<Duration, String> {
    parse_duration_within(text, "0", "1h")
}
