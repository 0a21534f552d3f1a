//! Records of TLS in a stream of bytes, as far as their headers tell (RFC 8446 §5.1).

/// Returns whether a stream of bytes begins with TLS (RFC 8446 §5.1): a handshake message or an alert. Three bytes tell.
#[must_use]
pub fn is_tls(bytes: &[u8]) -> bool {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    matches!(bytes, [ALERT | HANDSHAKE, 3, 0..=4, ..])
}

/// Position in the TLS records of the peer, so that no byte behind the last one is read.
#[derive(Debug)]
pub(crate) struct Boundary {
    /// Whether no byte was received.
    pub(crate) is_at_start: bool,
    /// Header of the current record (RFC 8446 §5.1), as far as it is there.
    header: [u8; 5],
    header_len: usize,
    /// Bytes of the record behind its header that have not come.
    left: usize,
}

impl Default for Boundary {
    fn default() -> Self {
        Self { is_at_start: true, header: [0; 5], header_len: 0, left: 0 }
    }
}

impl Boundary {
    /// Returns how many of the bytes, of which there is at least one, belong to the current record; `None`: this is not TLS.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.left > 0 {
            let len = bytes.len().min(self.left);
            self.left -= len;
            return Some(len);
        }
        let len = bytes.len().min(self.header.len() - self.header_len);
        self.header[self.header_len..self.header_len + len].copy_from_slice(&bytes[..len]);
        self.header_len += len;
        // Content types from change_cipher_spec to application_data, and versions 3.x.
        let is_tls = matches!(self.header[0], 20..=23) && (self.header_len == 1 || self.header[1] == 3);
        if !is_tls {
            return None;
        }
        self.is_at_start = false;
        if self.header_len == self.header.len() {
            self.header_len = 0;
            self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
        }
        Some(len)
    }
}
