//! Integration tests of the daemon, with clients in separate processes: well-behaved, killed and hostile ones.

mod deaths;
mod erased;
mod flows;
mod hostile;
mod limits;
mod restart;
mod roles;
mod sealed;
mod sender;
mod silence;
mod streams;
mod support;
mod users;
mod zones;
