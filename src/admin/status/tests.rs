use super::*;

fn state() -> StateView {
    let state = serde_json::json!({
        "version": "1.2.3",
        "uptime_seconds": 3_725.9,
        "tenants": [
            {"tenant": "interactive", "limit": 4, "mode": "enforce", "in_flight": 3,
             "fleet_in_flight": 4, "queued": 12, "arrivals": 1204, "a_newer_key": {},
             "outcomes": {"complete": 1100, "rejected": 90, "failed": 0, "timed_out": 2}},
            {"tenant": "b\u{1b}[2J", "limit": 2, "mode": "shadow", "in_flight": 0,
             "fleet_in_flight": 0, "queued": 0, "arrivals": 1,
             "outcomes": {"complete": 1, "rejected": 0, "failed": 0, "timed_out": 0}}
        ],
        "pools": [
            {"pool": "l20", "kind": "engines", "demand": 3, "endpoints": [
                {"endpoint": "127.0.0.1:8001", "state": "ready", "in_flight": 3},
                {"endpoint": "127.0.0.1:8002", "state": "draining", "in_flight": 0}]},
            {"pool": "spare", "kind": "gateway", "demand": 0, "endpoints": []}
        ],
        "store": {"kind": "memory", "up": true},
        "drain": {"state": "serving", "in_flight": 3, "queued": 12}
    });
    serde_json::from_value(state).expect("the shape of a state")
}

#[test]
fn the_table_is_aligned() {
    let expected = "\
streamgate 1.2.3  up 1h 2m 5s  store memory up  drain serving

TENANT       IN FLIGHT  FLEET  LIMIT  QUEUED  ARRIVALS  COMPLETE  REJECTED  TIMED_OUT  MODE
interactive          3      4      4      12      1204      1100        90          2  enforce
b?[2J                0      0      2       0         1         1         0          0  shadow

POOL   KIND     DEMAND  ENDPOINT        STATE     IN FLIGHT
l20    engines       3  127.0.0.1:8001  ready             3
l20    engines       3  127.0.0.1:8002  draining          0
spare  gateway       0  none            -                 0
";
    assert_eq!(render(&state(), false), expected);
}

#[test]
fn colour_changes_nothing_else() {
    let coloured = render(&state(), true);
    let mut plain = coloured.clone();
    for code in ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"] {
        assert!(coloured.contains(code), "{code:?}");
        plain = plain.replace(code, "");
    }
    let trimmed: Vec<_> = plain.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, render(&state(), false).lines().collect::<Vec<_>>());
}

#[test]
fn the_headline_tells_of_trouble() {
    let mut state = state();
    state.drain.state = "draining".into();
    state.store.learning = true;
    state.store.escrow = 2;
    let text = render(&state, false);
    let headline = text.lines().next().expect("a line");
    assert!(headline.contains("store memory learning (2 in escrow)"), "{headline}");
    assert!(headline.ends_with("drain draining (3 in flight, 12 queued)"), "{headline}");
    state.store.escrow = 0;
    (state.store.replicas, state.store.fleet) = (3, 9);
    (state.store.held, state.store.spare, state.store.unfenced) = (5, 2, 1);
    let text = render(&state, false);
    let fleet = "(3 replicas, 9 in flight, 5 held here, 2 of them spare, 1 unfenced)";
    assert!(text.contains(&format!("store memory learning {fleet}  drain")), "{text}");
    state.store.up = false;
    assert!(render(&state, false).contains("store memory down"));
    state.drain_board = Some(DrainBoard { up: false, last_fault: Some("foreign_data".into()) });
    let text = render(&state, false);
    assert!(text.contains("12 queued)  drain board down [foreign_data]\n"), "{text}");
    state.drain_board = Some(DrainBoard { up: true, last_fault: Some("timeout".into()) });
    assert!(!render(&state, false).contains("drain board"), "it answers again");
}
