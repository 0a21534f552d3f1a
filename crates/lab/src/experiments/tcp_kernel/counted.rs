//! What a kernel has counted for one of its namespaces (`/proc/net/netstat`).

use std::io;

/// Repairs, as far as both stacks count them alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Repairs {
    /// Retransmission timeouts.
    pub(super) timeouts: u64,
    /// Tail loss probes.
    pub(super) probes: u64,
    /// Fast recoveries.
    pub(super) recoveries: u64,
    /// Window reductions that were taken back, since nothing had been lost (Linux; ours takes none back).
    pub(super) undone: u64,
}

/// Those of the namespace that the calling thread is in, since it was made.
pub(super) fn by_kernel() -> io::Result<Repairs> {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat")?;
    let of = |name: &str| counter(&text, name);
    Ok(Repairs {
        timeouts: of("TCPTimeouts"),
        probes: of("TCPLossProbes"),
        recoveries: of("TCPSackRecovery") + of("TCPRenoRecovery"),
        undone: of("TCPDSACKUndo") + of("TCPFullUndo") + of("TCPLossUndo"),
    })
}

/// A line of names is followed by one of values; a kernel that does not count something has nothing of it.
fn counter(text: &str, name: &str) -> u64 {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    pairs.filter(|(head, _)| *head == name).find_map(|(_, value)| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_below_its_name() {
        let text = "TcpExt: A B\nTcpExt: 1 22\nIpExt: C\nIpExt: 333\n";
        assert_eq!(["A", "B", "C", "D"].map(|name| counter(text, name)), [1, 22, 333, 0]);
    }
}
