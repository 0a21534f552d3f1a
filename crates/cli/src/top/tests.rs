//! Tests of the full screen: rendering at several terminal sizes, and keys.

use std::net::{IpAddr, Ipv4Addr};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use timeous::core::Duration;
use timeous_daemon::view::{Client, Flow, Health, Macroflow, Totals, View};

use super::app::{App, KeyCommand};
use super::history::History;
use super::plain::plain;
use super::screen::draw;
use super::table::{Layout, Order};

fn flow(id: u64, client: u64, sent: u64) -> Flow {
    Flow {
        id,
        client,
        weight: if id == 4 { 3 } else { 1 },
        mtu_bytes: 1_200,
        outstanding_bytes: 6_000,
        waiting: 2,
        grants: 1,
        local: None,
        remote: Some((Ipv4Addr::new(192, 0, 2, 1), 4_000 + id as u16).into()),
        totals: Totals { sent_bytes_total: sent, ..Totals::default() },
    }
}

fn macroflow(id: u64, address: &str, user: Option<u32>, sent: u64) -> Macroflow {
    Macroflow {
        id,
        address: address.parse().unwrap(),
        dscp: 0,
        source: None,
        user,
        controller: "cubic".to_owned(),
        scheduling: "roundRobin".to_owned(),
        window_bytes: 12_000 * (id + 1),
        threshold_bytes: None,
        outstanding_bytes: 9_000,
        rate_bps: 1_500_000 * 4_u64.saturating_sub(id),
        srtt_us: Some(40_500),
        rttvar_us: 4_000,
        min_rtt_us: Some(30_000),
        loss_ppm: 12_500,
        grants: 2,
        waiting: 5,
        losses_total: 3,
        marks_total: 4,
        timeouts_total: 1,
        totals: Totals { sent_bytes_total: sent, ..Totals::default() },
        flows: Vec::new(),
    }
}

/// View of the daemon `seconds` after the first snapshot; the macroflows send 0.5, 2 (in waves) and 1 Mbit/s.
fn view(seconds: u64) -> View {
    let (slow, fast, wave) = (62_500 * seconds, 125_000 * seconds, [0, 1, 4, 9, 4, 1, 0, 2]);
    let waves = (0..seconds).map(|at| 50_000 * wave[at as usize % wave.len()]).sum::<u64>();
    let mut first = macroflow(0, "192.0.2.1", Some(1000), slow);
    first.flows = vec![flow(1, 1, slow / 2), flow(4, 2, slow / 2)];
    let mut second = macroflow(1, "198.51.100.7", None, waves);
    second.dscp = 46;
    second.flows = vec![flow(2, 0, waves)];
    let mut third = macroflow(3, "2001:db8::17", Some(1001), fast);
    third.srtt_us = None;
    View {
        version: "0.1.0".to_owned(),
        pid: 4_242,
        at_ns: 1_000_000_000 * (100 + seconds),
        uptime_ms: 1_000 * (300 + seconds),
        clients: vec![Client { id: 1, pid: 5_001, uid: 1000 }, Client { id: 2, pid: 5_002, uid: 1000 }],
        macroflows: vec![first, second, third],
        health: Health { paths_remembered: 12, ..Health::default() },
    }
}

fn watched(seconds: u64) -> App {
    let mut app = App::new(Layout::default(), Duration::from_secs(1));
    (0..=seconds).for_each(|at| app.seen(Ok(view(at))));
    app
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            draw(frame, app);
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(line).collect()
}

fn press(app: &mut App, code: KeyCode) -> KeyCommand {
    app.key(KeyEvent::new(code, KeyModifiers::NONE), 5)
}

#[test]
fn a_wide_terminal_shows_all() {
    insta::assert_snapshot!(screen(&mut watched(19), 132, 12));
}

#[test]
fn a_usual_terminal_shows_what_matters() {
    insta::assert_snapshot!(screen(&mut watched(19), 80, 12));
}

#[test]
fn a_small_terminal_scrolls_and_the_picked_row_is_on_it() {
    let mut app = watched(19);
    (0..3).for_each(|_| assert_eq!(press(&mut app, KeyCode::Down), KeyCommand::Stay));
    insta::assert_snapshot!(screen(&mut app, 46, 6));
    assert_eq!((app.selected, app.offset), (3, 2));
    // A larger window shows the top again; a tiny one must not panic.
    screen(&mut app, 80, 24);
    assert_eq!((app.selected, app.offset), (3, 0));
    for (width, height) in [(1, 1), (3, 2), (200, 3), (20, 1)] {
        screen(&mut app, width, height);
    }
    press(&mut app, KeyCode::PageDown);
    assert_eq!(app.selected, 5);
    press(&mut app, KeyCode::Home);
    assert_eq!(app.selected, 0);
}

#[test]
fn help_is_over_the_table_until_it_is_closed() {
    let mut app = watched(2);
    press(&mut app, KeyCode::Char('?'));
    insta::assert_snapshot!(screen(&mut app, 84, 22));
    assert_eq!(press(&mut app, KeyCode::Esc), KeyCommand::Stay, "closes the help, not the program");
    assert!(!screen(&mut app, 84, 22).contains("bytes that may be outstanding"));
    assert_eq!(press(&mut app, KeyCode::Esc), KeyCommand::Quit);
}

