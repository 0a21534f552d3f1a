//! Request of a player by HTTP, as far as it has come.

/// Longest head of a request, in bytes. Chosen by us: browsers with many cookies stay below; a higher value takes more memory.
pub(super) const LONGEST_HEAD: usize = 16 * 1024;
/// Most fields of a request. Chosen by us, as the one above.
const MOST_FIELDS: usize = 64;

/// State of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Incomplete,
    /// `knows_chunks`: HTTP/1.0 knows none (RFC 9112 §6.1).
    Get {
        knows_chunks: bool,
    },
    /// As GET, without the stream (RFC 9110 §9.3.2).
    Head,
    /// Another method.
    Other,
    Garbage,
}

/// Reads a request.
pub(super) fn read(bytes: &[u8]) -> Request {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => match (request.method, request.version) {
            (Some("GET"), version) => Request::Get { knows_chunks: version != Some(0) },
            (Some("HEAD"), _) => Request::Head,
            _ => Request::Other,
        },
        Ok(httparse::Status::Partial) if bytes.len() <= LONGEST_HEAD => Request::Incomplete,
        Ok(httparse::Status::Partial) | Err(_) => Request::Garbage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_however_it_comes() {
        let get = b"GET /live HTTP/1.1\r\nHost: camera\r\n\r\n";
        for end in 0..get.len() {
            assert_eq!(read(&get[..end]), Request::Incomplete, "{end} bytes");
        }
        assert_eq!(read(get), Request::Get { knows_chunks: true });
        assert_eq!(read(b"GET / HTTP/1.0\r\n\r\n"), Request::Get { knows_chunks: false });
        assert_eq!(read(b"HEAD / HTTP/1.1\r\n\r\n"), Request::Head);
        assert_eq!(read(b"POST / HTTP/1.1\r\n\r\n"), Request::Other);
        assert_eq!(read(b"\x16\x03\x01\x02\x00"), Request::Garbage);
        assert_eq!(read(&[&b"GET / HTTP/1.1\r\nA: "[..], &vec![b'x'; LONGEST_HEAD]].concat()), Request::Garbage);
    }
}
