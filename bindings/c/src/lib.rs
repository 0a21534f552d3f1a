//! libcm: the Congestion Manager for C (Andersen et al. §2.1, §2.2).
