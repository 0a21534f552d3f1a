//! Questions by TCP: how far the host is, and what becomes of a retransmission with other bytes (McQuistin §4.2).

use std::io;
use std::net::{IpAddr, SocketAddr};

use timeous::clock;
use timeous::core::Duration;
use timeous_kernel_tcp::{TRIAL_LEN, Trial, trial_bytes};

use super::finding::{Finding, Verdict, wait_for};

/// Property: connections of TCP.
const TCP: &str = "TCP";
/// Property: a Timeous receiver has the port of TCP.
const TIMEOUS: &str = "Timeous over TCP";
/// Property: changed retransmissions.
pub(super) const CHANGES: &str = "changed retransmissions";

/// Trials of changed retransmissions. Chosen by us: one alone may fail by chance where packets are lost.
const TRIALS: u32 = 3;
/// Largest number of hops that is looked for.
const MOST_HOPS: u8 = 64;
/// Time for a segment to leave this host before its bytes are changed. Chosen by us: a retransmission follows 200 ms later
/// or more.
const DEPARTURE: Duration = Duration::from_millis(20);
/// Time for a retransmission to be acknowledged. The second timeout comes within a second.
const PATIENCE: Duration = Duration::from_secs(4);

/// Findings by TCP.
#[derive(Debug)]
pub(super) struct Answers {
    /// A Timeous receiver has answered.
    pub(super) is_timeous: bool,
    pub(super) rtt: Option<Duration>,
    pub(super) findings: Vec<Finding>,
}

/// What has become of a changed retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Changed,
    /// The peer has the original: a middlebox kept it.
    Original,
    /// The peer has one of the two.
    Acknowledged,
    Reset,
    Silence,
    /// The original arrived at once, or this host copies: nothing was retransmitted changed.
    NoTrial,
}

/// Bytes of a trial: two versions of the same length, and how to read which the peer answers.
struct Versions {
    original: Vec<u8>,
    changed: Vec<u8>,
    read: fn(&[u8]) -> Outcome,
}

/// Asks all questions.
pub(super) fn ask(remote: SocketAddr, wait: Duration, host: &str) -> io::Result<Answers> {
    let tcp = |verdict, why: String| Finding::new(TCP, verdict, why);
    let mut trial = match connected(remote, None, wait) {
        Ok(Some(trial)) => trial,
        Ok(None) => {
            let findings = vec![tcp(Verdict::Unknown, "no answer: blocked, or nobody listens".to_owned())];
            return Ok(Answers { is_timeous: false, rtt: None, findings });
        }
        Err(error) => {
            let is_heard = error.kind() == io::ErrorKind::ConnectionRefused;
            let (verdict, why) = match is_heard {
                true => (Verdict::Yes, "it reaches the host, which refuses the port".to_owned()),
                false => (Verdict::Unknown, error.to_string()),
            };
            return Ok(Answers { is_timeous: false, rtt: None, findings: vec![tcp(verdict, why)] });
        }
    };
    let view = trial.view()?;
    let is_timeous = sends_back(&mut trial, wait)?;
    drop(trial);
    let ecn = if view.has_ecn { ", with ECN" } else { "" };
    let connects = tcp(Verdict::Yes, format!("connects{ecn}; segments of up to {} bytes", view.mss));
    let timeous = match is_timeous {
        true => Finding::new(TIMEOUS, Verdict::Yes, "a receiver answers"),
        false => Finding::new(TIMEOUS, Verdict::Unknown, "the server is another's, or serves one caller already"),
    };
    let changes = changed_retransmissions(remote, wait, host)?;
    let findings = vec![connects, timeous, changes];
    Ok(Answers { is_timeous, rtt: view.srtt, findings })
}

