//! Two ends, and everything that may go wrong between them: bad links of every kind, slow and silent applications,
//! ends that meet or part at the same time, and strangers who forge segments.

#[path = "../tshark/mod.rs"]
mod capture;
mod closing;
mod duel;
mod injection;
mod random;
mod tshark;
mod window;
