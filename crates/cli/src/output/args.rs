//! Options of a sink.

use clap::Args;

/// How the sink is written.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SinkArgs {
    /// Overwrite the SINK if it is a file that exists
    ///
    /// Without it, a file that exists is an error. A name with %n is never one: %n becomes the next free number, from 1
    /// on, as in 'call-%n.mp4'.
    #[arg(long)]
    pub(super) overwrite: bool,
    /// With a SINK udp://host:port: write a session description (SDP) to this file, from which players learn the stream
    ///
    /// It is written when the first parameter sets have come, and again when they change; a description that is there
    /// already is replaced. A player reads it by 'ffplay -protocol_whitelist file,udp,rtp -i FILE'.
    #[arg(long, value_name = "FILE")]
    pub(super) sdp: Option<String>,
}