#[test]
fn before_the_first_look_and_after_the_last_the_screen_says_why() {
    let mut app = App::new(Layout::default(), Duration::from_secs(1));
    app.seen(Err("no daemon at /run/timeous/daemon.sock".to_owned()));
    assert!(screen(&mut app, 80, 6).contains("no daemon at /run/timeous/daemon.sock"));
    app.seen(Ok(view(0)));
    assert!(!screen(&mut app, 80, 6).contains("no daemon"));
    app.seen(Err("the daemon is gone".to_owned()));
    let gone = screen(&mut app, 80, 12);
    assert!(gone.contains("the daemon is gone") && gone.contains("192.0.2.1"), "what was seen last stays:\n{gone}");
}

#[test]
fn complaints_are_not_overlooked() {
    let mut app = App::new(Layout::default(), Duration::from_secs(1));
    let health = Health { violations_total: 2, qlog_lost_total: 7, ..Health::default() };
    app.seen(Ok(View { health, ..view(0) }));
    let text = screen(&mut app, 100, 6);
    assert!(text.contains("2 clients disconnected for breaking the rules, 7 events lost by the qlog"), "{text}");
}

#[test]
fn another_daemon_counts_anew() {
    let mut app = watched(5);
    app.seen(Ok(View { pid: 1, at_ns: 1_000_000_000 * 200, ..view(0) }));
    assert_eq!(app.history.macroflow(0), None, "the rate is not known yet, and is nothing that fell");
    assert_eq!(app.history.sparkline(0, 20), "");
}

/// First column of each macroflow, in table order.
fn order(app: &App) -> Vec<String> {
    app.rows().into_iter().filter(|row| !row.is_flow).map(|row| row.cells[0].clone()).collect()
}

#[test]
fn rows_are_sorted_by_what_is_asked() {
    let mut app = watched(19);
    let (one, two, three) = ("192.0.2.1", "198.51.100.7 dscp 46", "2001:db8::17");
    // In the last snapshot: 0.5, 3.6 and 1 Mbit/s.
    app.seen(Ok(view(20)));
    let mut seen = Vec::new();
    for _ in 0..8 {
        seen.push((app.layout.order, order(&app)));
        press(&mut app, KeyCode::Char('s'));
    }
    assert_eq!(app.layout.order, Order::Sent, "round and round");
    let expected = [
        (Order::Sent, [two, three, one]),
        (Order::Rate, [one, two, three]),
        (Order::Rtt, [one, two, three]),
        (Order::Loss, [one, two, three]),
        (Order::Window, [three, two, one]),
        (Order::Waiting, [one, two, three]),
        (Order::Flows, [one, two, three]),
        (Order::To, [one, two, three]),
    ];
    for ((order, rows), (by, expected)) in seen.iter().zip(expected) {
        assert_eq!((*order, &rows[..]), (by, &expected.map(str::to_owned)[..]));
    }
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(order(&app), [one, three, two]);
}

#[test]
fn the_picked_row_is_followed_where_rows_change_places() {
    let mut app = App::new(Layout { order: Order::Window, ..Layout::default() }, Duration::from_secs(1));
    app.seen(Ok(view(0)));
    press(&mut app, KeyCode::Char('f'));
    press(&mut app, KeyCode::End);
    assert_eq!(app.rows()[app.selected].cells[0], "192.0.2.1");
    let mut next = view(1);
    next.macroflows[0].window_bytes = 1_000_000;
    app.seen(Ok(next));
    assert_eq!((app.selected, app.rows()[0].cells[0].as_str()), (0, "192.0.2.1"));
    app.seen(Ok(View { macroflows: Vec::new(), ..view(2) }));
    assert_eq!(app.selected, 0);
    screen(&mut app, 80, 10);
}

#[test]
fn keys_fold_pause_and_change_the_pace() {
    let mut app = watched(1);
    assert_eq!(app.rows().len(), 6);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.rows().len(), 3);
    press(&mut app, KeyCode::Char('p'));
    assert!(app.paused && screen(&mut app, 80, 8).contains("paused"));
    for _ in 0..10 {
        press(&mut app, KeyCode::Char('+'));
    }
    assert_eq!(app.interval, Duration::from_millis(250));
    for _ in 0..10 {
        press(&mut app, KeyCode::Char('-'));
    }
    assert_eq!(app.interval, Duration::from_secs(60));
    assert_eq!(press(&mut app, KeyCode::Char(' ')), KeyCommand::Look);
    assert_eq!(press(&mut app, KeyCode::Char('q')), KeyCommand::Quit);
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), 5), KeyCommand::Quit);
}

#[test]
fn plain_text_has_all_columns_but_the_history() {
    insta::assert_snapshot!(plain(&view(0), &History::default(), Layout::default()));
}

#[test]
fn many_macroflows_are_no_burden() {
    let many = |seconds| View {
        macroflows: (0..5_000)
            .map(|id| {
                let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + id));
                Macroflow { rate_bps: id.into(), ..macroflow(id.into(), &address.to_string(), None, 1_000 * seconds) }
            })
            .collect(),
        ..view(seconds)
    };
    let mut app = App::new(Layout { order: Order::Rate, ..Layout::default() }, Duration::from_secs(1));
    (0..3).for_each(|seconds| app.seen(Ok(many(seconds))));
    press(&mut app, KeyCode::End);
    assert!(screen(&mut app, 80, 24).contains("10.0.0.0"), "the last by rate is on the screen");
}
