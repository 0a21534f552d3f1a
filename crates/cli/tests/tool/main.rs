//! The tool from outside: real processes, real sockets, other people's programs at both ends.

mod adapt;
mod deaths;
mod input;
mod native;
mod pipeline;
mod promise;
mod roles;
mod seeing;
mod sinks;
mod statistics;
mod support;
mod tcp;
mod tshark;
