//! Integration tests of the `timeous` tool: real processes and sockets, with other programs at both ends.

mod adapt;
mod callers;
mod credentials;
mod deaths;
mod documented;
mod feeder;
mod field;
mod input;
mod lives;
mod native;
mod pictures;
mod pipeline;
mod promise;
mod recorded;
mod relay;
mod roles;
mod rtp_source;
mod seeing;
mod sinks;
mod statistics;
mod support;
mod tcp;
mod transport_stream;
mod tshark;
mod viewer;
mod watched;
