//! Command line of `timeous recv`.

use clap::Args;
use timeous::core::Duration;
use timeous::core::units::parse_duration;

use crate::meter::MeterArgs;
use crate::output::SinkArgs;

/// Receives live H.264 video
///
/// URI is timeous://:port?latency=…, or udp://:port for RTP without congestion control. SINK is a file (raw H.264, or
/// MP4 if its name ends with .mp4), '-' for standard output, or udp://host:port for RTP to a player. Only frames that
/// are whole, decodable and in time are written, at a constant delay after their capture. It goes on until it is
/// interrupted, over breaks of the path and restarts of the sender, one caller after another (with reconnect=off in
/// the URI, for one stream); with %n in the name of the file, any number of callers at once, each with a file of its own.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::help::uri_and_exit_codes())]
pub(crate) struct RecvArgs {
    /// Where the video comes from
    pub(crate) uri: String,
    /// Where it goes
    pub(crate) sink: String,
    /// With udp://: the time from capture to playout
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    pub(crate) latency: Duration,
    /// Give frames out as soon as they can be decoded: playout=immediate in the URI says the same
    #[arg(long)]
    pub(crate) immediate: bool,
    /// With udp://: the RTP payload type, where it is not the first dynamic one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=127))]
    pub(crate) pt: Option<u8>,
    /// Write a line for each frame to this CSV file: its times, and what became of it
    #[arg(long, value_name = "FILE")]
    pub(crate) frames: Option<String>,
    #[command(flatten)]
    pub(crate) sink_args: SinkArgs,
    #[command(flatten)]
    pub(crate) meter: MeterArgs,
}
