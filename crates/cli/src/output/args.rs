//! Command line options of a sink.

use clap::Args;
use timeous::core::Rate;
use timeous::core::units::parse_rate_within;

/// Options of a sink.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SinkArgs {
    /// Overwrite SINK if it is an existing file
    ///
    /// Without this option, an existing file is an error. A name with %n never is one: %n becomes the next free number,
    /// starting at 1, as in 'call-%n.mp4'.
    #[arg(long)]
    pub(super) overwrite: bool,
    /// With a SINK udp://host:port: write a session description (SDP) for players to this file
    ///
    /// It is written once the first parameter sets have come, and again when they change; an existing description is
    /// replaced. A player reads it by 'ffplay -protocol_whitelist file,udp,rtp -i FILE'.
    #[arg(long, value_name = "FILE")]
    pub(super) sdp: Option<String>,
    /// Constant bitrate of MPEG-TS that is written, such as 6M: null packets fill it, and the program clock follows the place in the stream
    ///
    /// For decoders and modulators that need one. It must be above the rate of the stream; a keyframe above it delays what follows.
    #[arg(long, value_name = "RATE", value_parser = parse_bitrate)]
    pub(super) bitrate: Option<Rate>,
}

impl SinkArgs {
    /// File of the session description.
    pub(crate) fn sdp_file(&self) -> Option<&str> {
        self.sdp.as_deref()
    }
}

fn parse_bitrate(text: &str) -> Result<Rate, String> {
    parse_rate_within(text, "10k", "1G")
}
