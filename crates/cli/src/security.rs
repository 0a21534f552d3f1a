//! Messages on the security of a stream, at its start: secrets that others can see, and a listener without encryption.

use std::net::IpAddr;

use timeous::{Role, TcpFraming, Uri};

use crate::notice::tell;

/// Tells what the user should know.
pub(crate) fn tell_security(uri: &Uri) {
    let security = &uri.options.security;
    for weakness in security.weaknesses() {
        tell(weakness);
    }
    let Role::Listener { address, .. } = uri.role else { return };
    let is_local = address.is_some_and(|address: IpAddr| address.to_canonical().is_loopback());
    if uri.options.framing == TcpFraming::None && !is_local {
        tell("players have no encryption: whoever reaches this port sees the stream");
    }
    if !security.has_credential() && !security.is_plain && !is_local {
        tell("without a credential, callers of this host only: for others add passphrase=file:FILE, or encryption=off");
    }
}
