//! HTTP server of the metrics: one page, few connections, with bounded cost each.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use timeous_core::Instant;
use timeous_engine::clock;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::access::{MetricsAccess, ViewSource};
use super::exposition;

/// Maximum number of connections; a further one takes the place of the oldest, which may be a slow reader. Prometheus
/// keeps one.
const CALLERS: usize = 16;
/// Timeout of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Lifetime of a connection, so that idle ones make room for others.
const LIFETIME: Duration = Duration::from_secs(60);
/// Lifetime of a snapshot: taking one needs the Congestion Manager's lock.
const FRESH: timeous_core::Duration = timeous_core::Duration::from_millis(250);

struct Page {
    look: ViewSource,
    reach: MetricsAccess,
    last: Mutex<Option<(Instant, Bytes)>>,
}

pub(super) async fn serve(
    listener: TcpListener,
    reach: MetricsAccess,
    look: ViewSource,
    mut stopped: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let page = Arc::new(Page { look, reach, last: Mutex::new(None) });
    let mut callers: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = tokio::select! {
            stream = listener.accept() => stream,
            _ = &mut stopped => return Ok(()),
        };
        let Ok((stream, _)) = stream else {
            // No descriptors are left, or the connection is gone already.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        callers.retain(|caller| !caller.is_finished());
        if callers.len() >= CALLERS
            && let Some(oldest) = callers.pop_front()
        {
            oldest.abort();
        }
        let page = Arc::clone(&page);
        let caller = tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = page.answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .max_buf_size(8 << 10)
                .serve_connection(TokioIo::new(stream), service);
            // Errors of a connection concern only its peer.
            let _ = timeout(LIFETIME, connection).await;
        });
        callers.push_back(caller.abort_handle());
    }
}

impl Page {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if self.reach == MetricsAccess::Loopback && !names_an_address(request) {
            return plain(StatusCode::FORBIDDEN, "ask by address or as localhost\n");
        }
        if request.uri().path() != "/metrics" {
            return plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let mut answer = Response::new(Full::new(self.text()));
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(exposition::CONTENT_TYPE));
        answer
    }

    fn text(&self) -> Bytes {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        if let Some((at, text)) = last.as_ref()
            && now - *at < FRESH
        {
            return text.clone();
        }
        let text = Bytes::from(exposition::exposition(&(self.look)()));
        *last = Some((now, text.clone()));
        text
    }
}

/// Returns whether the request's host is an address: a web page that resolves its name to loopback (DNS rebinding) must
/// not read this host's metrics, and such a request has the page's host name.
fn names_an_address(request: &Request<Incoming>) -> bool {
    let Some(host) = request.headers().get(HOST) else { return true };
    let Some(authority) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    answer
}
