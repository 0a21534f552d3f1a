//! Sending a batch in as few calls as the kernel allows, with the result of each packet.

use std::io;
use std::os::fd::AsFd;

use super::{Packet, Socket};

impl Socket {
    /// Gives packets to the kernel, in order for each destination. Reports each packet that is taken, or refused with
    /// an error of its own. Returns `false` if the kernel has no room for the rest: try those again when the socket is
    /// writable.
    pub fn send(&mut self, packets: &[Packet<'_>], mut done: impl FnMut(usize, Result<(), &io::Error>)) -> bool {
        self.plan.lay(packets, self.bundles);
        let mut at = 0;
        // A bundle was just refused: find out whether that is because it is one.
        let mut doubted: Option<io::Error> = None;
        // A message that is offered again, since the error may have been an earlier packet's.
        let mut repeated = None;
        while at < self.plan.messages().len() {
            match self.outbound.send(self.io.as_fd(), &self.plan, at, packets) {
                Ok(taken) => {
                    if let Some(error) = doubted.take() {
                        self.go_singly(&error);
                    }
                    for &message in &self.plan.messages()[at..at + taken] {
                        self.plan.packets(message).for_each(|packet| done(packet, Ok(())));
                    }
                    at += taken;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if is_of_path(&error) && repeated.replace(at) != Some(at) => {}
                Err(error) if self.plan.messages()[at].count > 1 && may_be_for_the_bundle(&error) => {
                    self.plan.split(at, packets);
                    doubted = Some(error);
                }
                Err(error) => {
                    doubted = None;
                    let message = self.plan.messages()[at];
                    self.plan.packets(message).for_each(|packet| done(packet, Err(&error)));
                    at += 1;
                }
            }
        }
        true
    }

    /// A packet of a refused bundle was sent alone.
    fn go_singly(&mut self, error: &io::Error) {
        if self.bundles {
            tracing::warn!(%error, "the system refuses GSO: packets go one by one from now on");
            self.bundles = false;
        }
    }
}

/// Whether an ICMP message may have caused the error. The kernel returns it at the next call, for whatever destination
/// that is, and sends nothing then.
fn is_of_path(error: &io::Error) -> bool {
    let codes = [libc::ECONNREFUSED, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::ENOPROTOOPT, libc::EHOSTDOWN];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// The kernel returns `EINVAL` or `EMSGSIZE`, a device `EIO` or `EOPNOTSUPP`; all but the third have other causes, too.
fn may_be_for_the_bundle(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}
