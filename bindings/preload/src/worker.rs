//! The library's thread: sends queued datagrams as they are granted, asks for reports, and reports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeous::clock;
use timeous::cm::{CongestionManager, Event, FlowId, FlowSpec, ManagerLocation, Refusal, Update};
use timeous::core::{Duration, Instant, PathState};

use crate::control::{Arrived, Control};
use crate::flow::{Flow, Pace};
use crate::process::{Process, random_key};
use crate::queue::SendQueue;
use crate::statistics::{Figures, program};
use crate::sys::messages::say;
use crate::wire::{Key, Message};

/// Packet size of a flow in bytes: Ethernet's (IEEE 802.3). A larger datagram counts as several.
const PACKET: u64 = 1_500;
/// Bytes of the headers of a datagram: IPv4 or IPv6, and UDP (RFC 791, RFC 8200, RFC 768). Small datagrams are mostly headers.
const HEADERS: (u64, u64) = (20 + 8, 40 + 8);
/// Maximum number of grants requested at once: a window's worth on most paths. Chosen by us: a higher value uses more of other
/// processes' turns.
const REQUESTS: usize = 64;
/// Time after which a flow without datagrams is closed. Chosen by us: a higher value asks for reports for longer.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum number of destinations with figures. Chosen by us: bounds memory, and the lines at the end.
const MAX_FIGURES: usize = 256;
/// Time after which a datagram is tried again for which the kernel had no room. Chosen by us: a packet's time on slow links.
const RETRY: Duration = Duration::from_millis(2);
/// Time after which a report is repeated that the daemon did not believe, as for `BufferedSocket`.
const BELIEF: Duration = Duration::from_millis(20);
/// Longest sleep, after which statistics are renewed, and a port is looked for.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// State of the library's thread.
struct Worker {
    process: &'static Process,
    control: Control,
    manager: Option<CongestionManager>,
    flows: BTreeMap<SocketAddr, Flow>,
    by_id: BTreeMap<FlowId, SocketAddr>,
    /// Time at which a port to be asked at is looked for.
    listens_at: Instant,
    /// Whether the kernel had no room for a datagram.
    is_blocked: bool,
}

/// Runs until the process ends.
pub(crate) fn run(process: &'static Process) {
    let mut worker = Worker {
        process,
        control: Control::default(),
        manager: None,
        flows: BTreeMap::new(),
        by_id: BTreeMap::new(),
        listens_at: Instant::ZERO,
        is_blocked: false,
    };
    loop {
        worker.turn();
    }
}

impl Worker {
    fn turn(&mut self) {
        self.listen();
        self.take_messages();
        self.open_flows();
        self.take_events();
        self.drive_flows();
        self.report();
        self.sleep();
    }

    /// Becomes reachable as soon as this process receives.
    fn listen(&mut self) {
        let now = clock::now();
        if self.process.is_receiver() && !self.control.listens() && self.listens_at <= now {
            // Without a free port nobody hears of what arrives; one is looked for again.
            self.control.listen(self.process.settings.feedback_port);
            self.listens_at = now + LONGEST_SLEEP;
        }
    }

    fn take_messages(&mut self) {
        for Arrived { from, message, at } in self.control.receive() {
            let now = clock::now();
            match &message {
                Message::Ask(ask) => {
                    let answer = self.process.receiving().reporter.handle_ask(now, from, ask);
                    if let Some(answer) = answer {
                        self.control.answer(at, from, &answer);
                    }
                }
                Message::Cookie(answer) | Message::Accepted(answer) => {
                    let Some(flow) = self.flows.values_mut().find(|flow| *flow.subscriber.key() == answer.key) else {
                        continue;
                    };
                    for (to, ask) in flow.subscriber.handle_answer(now, from, &message) {
                        self.control.ask(to, &ask);
                    }
                    self.decide(now, answer.key);
                }
                Message::Report(report) => {
                    let flow = self.flows.values_mut().find(|flow| *flow.subscriber.key() == report.key);
                    if let Some(flow) = flow
                        && let Some(update) = flow.handle_report(now, report)
                    {
                        let id = flow.id;
                        self.update(id, update);
                    }
                }
            }
        }
    }

