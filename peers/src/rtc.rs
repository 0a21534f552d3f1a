//! WebRTC media by str0m: an RTP packet a datagram, paced by its bandwidth estimate, NACK and RTX on. There is no signalling:
//! both ends are told the same things. The application is one whose encoder cannot be asked: it gives up whole frames while
//! more waits in the pacer than the estimate carries within the deadline, and what refers to them.

use std::collections::BTreeSet;
use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use str0m::bwe::{Bitrate, BweKind};
use str0m::format::Codec;
use str0m::ice::IceCreds;
use str0m::media::{MediaKind, Mid, Pt};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{RtpWrite, Ssrc};
use str0m::{Candidate, Event, IceConnectionState, Input, Output, Rtc};
use tokio::net::UdpSocket;
use tokio::time::timeout;

const MEDIA: u32 = 42;
const RESENT: u32 = 44;
/// A session begins with this estimate, as libwebrtc's does.
const START: Bitrate = Bitrate::kbps(300);
const LARGEST: usize = 1 << 16;
/// The caller's port, which the other end has to know without signalling.
const CALLER: &str = "10.77.0.1:7003";

fn creds(word: &str) -> IceCreds {
    IceCreds { ufrag: word.to_owned(), pass: format!("{word}-{word}-{word}-{word}") }
}

/// One end: its socket across the link, and what waits to be done.
struct End {
    rtc: Rtc,
    socket: UdpSocket,
    own: SocketAddr,
    mid: Mid,
}

impl End {
    async fn open(own: SocketAddr, there: SocketAddr, calls: bool) -> Result<Self, Box<dyn Error>> {
        let config = Rtc::builder().set_rtp_mode(true).set_fingerprint_verification(false);
        let config = if calls { config.enable_bwe(Some(START)) } else { config };
        let mut rtc = config.build(Instant::now());
        rtc.add_local_candidate(Candidate::host(own, "udp")?);
        rtc.add_remote_candidate(Candidate::host(there, "udp")?);
        let [ours, theirs] = if calls { ["caller", "called"] } else { ["called", "caller"] };
        let mid: Mid = "vid".into();
        let (media, resent): (Ssrc, Ssrc) = (MEDIA.into(), RESENT.into());
        let mut api = rtc.direct_api();
        api.set_local_ice_credentials(creds(ours));
        api.set_remote_ice_credentials(creds(theirs));
        let known = api.local_dtls_fingerprint().clone();
        // Any: it is not verified.
        api.set_remote_fingerprint(known);
        api.set_ice_controlling(calls);
        api.start_dtls(calls)?;
        api.declare_media(mid, MediaKind::Video);
        if calls {
            api.declare_stream_tx(media, Some(resent), mid, None);
        } else {
            api.expect_stream_rx(media, Some(resent), mid, None);
            api.enable_twcc_feedback();
        }
        Ok(Self { rtc, socket: UdpSocket::bind(own).await?, own, mid })
    }

    /// Does what is due: sends, and gives events. When to look again.
    async fn drive(&mut self, mut hear: impl FnMut(Event)) -> Result<Instant, Box<dyn Error>> {
        loop {
            match self.rtc.poll_output()? {
                // A full device: one more that is lost.
                Output::Transmit(packet) => drop(self.socket.send_to(&packet.contents, packet.destination).await),
                Output::Event(Event::IceConnectionStateChange(IceConnectionState::Disconnected)) => {
                    return Err("nobody answers".into());
                }
                Output::Event(event) => hear(event),
                Output::Timeout(at) => return Ok(at),
            }
        }
    }

    fn take(&mut self, bytes: &[u8], source: SocketAddr) -> Result<(), Box<dyn Error>> {
        // Packets of no session are ignored.
        if let Ok(contents) = bytes.try_into() {
            let receive = Receive { proto: Protocol::Udp, source, destination: self.own, contents };
            self.rtc.handle_input(Input::Receive(Instant::now(), receive))?;
        }
        Ok(())
    }

    fn wake(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(self.rtc.handle_input(Input::Timeout(Instant::now()))?)
    }
}

fn until(at: Instant) -> Duration {
    at.saturating_duration_since(Instant::now())
}

