//! Packet filter of a tap (classic BPF): the packets of one connection, with sent ones truncated.

use std::io;
use std::net::{IpAddr, SocketAddr};

use libc::sock_filter;

/// Capture length of sent packets, in bytes: their headers, of at most 60 each (RFC 791 §3.1, RFC 9293 §3.1).
const HEADERS: u32 = 128;
/// Capture length of received packets, in bytes: all of them.
const ALL: u32 = 0x0004_0000;

const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
/// Offset relative to the length of the IPv4 header.
const LOAD_HALF_BEHIND: u16 = 0x48;
const LOAD_HEADER_LEN: u16 = 0xb1;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Addresses of a connection, both of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
}

impl Ends {
    /// # Errors
    /// If they are of two families, between which no packet travels.
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> io::Result<Self> {
        // An IPv6 socket shows IPv4 addresses as mapped ones.
        let plain = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
        let ends = Self { local: plain(local), remote: plain(remote) };
        if ends.local.is_ipv4() != ends.remote.is_ipv4() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "addresses of two families"));
        }
        Ok(ends)
    }
}

/// A filter test: a value is loaded, masked where needed, and compared.
struct Test {
    load: u16,
    at: u32,
    mask: Option<u32>,
    jump: u16,
    wanted: u32,
    /// Whether the jump's condition must hold, or must not hold.
    holds: bool,
}

fn equal(load: u16, at: u32, wanted: u32) -> Test {
    Test { load, at, mask: None, jump: JUMP_EQUAL, wanted, holds: true }
}

/// Builds the program: packets sent by the local end are kept in part, those received from the remote end as a whole,
/// others not at all.
pub(super) fn filter(ends: &Ends) -> Vec<sock_filter> {
    let mut program = Vec::new();
    for (from, to, keep) in [(ends.local, ends.remote, HEADERS), (ends.remote, ends.local, ALL)] {
        block(&tests(from, to), from.is_ipv4(), keep, &mut program);
    }
    program.push(step(RETURN, 0));
    program
}

fn tests(from: SocketAddr, to: SocketAddr) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut words = |bytes: &[u8], at: u32| {
        for (place, word) in (at..).step_by(4).zip(bytes.chunks_exact(4)) {
            let word = u32::from_be_bytes(word.try_into().expect("chunks of four"));
            tests.push(equal(LOAD_WORD, place, word));
        }
    };
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            words(&from.octets(), 12);
            words(&to.octets(), 16);
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V6(ip) => ip.octets(),
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            };
            words(&octets(from), 8);
            words(&octets(to), 24);
        }
    }
    let first_byte = Test { mask: Some(0xf0), ..equal(LOAD_BYTE, 0, if from.is_ipv4() { 0x40 } else { 0x60 }) };
    tests.insert(0, first_byte);
    let protocol = if from.is_ipv4() { 9 } else { 6 };
    tests.insert(1, equal(LOAD_BYTE, protocol, libc::IPPROTO_TCP as u32));
    if from.is_ipv4() {
        // A fragment carries no ports.
        tests.push(Test { jump: JUMP_BITS, holds: false, ..equal(LOAD_HALF, 6, 0x1fff) });
    }
    let (load, at) = if from.is_ipv4() { (LOAD_HALF_BEHIND, 0) } else { (LOAD_HALF, 40) };
    tests.push(equal(load, at, from.port().into()));
    tests.push(equal(load, at + 2, to.port().into()));
    tests
}

/// Appends tests and the capture length if all of them hold; else the program goes on behind the block.
fn block(tests: &[Test], is_ipv4: bool, keep: u32, program: &mut Vec<sock_filter>) {
    let mut steps = Vec::new();
    let mut jumps = Vec::new();
    for test in tests {
        if is_ipv4 && test.load == LOAD_HALF_BEHIND {
            steps.push(step(LOAD_HEADER_LEN, 0));
        }
        steps.push(step(test.load, test.at));
        steps.extend(test.mask.map(|mask| step(AND, mask)));
        jumps.push((steps.len(), test.holds));
        steps.push(step(test.jump, test.wanted));
    }
    steps.push(step(RETURN, keep));
    let end = steps.len();
    for (at, holds) in jumps {
        let away = u8::try_from(end - at - 1).expect("a block is a few dozen steps");
        let jump = &mut steps[at];
        *(if holds { &mut jump.jf } else { &mut jump.jt }) = away;
    }
    program.append(&mut steps);
}

fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Emulates the kernel's filter: returns the number of bytes kept of a packet.
    fn run(program: &[sock_filter], packet: &[u8]) -> u32 {
        let (mut accumulator, mut index, mut at) = (0_u32, 0_u32, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let load = |from: u32, len: usize| {
                let bytes = packet.get(from as usize..from as usize + len)?;
                Some(bytes.iter().fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte)))
            };
            let loaded = match code {
                LOAD_WORD => load(k, 4),
                LOAD_HALF => load(k, 2),
                LOAD_HALF_BEHIND => load(k + index, 2),
                LOAD_BYTE => load(k, 1),
                LOAD_HEADER_LEN => {
                    let Some(byte) = load(k, 1) else { return 0 };
                    index = (byte & 0xf) * 4;
                    continue;
                }
                AND => Some(accumulator & k),
                JUMP_EQUAL | JUMP_BITS => {
                    let holds = if code == JUMP_EQUAL { accumulator == k } else { accumulator & k != 0 };
                    at += usize::from(if holds { jt } else { jf });
                    continue;
                }
                RETURN => return k,
                other => panic!("{other:#x}"),
            };
            // The kernel drops packets that are too short for a load.
            let Some(loaded) = loaded else { return 0 };
            accumulator = loaded;
        }
    }

    fn four(from: [u8; 4], to: [u8; 4], ports: [u16; 2], options: usize) -> Vec<u8> {
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x45 + (options / 4) as u8;
        packet[9] = 6;
        packet[12..16].copy_from_slice(&from);
        packet[16..20].copy_from_slice(&to);
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet
    }

    #[test]
    fn of_ipv4_the_connection_alone_is_kept() {
        let ends = Ends::new("10.0.0.1:80".parse().unwrap(), "[::ffff:10.0.0.2]:9000".parse().unwrap()).unwrap();
        let program = filter(&ends);
        let (here, there) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        assert_eq!(run(&program, &four(here, there, [80, 9_000], 0)), HEADERS);
        assert_eq!(run(&program, &four(there, here, [9_000, 80], 0)), ALL);
        assert_eq!(run(&program, &four(there, here, [9_000, 80], 8)), ALL, "with options");
        assert_eq!(run(&program, &four(there, here, [9_000, 81], 0)), 0);
        assert_eq!(run(&program, &four(there, here, [80, 9_000], 0)), 0);
        assert_eq!(run(&program, &four(there, [10, 0, 0, 3], [9_000, 80], 0)), 0);
        let mut other = four(there, here, [9_000, 80], 0);
        other[9] = 17;
        assert_eq!(run(&program, &other), 0, "UDP");
        other[9] = 6;
        other[7] = 1;
        assert_eq!(run(&program, &other), 0, "a fragment");
        assert_eq!(run(&program, &other[..18]), 0);
    }

    #[test]
    fn a_connection_of_a_host_with_itself_is_kept_both_ways() {
        let ends = Ends::new("127.0.0.1:80".parse().unwrap(), "127.0.0.1:9000".parse().unwrap()).unwrap();
        let (program, here) = (filter(&ends), [127, 0, 0, 1]);
        assert_eq!(run(&program, &four(here, here, [80, 9_000], 0)), HEADERS);
        assert_eq!(run(&program, &four(here, here, [9_000, 80], 0)), ALL);
    }

    #[test]
    fn of_ipv6_too() {
        let (here, there): (SocketAddr, SocketAddr) =
            ("[fd00::1]:80".parse().unwrap(), "[fd00::2]:9000".parse().unwrap());
        let program = filter(&Ends::new(here, there).unwrap());
        let octets = |at: SocketAddr| match at.ip() {
            IpAddr::V6(ip) => ip.octets(),
            IpAddr::V4(_) => panic!("{at}"),
        };
        let packet = |from: SocketAddr, to: SocketAddr| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
            packet.extend(octets(from).into_iter().chain(octets(to)));
            packet.extend([from.port(), to.port()].iter().flat_map(|port| port.to_be_bytes()));
            packet
        };
        assert_eq!(run(&program, &packet(here, there)), HEADERS);
        assert_eq!(run(&program, &packet(there, here)), ALL);
        assert_eq!(run(&program, &packet(there, "[fd00::3]:80".parse().unwrap())), 0);
        assert!(Ends::new(here, "10.0.0.1:1".parse().unwrap()).is_err());
    }
}
