//! `timeous probe`: examines what a path bears of UDP, DCCP, ECN, large packets, and changed TCP retransmissions.

mod finding;
mod tcp;
mod udp;

use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use clap::Args;
use serde::Serialize;
use timeous::core::Duration;
use timeous::core::units::parse_duration_within;
use timeous::uri::DEFAULT_PORT;

use crate::failure::Failure;
use finding::{Finding, Verdict};

/// Examine what the path to a host bears
///
/// Asks one port by UDP and TCP, and prints a row for each property of the path. `timeous recv` at the other end answers
/// everything, encrypted or not, and goes on waiting for its sender. Any service of UDP that answers shows that UDP
/// passes. Of any other TCP server it is found out whether changed retransmissions pass; of an HTTP server, also which
/// version has arrived.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  timeous probe receiver.example              # the port of timeous, 6511
  timeous probe receiver.example:7000 --json
  timeous probe www.example:80                # changed retransmissions only, at a host without Timeous")]
pub(crate) struct ProbeArgs {
    /// Host, and the port of its receiver [default: 6511]
    #[arg(value_name = "HOST[:PORT]")]
    host: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Time to wait for each answer, from 1ms to 1min
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = wait)]
    wait: Duration,
}

/// Parses a wait for an answer.
fn wait(text: &str) -> Result<Duration, String> {
    parse_duration_within(text, "1ms", "1min")
}

/// Result of all questions.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    host: String,
    address: SocketAddr,
    #[serde(rename = "msRTT", skip_serializing_if = "Option::is_none")]
    ms_rtt: Option<f64>,
    /// Largest IP packet that passes, in bytes.
    #[serde(rename = "byteMTU", skip_serializing_if = "Option::is_none")]
    byte_mtu: Option<usize>,
    findings: Vec<Finding>,
    advice: String,
}

/// Runs the command.
pub(crate) fn run(args: &ProbeArgs) -> Result<(), Failure> {
    let address = resolve(&args.host)?;
    let environment = |error: std::io::Error| Failure::Environment(format!("{address}: {error}"));
    let by_udp = udp::ask(address, args.wait).map_err(environment)?;
    let by_tcp = tcp::ask(address, args.wait, &args.host).map_err(environment)?;
    let report = report(&args.host, address, by_udp, by_tcp);
    let text = if args.json {
        serde_json::to_string_pretty(&report).map_err(|error| Failure::Environment(error.to_string()))? + "\n"
    } else {
        table(&report)
    };
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Failure::file("standard output", &error))?;
    match report.findings.iter().any(|finding| finding.verdict == Verdict::Yes) {
        true => Ok(()),
        false => Err(Failure::Peer(format!("{address} does not answer"))),
    }
}

/// Resolves `host`, `host:port`, `address` or `[address]:port`.
fn resolve(host: &str) -> Result<SocketAddr, Failure> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok((address, DEFAULT_PORT).into());
    }
    let wrong = |how: &str| Err(Failure::Usage(format!("'{host}': {how}")));
    if let Some((_, end)) = host.split_once("://") {
        return wrong(&format!(
            "name the host and its port alone, as in {}",
            end.split(['/', '?']).next().unwrap_or(end)
        ));
    }
    let (name, port) = host.rsplit_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    if name.is_empty() || port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return wrong("use HOST or HOST:PORT, with a port from 1 to 65535");
    }
    let found = if port.is_some() { host.to_socket_addrs() } else { (host, DEFAULT_PORT).to_socket_addrs() };
    let unknown = |why: &str| Failure::Environment(format!("unknown host {host}: {why}"));
    let mut addresses: Vec<_> = found.map_err(|error| unknown(&error.to_string()))?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| unknown("it has no address"))
}

fn report(host: &str, address: SocketAddr, by_udp: udp::Answers, by_tcp: tcp::Answers) -> Report {
    let udp::Answers { rtt, mtu, mut findings, .. } = by_udp;
    // Any other server may have a service of UDP beside it that ignores what it cannot read, such as QUIC.
    if !by_udp.is_heard && by_tcp.is_timeous {
        let silent = findings.iter_mut().filter(|finding| finding.property == udp::UDP);
        silent.for_each(|finding| {
            finding.verdict = Verdict::No;
            finding.why = "the receiver answers by TCP, and not by UDP".to_owned();
        });
    }
    findings.extend(by_tcp.findings);
    let changes = findings.iter().find(|finding| finding.property == tcp::CHANGES).map(|finding| finding.verdict);
    let advice = match (by_udp.is_dccp, by_tcp.is_timeous, changes) {
        (true, _, _) => "streams pass over UDP, the default",
        (_, true, Some(Verdict::Yes)) => "use transport=tcp; expired data can be replaced in retransmissions",
        (_, true, Some(Verdict::No)) => "use transport=tcp; expired data cannot be replaced in retransmissions",
        (_, true, _) => "use transport=tcp; whether expired data can be replaced in retransmissions is open",
        (_, false, _) => "no Timeous receiver answers at this port: start `timeous recv` there, with transport=auto",
    };
    let ms_rtt = rtt.or(by_tcp.rtt).map(|rtt| (rtt.as_secs_f64() * 1e6).round() / 1e3);
    Report { host: host.to_owned(), address, ms_rtt, byte_mtu: mtu, findings, advice: advice.to_owned() }
}

fn table(report: &Report) -> String {
    let rtt = report.ms_rtt.map_or(String::new(), |rtt| format!(", {rtt} ms away"));
    let mut text = format!("{}{rtt}\n", report.address);
    for Finding { property, verdict, why } in &report.findings {
        let verdict = match verdict {
            Verdict::Yes => "yes",
            Verdict::No => "no",
            Verdict::Unknown => "unknown",
        };
        text += &format!("{property:<24} {verdict:<8} {why}\n");
    }
    text + &report.advice + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_and_without_a_port() {
        assert_eq!(resolve("127.0.0.1").unwrap(), "127.0.0.1:6511".parse().unwrap());
        assert_eq!(resolve("127.0.0.1:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        assert_eq!(resolve("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        assert_eq!(resolve("::1").unwrap(), "[::1]:6511".parse().unwrap());
    }

    /// A mistake of the command line was an unknown host.
    #[test]
    fn what_is_no_host_is_told_from_an_unknown_one() {
        for wrong in ["127.0.0.1:x", "h:99999", "h:0", "h:", "[::1]:", ":80", "", "timeous://h:1", "http://h/"] {
            assert!(matches!(resolve(wrong), Err(Failure::Usage(text)) if text.contains(wrong)), "{wrong}");
        }
        assert!(matches!(resolve("timeous://h:1?latency=1s"), Err(Failure::Usage(text)) if text.ends_with(" h:1")));
        assert!(matches!(resolve("no-such-host.invalid:80"), Err(Failure::Environment(_))));
    }
}
