//! MPEG-2 transport streams (ISO/IEC 13818-1) as ADUs: whole PES packets are given up, never parts; RTP payload type 33 (RFC 2250).

mod constant;
mod continuous;
mod datagrams;
pub(crate) mod demux;
mod descriptor;
pub(crate) mod packet;
mod packetize;
pub(crate) mod pes_clock;
mod playout;
mod psi;
mod reader;
pub(crate) mod section;
mod spread;
mod stream;
#[cfg(test)]
mod tests;
mod unit;
mod whole_pes;

pub use constant::ConstantRate;
pub use continuous::ContinuousTimes;
pub use datagrams::TsDatagrams;
pub use packet::{PACKET_LEN, is_transport_stream};
pub use packetize::{TS_PAYLOAD_TYPE, TsPacketizer, packets_of};
pub use playout::{TsOutput, TsPlayout, TsRelease};
pub use reader::{TsCounts, TsReader};
pub use spread::Spread;
pub use stream::{StreamKind, TsStream};
pub use unit::TsUnit;
pub use whole_pes::WholePes;
