//! Opening of a stream by its URI, over TCP by default.

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;

use timeous::core::Duration;
use timeous::{Error, Receiver, Sender, Uri, adopt as adopt_socket, open_both};

use super::{STREAMS, Stream};
use crate::failure::Failure;
use crate::sys::{descriptor, fork, signal};

/// Calls, or waits for a caller; returns the descriptor.
pub(crate) fn open(uri: &str) -> Result<c_int, Failure> {
    fork::check()?;
    let uri = parse(uri)?;
    let latency = uri.options.latency;
    begin(latency, move || open_both(&uri))
}

/// Runs a stream over a connected TCP socket, which the stream has from now on if there is no error.
pub(crate) fn adopt(socket: c_int, keys: &str) -> Result<c_int, Failure> {
    fork::check()?;
    // The place is not used: the socket is connected.
    let Uri { options, .. } = parse(&format!("timeous://?{keys}"))?;
    let connection = descriptor::connected_tcp(socket)?;
    let latency = options.latency;
    let fd = begin(latency, move || adopt_socket(connection, &options))?;
    descriptor::close(socket);
    Ok(fd)
}

/// Opens a stream on a thread of its own, and enters it.
fn begin(
    latency: Duration,
    open: impl FnOnce() -> Result<(Sender, Receiver), Error> + Send + 'static,
) -> Result<c_int, Failure> {
    fork::watch()?;
    // The library's threads must get no signals, while this one keeps getting them as it waits.
    let opening = signal::blocked(|| thread::Builder::new().name("utl-open".to_owned()).spawn(open));
    let opening = opening.map_err(|error| Failure::new(libc::EAGAIN, format!("no thread: {error}")))?;
    let (sender, receiver) = opening.join().expect("opening does not panic")?;
    let fd = receiver.waker().as_raw_fd();
    STREAMS.lock().insert(fd, Arc::new(Stream::new(sender, receiver, latency)));
    Ok(fd)
}

/// Parses a URI with the paper's defaults: TCP, only expired datagrams and those that depend on them are dropped, datagrams are
/// received as their segments come where that is allowed, and are as long as a packet on Ethernet.
fn parse(text: &str) -> Result<Uri, Failure> {
    let (place, query) = text.split_once('?').unwrap_or((text, ""));
    let is_given = |key: &str| query.split('&').any(|pair| pair.split('=').next() == Some(key));
    let is_records = !is_given("framing");
    let defaults = [("transport", "tcp"), ("policy", "deadline"), ("mtu", "1500"), ("unordered", "auto")];
    let defaults = defaults.into_iter().filter(|&(key, _)| !is_given(key) && (is_records || key != "unordered"));
    let pairs: Vec<String> = defaults.map(|(key, value)| format!("{key}={value}")).chain([query.to_owned()]).collect();
    format!("{place}?{}", pairs.join("&")).parse().map_err(|error| Error::Uri(error).into())
}

#[cfg(test)]
mod tests {
    use timeous::{PolicyName, TransportName, Unordered};

    use super::*;

    #[test]
    fn what_the_uri_says_goes_before_what_the_paper_has() {
        let options = |text: &str| parse(text).unwrap().options;
        assert_eq!(options("timeous://h:1").transport, TransportName::Tcp);
        assert_eq!(options("timeous://h:1").unordered, Unordered::Auto);
        assert_eq!(options("timeous://h:1?unordered=off").unordered, Unordered::Off);
        assert_eq!((options("timeous://h:1").mtu, options("timeous://h:1?mtu=9000").mtu), (Some(1500), Some(9000)));
        assert_eq!(options("timeous://h:1?latency=1s").chooses_by(), PolicyName::Deadline);
        assert_eq!(options("timeous://h:1?policy=fifo").chooses_by(), PolicyName::Fifo);
        assert_eq!(parse("http://h").unwrap_err().code(), libc::EINVAL);
    }
}