    /// Lets the flow with this key take a new answer into account before it sends anything else.
    fn decide(&mut self, now: Instant, key: Key) {
        let Some(flow) = self.flows.values_mut().find(|flow| *flow.subscriber.key() == key) else { return };
        let path = flow.id.and_then(|id| self.manager.as_ref()?.query(id).ok());
        if let Some(update) = flow.decide(now, path.as_ref()) {
            let id = flow.id;
            self.update(id, update);
        }
    }

    fn update(&self, id: Option<FlowId>, update: Update) {
        if let (Some(manager), Some(id)) = (&self.manager, id) {
            // A daemon that does not believe it says so by an event; in this process the clock is the same.
            let _ = manager.update(id, update);
        }
    }

    /// Opens a flow for each destination that has a queue.
    fn open_flows(&mut self) {
        let new: Vec<SocketAddr> = {
            let sending = self.process.sending();
            sending.queues.keys().filter(|to| !self.flows.contains_key(to)).copied().collect()
        };
        for to in new {
            let settings = &self.process.settings;
            let flow = Flow::new(clock::now(), to, settings.feedback_port, random_key(), settings.rate);
            self.flows.insert(to, flow);
        }
        if self.flows.values().any(|flow| flow.id.is_none()) {
            self.open_in_manager();
        }
    }

