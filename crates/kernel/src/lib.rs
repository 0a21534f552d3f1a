//! The kernel's TCP as a client of the Congestion Manager (feature `bpf`).
