//! Questions by UDP: DCCP Requests for a service that nobody offers, of different sizes and ECN fields.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use timeous::clock;
use timeous::core::{Duration, Ecn};
use timeous_dccp::{Body, Encapsulation, Header, Packet, ResetReason, Seq, ServiceCode, packet};
use timeous_engine::udp;

use super::finding::{Finding, Verdict, wait_for};
use crate::random::words;

/// Property: datagrams of UDP reach the host.
pub(super) const UDP: &str = "UDP";

/// Times that a question is repeated.
const TRIES: u32 = 3;
/// Largest IP packet that is tried, in bytes: jumbo frames.
const LARGEST: usize = 9216;
/// Smallest IP packet that is tried, in bytes; every host takes it (RFC 791).
const SMALLEST: usize = 576;

/// Findings by UDP.
#[derive(Debug)]
pub(super) struct Answers {
    /// Anything was answered.
    pub(super) is_heard: bool,
    /// A DCCP listener has answered.
    pub(super) is_dccp: bool,
    pub(super) rtt: Option<Duration>,
    /// Largest IP packet that passes, in bytes.
    pub(super) mtu: Option<usize>,
    pub(super) findings: Vec<Finding>,
}

/// Answer to a Request.
enum Answer {
    Reset {
        /// The Request's ECN field when it arrived, if the peer tells it.
        there: Option<Ecn>,
        /// The answer's.
        back: Ecn,
        rtt: Duration,
    },
    /// A datagram of the port that is no Reset: another service than a DCCP listener has it.
    Other {
        /// Description of the answer.
        said: String,
        rtt: Duration,
    },
    /// No socket has the UDP port.
    Unreachable,
    /// This host does not send so large a packet.
    TooLarge,
    Silence,
}

struct Socket {
    socket: udp::Socket,
    remote: SocketAddr,
    wait: Duration,
    /// Number of the next Request.
    seq: Seq,
    /// ECN field of Requests that ask for something else.
    ecn: Ecn,
}

/// Asks all questions.
pub(super) fn ask(remote: SocketAddr, wait: Duration) -> io::Result<Answers> {
    let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = udp::Socket::bind((any, 0).into())?;
    socket.report_refusals(true)?;
    let [high, low] = words().map_err(|error| io::Error::other(error.to_string()))?;
    let seq = Seq::new(u64::from(high) << 16 | u64::from(low & 0xffff));
    let mut socket = Socket { socket, remote, wait, seq, ecn: Ecn::Ect0 };
    let (udp, dccp) =
        (|verdict, why| Finding::new(UDP, verdict, why), |verdict, why| Finding::new("DCCP in UDP", verdict, why));
    let mut answers = Answers { is_heard: true, is_dccp: false, rtt: None, mtu: None, findings: Vec::new() };
    let mut first = socket.ask(0, socket.ecn)?;
    if matches!(first, Answer::Silence) {
        // Some paths let no packet with an ECN field pass.
        socket.ecn = Ecn::NotEct;
        first = socket.ask(0, socket.ecn)?;
    }
    match first {
        Answer::Reset { rtt, .. } => {
            answers.rtt = Some(rtt);
            answers.is_dccp = true;
            answers.findings.push(udp(Verdict::Yes, "the host answers"));
            answers.findings.push(dccp(Verdict::Yes, "a listener answers"));
        }
        Answer::Other { said, rtt } => {
            answers.rtt = Some(rtt);
            answers.findings.push(Finding::new(UDP, Verdict::Yes, said));
            answers.findings.push(dccp(Verdict::Unknown, "another service has the port"));
            return Ok(answers);
        }
        Answer::Unreachable => {
            answers.findings.push(udp(Verdict::Yes, "it reaches the host, which has no such port"));
            answers.findings.push(dccp(Verdict::Unknown, "there is no listener"));
            return Ok(answers);
        }
        Answer::TooLarge | Answer::Silence => {
            answers.is_heard = false;
            answers.findings.push(udp(Verdict::Unknown, "no answer: blocked, or a service that does not answer DCCP"));
            answers.findings.push(dccp(Verdict::Unknown, "no answer"));
            return Ok(answers);
        }
    }
    answers.findings.extend(socket.ecn_fields()?);
    let mtu = socket.largest()?;
    answers.mtu = mtu;
    answers.findings.push(match mtu {
        Some(mtu) if mtu >= LARGEST => {
            Finding::new("packets of 1500 bytes", Verdict::Yes, format!("{mtu} bytes of IP, and perhaps more"))
        }
        Some(mtu) => {
            let verdict = if mtu >= 1500 { Verdict::Yes } else { Verdict::No };
            Finding::new("packets of 1500 bytes", verdict, format!("at most {mtu} bytes of IP pass"))
        }
        None => Finding::new("packets of 1500 bytes", Verdict::No, format!("not even {SMALLEST} bytes of IP pass")),
    });
    Ok(answers)
}

