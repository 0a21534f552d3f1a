//! RTP over plain UDP, for comparison: no handshake, congestion control or late choice.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use serde::Serialize;
use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::failure::Failure;
use crate::input::bind;

/// Statistics of plain UDP; deliveries are unknown.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlainStats {
    /// Packets sent.
    pub(crate) pkt_sent_total: u64,
    /// Bytes of RTP sent.
    pub(crate) byte_sent_total: u64,
    /// Packets received.
    pub(crate) pkt_recv_total: u64,
    /// Bytes of RTP received.
    pub(crate) byte_recv_total: u64,
}

impl PlainStats {
    /// Formats them for a terminal.
    pub(crate) fn line(&self) -> String {
        let Self { pkt_sent_total, byte_sent_total, pkt_recv_total, byte_recv_total } = self;
        let (packets, bytes) = (pkt_sent_total + pkt_recv_total, byte_sent_total + byte_recv_total);
        format!("plain RTP: {packets} packets, {} kB", bytes / 1000)
    }
}

/// Sender at a constant rate.
pub(crate) struct PlainSender {
    socket: UdpSocket,
    to: SocketAddr,
    stats: PlainStats,
    next: Instant,
}

/// Time over which the packets of a frame are spread: slightly below the frame interval at 30 per second, so that no
/// queue builds up.
const SPREAD: Duration = Duration::from_millis(30);
/// Usual payload size of RTP over UDP on Ethernet, in bytes.
const LARGEST: usize = 1_200;

impl PlainSender {
    /// Creates a sender to this address.
    pub(crate) fn new(to: SocketAddr) -> Result<Self, Failure> {
        let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = bind(SocketAddr::new(any, 0))?;
        Ok(Self { socket, to, stats: PlainStats::default(), next: clock::now() })
    }

    /// Largest RTP packet, in bytes.
    pub(crate) fn largest(&self) -> usize {
        LARGEST
    }

    /// Sends one of the `of` packets of a frame, paced; returns its send time.
    #[expect(clippy::disallowed_methods, reason = "the packets of a frame are spread over its time by waiting")]
    pub(crate) fn send(&mut self, rtp: &[u8], of: usize) -> Result<Instant, Failure> {
        let now = clock::now();
        self.next = self.next.max(now);
        std::thread::sleep(self.next.saturating_since(now).into());
        self.next += SPREAD / of.max(1) as u64;
        match self.socket.send_to(rtp, self.to) {
            Ok(_) => {}
            // ICMP reports that no program listens there (yet), which UDP may ignore.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(Failure::file(&format!("udp://{}", self.to), &error)),
        }
        self.stats.pkt_sent_total += 1;
        self.stats.byte_sent_total += rtp.len() as u64;
        Ok(clock::now())
    }

    /// Statistics so far.
    pub(crate) fn stats(&self) -> &PlainStats {
        &self.stats
    }
}

/// Receiver that ends after a silence.
pub(crate) struct PlainReceiver {
    socket: UdpSocket,
    buffer: Vec<u8>,
    stats: PlainStats,
    heard: Option<Instant>,
}

/// Silence that ends the stream, since plain RTP has no end of stream.
const SILENCE: Duration = Duration::from_secs(3);

impl PlainReceiver {
    /// Creates a receiver at this address.
    pub(crate) fn new(local: SocketAddr) -> Result<Self, Failure> {
        Ok(Self { socket: bind(local)?, buffer: vec![0; 1 << 16], stats: PlainStats::default(), heard: None })
    }

    /// Returns the next packet, if one comes before `deadline`.
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Option<(&[u8], Instant)>, Failure> {
        let wait = deadline.saturating_since(clock::now()).max(Duration::from_millis(1));
        let broken = |error: &io::Error| Failure::file("the socket", error);
        self.socket.set_read_timeout(Some(wait.into())).map_err(|error| broken(&error))?;
        match self.socket.recv(&mut self.buffer) {
            Ok(len) => {
                let now = clock::now();
                self.heard = Some(now);
                self.stats.pkt_recv_total += 1;
                self.stats.byte_recv_total += len as u64;
                Ok(Some((&self.buffer[..len], now)))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(broken(&error)),
        }
    }

    /// Whether the stream has ended, by silence.
    pub(crate) fn has_ended(&self) -> bool {
        self.heard.is_some_and(|at| clock::now().saturating_since(at) > SILENCE)
    }

    /// Statistics so far.
    pub(crate) fn stats(&self) -> &PlainStats {
        &self.stats
    }
}