/// Waits to be called, and gives what comes to an address.
pub(crate) async fn receive(listen: SocketAddr, to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut end = End::open(listen, CALLER.parse()?, false).await?;
    let out = UdpSocket::bind("127.0.0.1:0").await?;
    let mut bytes = vec![0; LARGEST];
    loop {
        let mut came = Vec::new();
        let due = end
            .drive(|event| {
                if let Event::RtpPacket(packet) = event {
                    came.push(packet.payload.clone());
                }
            })
            .await?;
        for payload in came {
            // Nobody listens any more: the run is over.
            let _ = out.send_to(&payload, to).await;
        }
        match timeout(until(due), end.socket.recv_from(&mut bytes)).await {
            Ok(heard) => {
                let (len, source) = heard?;
                end.take(&bytes[..len], source)?;
            }
            Err(_) => end.wake()?,
        }
    }
}

/// Calls, and sends what comes at an address; `rate` is the stream's.
pub(crate) async fn send(
    from: SocketAddr,
    there: SocketAddr,
    rate: u64,
    deadline: Duration,
) -> Result<(), Box<dyn Error>> {
    let mut end = End::open(CALLER.parse()?, there, true).await?;
    end.rtc.bwe().set_desired_bitrate(Bitrate::bps(rate));
    let source = UdpSocket::bind(from).await?;
    let payload = end.rtc.codec_config().find(|params| params.spec().codec == Codec::Vp8).map(|params| params.pt());
    let mut media = Media {
        payload: payload.ok_or("str0m has no VP8")?,
        sequence: 1,
        begin: Instant::now(),
        estimate: START.as_f64(),
        deadline,
        broken: BTreeSet::new(),
        open: false,
    };
    let (mut bytes, mut datagram) = (vec![0; LARGEST], vec![0; LARGEST]);
    loop {
        let due = end.drive(|event| media.hear(&event)).await?;
        tokio::select! {
            heard = end.socket.recv_from(&mut bytes) => {
                let (len, source) = heard?;
                end.take(&bytes[..len], source)?;
            }
            taken = source.recv(&mut datagram) => {
                let len = taken?;
                media.write(&mut end, &datagram[..len]);
                end.wake()?;
            }
            () = tokio::time::sleep(until(due)) => end.wake()?,
        }
    }
}

/// State of the stream in the application.
struct Media {
    payload: Pt,
    sequence: u64,
    begin: Instant,
    estimate: f64,
    deadline: Duration,
    /// Frames that were given up, or refer to one that was.
    broken: BTreeSet<u64>,
    open: bool,
}

impl Media {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Connected => self.open = true,
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => self.estimate = estimate.as_f64(),
            _ => {}
        }
    }

    fn write(&mut self, end: &mut End, datagram: &[u8]) {
        if !self.open {
            return;
        }
        let mid = end.mid;
        let mut api = end.rtc.direct_api();
        let Some(stream) = api.stream_tx_by_mid(mid, None) else { return };
        let waiting = stream.queue_info().map_or(0, |queue| queue.byte_size());
        if let Some(frame) = Frame::of(datagram) {
            let late = frame.first && waiting as f64 * 8.0 / self.estimate > self.deadline.as_secs_f64();
            if late || frame.references.iter().any(|id| self.broken.contains(id)) {
                self.broken.insert(frame.id);
            }
            if self.broken.contains(&frame.id) {
                return;
            }
        }
        let now = Instant::now();
        let ticks = (now.duration_since(self.begin).as_secs_f64() * 90_000.0) as u32;
        let rtp = RtpWrite::new(self.payload, self.sequence.into(), ticks, now, datagram.to_vec());
        stream.write_rtp(rtp.nackable(true));
        self.sequence += 1;
    }
}

/// Header of a datagram, as far as this application needs it: see `datagram` of timeous-peer-trials.
struct Frame {
    id: u64,
    first: bool,
    references: Vec<u64>,
}

impl Frame {
    fn of(datagram: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(datagram.strip_prefix(b"TIMEOUS:")?.get(..67)?).ok()?;
        let number = |from: usize, digits: usize| u64::from_str_radix(text.get(from..from + digits)?, 16).ok();
        let references = (0..4).map(|i| number(35 + 8 * i, 8)).collect::<Option<Vec<_>>>()?;
        let references = references.into_iter().filter(|id| *id != 0).collect();
        Some(Self { id: number(0, 8)?, first: number(8, 4)? == 0, references })
    }
}