/// Returns whether the peer sends back the bytes of a trial, as a Timeous receiver does.
fn sends_back(trial: &mut Trial, wait: Duration) -> io::Result<bool> {
    let asked = trial_bytes(1);
    if trial.send(&asked).is_err() {
        return Ok(false);
    }
    let deadline = clock::now() + wait;
    let (mut answer, mut buffer) = (Vec::new(), [0; TRIAL_LEN]);
    while answer.len() < asked.len() && clock::now() < deadline && wait_for(trial, false, deadline)? {
        // The notice that the bytes have left makes the socket ready, too.
        let _copied = trial.is_copied()?;
        match trial.receive(&mut buffer) {
            Ok(Some(0)) | Err(_) => break,
            Ok(Some(len)) => answer.extend_from_slice(&buffer[..len]),
            Ok(None) => {}
        }
    }
    Ok(answer == asked)
}

/// Connects within `wait`, with packets that pass at most `hops - 1` routers. `None`: no answer.
fn connected(remote: SocketAddr, hops: Option<u8>, wait: Duration) -> io::Result<Option<Trial>> {
    let deadline = clock::now() + wait;
    let trial = Trial::call(remote, hops)?;
    while wait_for(&trial, true, deadline)? {
        if trial.is_answered()? {
            return Ok(Some(trial));
        }
    }
    Ok(None)
}

/// Returns the number of hops to the host: the least that a connection needs.
fn distance(remote: SocketAddr, wait: Duration) -> Option<u8> {
    // One SYN may be lost.
    let answers = |hops| (0..2).any(|_| matches!(connected(remote, Some(hops), wait), Ok(Some(_))));
    if answers(1) {
        return Some(1);
    }
    let (mut short, mut enough) = (1, MOST_HOPS);
    if !answers(enough) {
        return None;
    }
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if answers(middle) { enough = middle } else { short = middle }
    }
    Some(enough)
}

fn changed_retransmissions(remote: SocketAddr, wait: Duration, host: &str) -> io::Result<Finding> {
    let Some(hops) = distance(remote, wait) else {
        return Ok(Finding::new(CHANGES, Verdict::Unknown, "the number of routers on the path is not found"));
    };
    if hops == 1 {
        let why = "no router on the path: a segment cannot be made to vanish there";
        return Ok(Finding::new(CHANGES, Verdict::Unknown, why));
    }
    let timeous = Versions {
        original: trial_bytes(1).to_vec(),
        changed: trial_bytes(2).to_vec(),
        read: |answer| match answer {
            [.., 2] if answer.len() == TRIAL_LEN => Outcome::Changed,
            [.., 1] if answer.len() == TRIAL_LEN => Outcome::Original,
            _ => Outcome::Acknowledged,
        },
    };
    // The original is no HTTP: a server that has it answers with an error, or not at all.
    let named = match remote {
        _ if host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_err() => {
            host.rsplit_once(':').map_or(host, |(host, _)| host).to_owned()
        }
        SocketAddr::V4(remote) => remote.ip().to_string(),
        SocketAddr::V6(remote) => format!("[{}]", remote.ip()),
    };
    let request = format!("HEAD / HTTP/1.0\r\nHost: {named}\r\n\r\n");
    let http = Versions {
        original: vec![b'?'; request.len() - 4].into_iter().chain(*b"\r\n\r\n").collect(),
        changed: request.into_bytes(),
        read: |answer| match answer {
            [b'H', b'T', b'T', b'P', b'/', _, _, _, b' ', b'4', b'0', b'0', ..] => Outcome::Original,
            [b'H', b'T', b'T', b'P', b'/', ..] => Outcome::Changed,
            _ => Outcome::Acknowledged,
        },
    };
    let mut outcomes = Vec::new();
    let mut versions = &timeous;
    let mut is_http = false;
    for _ in 0..TRIALS {
        let mut outcome = attempt(remote, wait, hops - 1, versions)?;
        if !is_http && (outcome == Outcome::Acknowledged || outcome == Outcome::Reset && outcomes.is_empty()) {
            // No Timeous listener: it may speak HTTP.
            (versions, is_http) = (&http, true);
            outcome = attempt(remote, wait, hops - 1, versions)?;
        }
        outcomes.push(outcome);
    }
    Ok(judge(hops, &outcomes))
}