    fn open_in_manager(&mut self) {
        if self.manager.is_none() {
            self.manager = open_manager();
        }
        let Some(manager) = &self.manager else {
            // Datagrams leave as they are from now on, and those in the queues at once.
            self.process.sending().has_failed = true;
            for to in self.flows.keys().copied().collect::<Vec<_>>() {
                while self.send_next(to) > 0 {}
            }
            return;
        };
        for (&to, flow) in self.flows.iter_mut().filter(|(_, flow)| flow.id.is_none()) {
            let spec = FlowSpec { remote: Some(to), ..FlowSpec::to(to.ip().into(), PACKET) };
            // While a daemon is gone there is none; it is opened when it is back.
            if let Ok(id) = manager.open_flow(spec) {
                flow.id = Some(id);
                self.by_id.insert(id, to);
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.manager.as_ref().and_then(CongestionManager::poll_event) {
            match event {
                Event::Granted(id) => self.granted(id),
                Event::Refused { flow, why, value } => self.refused(flow, why, value),
                Event::Disconnected => {
                    self.by_id.clear();
                    self.flows.values_mut().for_each(Flow::lose);
                }
                // Flows are opened at the next turn, and requests are made anew.
                _ => {}
            }
        }
    }

    /// Handles a refusal of the daemon, which comes after the call.
    fn refused(&mut self, id: FlowId, why: Refusal, value: u64) {
        let Some(flow) = self.by_id.get(&id).and_then(|to| self.flows.get_mut(to)) else { return };
        match why {
            // The grant had expired at the daemon, but the datagram was sent.
            Refusal::NotGranted => self.manager.iter().for_each(|manager| charge(manager, id, value)),
            Refusal::Implausible | Refusal::MoreThanSent => flow.was_disbelieved(clock::now() + BELIEF, value),
            Refusal::OverLimit => flow.requested = flow.requested.saturating_sub(value as usize),
            Refusal::UnknownFlow => {}
        }
    }

    fn granted(&mut self, id: FlowId) {
        let Some(&to) = self.by_id.get(&id) else { return };
        if let Some(flow) = self.flows.get_mut(&to) {
            flow.requested = flow.requested.saturating_sub(1);
        }
        let sent = self.send_next(to);
        let Some(manager) = &self.manager else { return };
        let _ = manager.answer_grant(id, sent.min(PACKET));
        charge(manager, id, sent.saturating_sub(PACKET));
    }

    /// Sends the next datagram of a destination; returns its bytes, 0 if there was none.
    fn send_next(&mut self, to: SocketAddr) -> u64 {
        let Some(flow) = self.flows.get_mut(&to) else { return 0 };
        let now = clock::now();
        // The program's sockets stay open while it is locked.
        let mut sending = self.process.sending();
        let Some(queue) = sending.queues.get_mut(&to) else { return 0 };
        let Some(next) = queue.pop(now) else { return 0 };
        if next.outlet.send(&next.datagram).is_err() {
            self.is_blocked = true;
            queue.put_back(next);
            return 0;
        }
        drop(sending);
        let headers = if to.is_ipv4() { HEADERS.0 } else { HEADERS.1 };
        let bytes = headers + next.datagram.payload.len() as u64;
        flow.sent(now, &next.datagram.payload, bytes);
        self.process.has_room();
        bytes
    }

    fn drive_flows(&mut self) {
        let all: Vec<SocketAddr> = self.flows.keys().copied().collect();
        all.into_iter().for_each(|to| self.drive(to));
    }

    fn drive(&mut self, to: SocketAddr) {
        let now = clock::now();
        let Some(flow) = self.flows.get_mut(&to) else { return };
        for (at, ask) in flow.subscriber.poll_transmit(now) {
            self.control.ask(at, &ask);
        }
        let id = flow.id;
        let path = id.and_then(|id| self.manager.as_ref()?.query(id).ok());
        let before = flow.pace();
        let mut updates = Vec::from_iter(flow.decide(now, path.as_ref()));
        updates.extend(std::iter::from_fn(|| flow.handle_timeout(now)));
        let pace = flow.pace();
        if pace != before {
            self.tell(to, pace);
        }
        updates.into_iter().for_each(|update| self.update(id, update));
        while self.flows.get(&to).is_some_and(|flow| flow.may_leave(now)) {
            let sent = self.send_next(to);
            if sent == 0 {
                break;
            }
            if let (Some(manager), Some(id)) = (&self.manager, id) {
                charge(manager, id, sent);
            }
        }
        self.bound(now, to, path.as_ref());
        self.request(to);
        self.close_idle(now, to);
    }

    /// Drops what is too old, and bounds the queue.
    fn bound(&self, now: Instant, to: SocketAddr, path: Option<&PathState>) {
        let Some(flow) = self.flows.get(&to) else { return };
        let mut sending = self.process.sending();
        let Some(queue) = sending.queues.get_mut(&to) else { return };
        if let Some(rate) = flow.queue_rate(path) {
            queue.fit(rate);
        }
        let has_expired = queue.expire(now);
        let (sent, expired) = (queue.sent, queue.expired);
        let arrived = (flow.pace() == Pace::Reports || flow.tracker.arrivals > 0).then_some(flow.tracker.arrivals);
        let rate = path.filter(|path| path.srtt.is_some()).map(|path| path.rate);
        let figures = Figures { sent, expired, arrived, rate, rtt: path.and_then(|path| path.srtt) };
        if sending.figures.len() < MAX_FIGURES || sending.figures.contains_key(&to) {
            sending.figures.insert(to, figures);
        }
        drop(sending);
        if has_expired {
            self.process.has_room();
        }
    }

    /// Requests a grant for each queued datagram, up to a limit.
    fn request(&mut self, to: SocketAddr) {
        let Some(flow) = self.flows.get_mut(&to).filter(|flow| flow.pace().is_granted()) else { return };
        let (Some(manager), Some(id)) = (&self.manager, flow.id) else { return };
        let wanted = self.process.sending().queues.get(&to).map_or(0, |queue| queue.len().min(REQUESTS));
        if let Some(more) = wanted.checked_sub(flow.requested).filter(|&more| more > 0)
            && manager.request_many(id, more as u32).is_ok()
        {
            flow.requested = wanted;
        }
    }

    fn close_idle(&mut self, now: Instant, to: SocketAddr) {
        let Some(flow) = self.flows.get(&to) else { return };
        if now.saturating_since(flow.last_sent) < IDLE {
            return;
        }
        let mut sending = self.process.sending();
        if sending.queues.get(&to).is_some_and(|queue| queue.len() > 0) {
            return;
        }
        sending.queues.remove(&to);
        drop(sending);
        if let Some(id) = self.flows.remove(&to).and_then(|flow| flow.id) {
            self.by_id.remove(&id);
            // It is open, unless the daemon is gone.
            let _ = self.manager.as_ref().map(|manager| manager.close(id));
        }
    }

    /// Says what paces a flow whose receiver does not report.
    fn tell(&self, to: SocketAddr, pace: Pace) {
        let what = match pace {
            Pace::Asking | Pace::Reports => return,
            Pace::Others => "follows what other flows learn of the path".to_owned(),
            Pace::Rate(rate) => format!("keeps the rate of --rate, {} kbit/s", rate.as_bps() / 1_000),
            Pace::LowVolume => {
                "sends one datagram every three seconds (RFC 8085): run the receiver under 'timeous run', \
                                or say by --rate what the path bears"
                    .to_owned()
            }
        };
        say(&format!("{}: {to} sends no reports; {what}", program()));
    }

    fn report(&mut self) {
        loop {
            let next = self.process.receiving().reporter.poll_transmit(clock::now());
            let Some((to, report)) = next else { return };
            self.control.report(to, &report);
        }
    }

    fn sleep(&mut self) {
        self.process.falls_asleep();
        let now = clock::now();
        let due = self.due(now);
        if due > now {
            let left = std::time::Duration::from(due.saturating_since(now));
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let manager = self.manager.as_ref().map(AsFd::as_fd);
            let all = self.control.descriptors().chain(manager).chain([self.process.bell()]);
            let mut all: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            // An interrupted sleep is a shorter one.
            let _ = poll(&mut all, Some(&left));
        }
        self.process.wakes();
        self.is_blocked = false;
    }

    /// Time of the next turn, unless something happens before. Looked at after the sleep was announced, so that nothing is missed.
    fn due(&self, now: Instant) -> Instant {
        let sending = self.process.sending();
        if sending.queues.keys().any(|to| !self.flows.contains_key(to)) && !sending.has_failed {
            return now;
        }
        let queued = |to: &SocketAddr| sending.queues.get(to).map_or(0, SendQueue::len);
        let is_behind = |(to, flow): (&SocketAddr, &Flow)| {
            flow.id.is_some() && flow.pace().is_granted() && queued(to).min(REQUESTS) > flow.requested
        };
        if self.is_blocked {
            return now + RETRY;
        }
        if self.flows.iter().any(is_behind) {
            return now;
        }
        let flows = self.flows.iter().map(|(to, flow)| flow.poll_timeout(queued(to) > 0));
        let reports = self.process.receiving().reporter.poll_timeout();
        flows.chain(sending.expiry()).chain(reports).fold(now + LONGEST_SLEEP, Instant::min)
    }
}

/// Charges bytes that left without a grant, in packets.
fn charge(manager: &CongestionManager, id: FlowId, mut bytes: u64) {
    while bytes > 0 {
        let packet = bytes.min(PACKET);
        let _ = manager.notify_unasked(id, packet);
        bytes -= packet;
    }
}

/// The daemon's manager if there is one, else this process's own.
fn open_manager() -> Option<CongestionManager> {
    match CongestionManager::open(ManagerLocation::Auto) {
        Ok(manager) => Some(manager),
        Err(refused) => match CongestionManager::open(ManagerLocation::InProcess) {
            Ok(manager) => {
                say(&format!("{}: without the daemon: {refused}", program()));
                Some(manager)
            }
            Err(error) => {
                say(&format!("{}: no congestion control: {error}", program()));
                None
            }
        },
    }
}