impl Socket {
    /// Sends a Request with `padding` bytes of data until it is answered.
    fn ask(&mut self, padding: usize, ecn: Ecn) -> io::Result<Answer> {
        for _ in 0..TRIES {
            self.seq = self.seq.next();
            let sent = clock::now();
            let mut request = Vec::new();
            let body = Body::Request { service: ServiceCode::PROBE };
            let header = Header::new(self.socket.local_addr()?.port(), self.remote.port(), self.seq, body);
            let start = packet::begin(&header, &[], &mut request).map_err(io::Error::other)?;
            request.resize(request.len() + padding, 0);
            packet::finish(&mut request, start, Encapsulation::Udp).map_err(io::Error::other)?;
            let packet = udp::Packet { to: self.remote, from: None, ecn, header: &request, payload: None };
            let mut refused = None;
            self.socket.send(&[packet], |_, result| refused = result.err().map(io::Error::raw_os_error));
            match refused.flatten() {
                Some(code) if code == rustix::io::Errno::MSGSIZE.raw_os_error() => return Ok(Answer::TooLarge),
                Some(code) if code == rustix::io::Errno::CONNREFUSED.raw_os_error() => return Ok(Answer::Unreachable),
                _ => {}
            }
            while wait_for(&self.socket, false, sent + self.wait)? {
                if let Some(answer) = self.hear(sent) {
                    return Ok(answer);
                }
            }
        }
        Ok(Answer::Silence)
    }

    /// Reads the answer to the latest Request, if it has come.
    fn hear(&mut self, sent: timeous::core::Instant) -> Option<Answer> {
        let (remote, seq) = (self.remote, self.seq);
        let mut answer = None;
        let received = self.socket.receive(sent, |now, way, meta, datagram| {
            if way.from != remote {
                return;
            }
            let rtt = now.saturating_sub(meta.waited) - sent;
            match Packet::parse(datagram, Encapsulation::Udp).map(|packet| packet.header.body) {
                Ok(Body::Reset { ack, code, data }) if ack == seq => {
                    let there = ResetReason { code, data }.told_ecn();
                    answer = Some(Answer::Reset { there, back: meta.ecn, rtt });
                }
                // A late answer to an earlier Request.
                Ok(Body::Reset { .. }) => {}
                found => {
                    let said = match found {
                        Ok(Body::Request { service: ServiceCode::PROBE }) => {
                            "the host sends back what it gets".to_owned()
                        }
                        _ => format!("a service answers with {} bytes", datagram.len()),
                    };
                    answer.get_or_insert(Answer::Other { said, rtt });
                }
            }
        });
        let mut is_unreachable = received.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        self.socket.receive_refusals(|_, _| is_unreachable = true);
        answer.or_else(|| is_unreachable.then_some(Answer::Unreachable))
    }

    /// Asks with each ECN field.
    fn ecn_fields(&mut self) -> io::Result<[Finding; 2]> {
        let finding = |way, (verdict, why): (Verdict, String)| Finding::new(way, verdict, why);
        let ways = ["ECN, to the host", "ECN, from the host"];
        if self.ecn == Ecn::NotEct {
            let there = (Verdict::No, "packets with an ECN field vanish".to_owned());
            let back = (Verdict::Unknown, "only packets with an ECN field would be answered so".to_owned());
            return Ok([finding(ways[0], there), finding(ways[1], back)]);
        }
        let (mut told, mut changed, mut came) = (0, Vec::new(), Vec::new());
        for (ecn, name) in [(Ecn::Ect0, "ECT(0)"), (Ecn::Ect1, "ECT(1)"), (Ecn::Ce, "CE")] {
            match self.ask(0, ecn)? {
                Answer::Reset { there, back, .. } => {
                    told += u32::from(there.is_some());
                    if there.is_some_and(|there| there != ecn) {
                        changed.push(name);
                    }
                    came.push(back);
                }
                Answer::Other { .. } | Answer::Unreachable | Answer::TooLarge | Answer::Silence => {
                    changed.push(name);
                }
            }
        }
        let there = match (told, &changed[..]) {
            (0, []) => (Verdict::Unknown, "the listener does not tell".to_owned()),
            (_, []) => (Verdict::Yes, "ECT(0), ECT(1) and CE arrive as they were sent".to_owned()),
            (_, changed) => (Verdict::No, format!("changed or lost on the way: {}", changed.join(", "))),
        };
        let back = match (told, came.contains(&Ecn::NotEct)) {
            _ if came.is_empty() => (Verdict::Unknown, "no answer".to_owned()),
            (0, true) => (Verdict::Unknown, "the listener may not set it".to_owned()),
            (_, true) => (Verdict::No, "erased on the way".to_owned()),
            (_, false) if came.contains(&Ecn::Ce) => (Verdict::Yes, "it arrives, and is marked on the way".to_owned()),
            (_, false) => (Verdict::Yes, "ECT(0) arrives".to_owned()),
        };
        Ok([finding(ways[0], there), finding(ways[1], back)])
    }

    /// Returns the size of the largest IP packet that passes, in bytes.
    fn largest(&mut self) -> io::Result<Option<usize>> {
        let ip = if self.remote.is_ipv4() { 20 } else { 40 };
        // IP, UDP, and the Request's header (RFC 4340 §5.6).
        let headers = ip + 8 + 20;
        let mut passes =
            |size: usize| Ok::<_, io::Error>(matches!(self.ask(size - headers, self.ecn)?, Answer::Reset { .. }));
        if passes(LARGEST)? {
            return Ok(Some(LARGEST));
        }
        // What most paths have needs no search.
        let (mut passing, mut failing) = match () {
            () if passes(1500)? => (1500, LARGEST),
            () if passes(SMALLEST)? => (SMALLEST, 1500),
            () => return Ok(None),
        };
        while failing - passing > 1 {
            let middle = passing + (failing - passing) / 2;
            if passes(middle)? { passing = middle } else { failing = middle }
        }
        Ok(Some(passing))
    }
}
