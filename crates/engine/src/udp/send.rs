//! Sending a batch: as few calls as the kernel allows, and what becomes of each packet.

use std::io;
use std::os::fd::AsFd;

use super::{Packet, Socket};

impl Socket {
    /// Gives packets to the kernel, those for one destination in their order. Tells of each packet that is done with:
    /// taken, or refused with an error that is its own. `false`: the kernel has no room for the rest; try again with
    /// those when the socket is writable.
    pub fn send(&mut self, packets: &[Packet<'_>], mut done: impl FnMut(usize, Result<(), &io::Error>)) -> bool {
        self.plan.lay(packets, self.bundles);
        let mut at = 0;
        // A bundle was refused just now: is it for being one?
        let mut doubted: Option<io::Error> = None;
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

    /// A packet went alone that was refused in a bundle.
    fn go_singly(&mut self, error: &io::Error) {
        if self.bundles {
            tracing::warn!(%error, "the system refuses GSO: packets go one by one from now on");
            self.bundles = false;
        }
    }
}

/// A kernel says `EINVAL` or `EMSGSIZE`, a device `EIO` or `EOPNOTSUPP`; all but the third have other causes, too.
fn may_be_for_the_bundle(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP))
}
