//! Kernel counters of a network namespace (`/proc/net/netstat`).

use std::io;

/// Loss recovery counters that both stacks define alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecoveryCounters {
    /// Retransmission timeouts.
    pub(super) timeouts: u64,
    /// Tail loss probes.
    pub(super) probes: u64,
    /// Fast recoveries.
    pub(super) recoveries: u64,
    /// Undone window reductions after spurious losses (Linux; ours undoes none).
    pub(super) undone: u64,
}

/// Reads the counters of the calling thread's namespace, since its creation.
pub(super) fn by_kernel() -> io::Result<RecoveryCounters> {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat")?;
    let of = |name: &str| counter(&text, name);
    Ok(RecoveryCounters {
        timeouts: of("TCPTimeouts"),
        probes: of("TCPLossProbes"),
        recoveries: of("TCPSackRecovery") + of("TCPRenoRecovery"),
        undone: of("TCPDSACKUndo") + of("TCPFullUndo") + of("TCPLossUndo"),
    })
}

/// Reads a counter from pairs of lines, names and values; zero if the kernel lacks it.
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
