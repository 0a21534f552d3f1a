//! Two network namespaces with an emulated link between them, for tests over real sockets. Needs root and iproute2.

use std::thread::{self, JoinHandle};

use timeous_core::Instant;
use timeous_net::emulator::{Emulator as _, EmulatorError, Namespace, Router, RouterConfig, Stop, Stopper};

/// Reports that a test is skipped and why; fails instead if `TIMEOUS_REQUIRE_ALL=1`.
fn skip(test: &str, needs: &str) {
    assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{test} may not be skipped: it needs {needs}");
    eprintln!("SKIPPED {test}: needs {needs}");
}

/// Two hosts, 10.77.0.1 and 10.77.0.2, which exist until this is dropped.
pub(crate) struct TestNetwork {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    stopper: Stopper,
    router: Option<JoinHandle<()>>,
}

impl TestNetwork {
    /// Creates the test bed with the link that `set` configures; reports why and returns `None` where that is not
    /// allowed.
    pub(crate) fn make(test: &str, set: impl FnOnce(&mut RouterConfig)) -> Option<Self> {
        let [left, right] = ["l", "r"].map(|side| format!("timeous-{test}-{}{side}", std::process::id()));
        let mut config = RouterConfig::new(&left, &right);
        set(&mut config);
        let mut router = match Router::open(config) {
            Ok(router) => router,
            Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)) => {
                skip(test, &format!("root and iproute2 ({error})"));
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let [left, right] = [left, right].map(|name| Namespace::open_or_make(&name).unwrap());
        let router = thread::spawn(move || {
            router.run_until(Instant::FAR_FUTURE, &stop).unwrap();
        });
        Some(Self { left, right, stopper, router: Some(router) })
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(router) = self.router.take() {
            // The thread's panic was printed, and a panic in `drop` would abort.
            let _ = router.join();
        }
    }
}