/// Sends the original so that it passes `hops - 1` routers only, and lets the kernel retransmit the changed version.
fn attempt(remote: SocketAddr, wait: Duration, hops: u8, versions: &Versions) -> io::Result<Outcome> {
    let Some(mut trial) = connected(remote, None, wait)? else { return Ok(Outcome::NoTrial) };
    trial.set_hops(Some(hops))?;
    trial.send(&versions.original)?;
    let left = clock::now() + DEPARTURE;
    while clock::now() < left && !wait_for(&trial, false, left)? {}
    if trial.is_copied()? || trial.view()?.is_acknowledged {
        return Ok(Outcome::NoTrial);
    }
    trial.change(&versions.changed);
    trial.set_hops(None)?;
    let (mut answer, mut is_over) = (Vec::new(), false);
    let mut deadline = clock::now() + PATIENCE;
    let mut buffer = [0; 256];
    let mut is_acknowledged = false;
    while !is_over && clock::now() < deadline {
        // An error may be an ICMP message of the original, which has expired.
        match trial.receive(&mut buffer) {
            Ok(Some(0)) => is_over = true,
            Ok(Some(len)) => answer.extend_from_slice(&buffer[..len]),
            Ok(None) => {
                let next = (clock::now() + DEPARTURE).min(deadline);
                let _more = wait_for(&trial, false, next)?;
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Ok(if is_acknowledged { Outcome::Acknowledged } else { Outcome::Reset });
            }
            Err(_) => {}
        }
        is_over |= answer.len() >= TRIAL_LEN;
        if !is_acknowledged && trial.view()?.is_acknowledged {
            is_acknowledged = true;
            deadline = deadline.min(clock::now() + wait);
        }
    }
    Ok(match is_acknowledged || !answer.is_empty() {
        true if trial.view()?.retransmitted == 0 => Outcome::NoTrial,
        true => (versions.read)(&answer),
        false => Outcome::Silence,
    })
}

fn judge(hops: u8, outcomes: &[Outcome]) -> Finding {
    let count = |outcome| outcomes.iter().filter(|&&one| one == outcome).count();
    let (of, routers) = (outcomes.len(), hops - 1);
    let behind = format!("behind {routers} router{}", if routers == 1 { "" } else { "s" });
    let [changed, original, acknowledged, reset, silence] =
        [Outcome::Changed, Outcome::Original, Outcome::Acknowledged, Outcome::Reset, Outcome::Silence].map(count);
    let (verdict, why) = match () {
        () if changed > 0 => (Verdict::Yes, format!("{changed} of {of} arrived changed, {behind}")),
        () if original > 0 => {
            (Verdict::No, format!("the original arrived in {original} of {of}, {behind}: a middlebox keeps it"))
        }
        () if acknowledged > 0 => (
            Verdict::Yes,
            format!("{acknowledged} of {of} acknowledged, {behind}; the server does not tell which version arrived"),
        ),
        () if reset > 0 => (Verdict::No, format!("the connection was reset in {reset} of {of}, {behind}")),
        () if silence > 0 => (Verdict::No, format!("swallowed in {silence} of {of}, {behind}")),
        () => (Verdict::Unknown, "the original arrived, or this host copies what it sends".to_owned()),
    };
    Finding::new(CHANGES, verdict, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_outcome_decides() {
        use Outcome::{Acknowledged, Changed, NoTrial, Original, Reset, Silence};
        for (outcomes, verdict, words) in [
            ([Changed, Silence, Reset], Verdict::Yes, "1 of 3 arrived changed, behind 3 routers"),
            ([Original, Original, Silence], Verdict::No, "a middlebox keeps it"),
            ([Acknowledged, NoTrial, NoTrial], Verdict::Yes, "does not tell"),
            ([Silence; 3], Verdict::No, "swallowed in 3 of 3"),
            ([Reset, Silence, Silence], Verdict::No, "reset in 1 of 3"),
            ([NoTrial; 3], Verdict::Unknown, "copies"),
        ] {
            let finding = judge(4, &outcomes);
            assert_eq!(finding.verdict, verdict, "{outcomes:?}");
            assert!(finding.why.contains(words), "{}", finding.why);
        }
    }
}
