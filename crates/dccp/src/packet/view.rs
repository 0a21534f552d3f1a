//! A parsed packet that borrows from its datagram.

use super::header::Header;
use crate::options::Options;

/// A parsed packet that borrows from its datagram.
///
/// ```
/// use timeous_dccp::{Body, Encapsulation, Header, Opt, Packet, Seq, ServiceCode, packet};
/// let header = Header::new(5001, 5002, Seq::new(7), Body::Request { service: ServiceCode::from_bytes(*b"fdpz") });
/// let mut datagram = Vec::new();
/// let start = packet::begin(&header, &[Opt::SlowReceiver], &mut datagram)?;
/// datagram.extend_from_slice(b"hello");
/// packet::finish(&mut datagram, start, Encapsulation::Udp)?;
///
/// let parsed = Packet::parse(&datagram, Encapsulation::Udp)?;
/// assert_eq!(parsed.header, header);
/// assert_eq!(parsed.options().next().unwrap()?.opt, Opt::SlowReceiver);
/// assert_eq!(parsed.payload, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// The header without its options.
    pub header: Header,
    /// Option part, padding included; read it with [`Packet::options`].
    pub options: &'a [u8],
    /// The application data area.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses the options.
    pub const fn options(&self) -> Options<'a> {
        Options::new(self.options, self.header.packet_type())
    }
}
