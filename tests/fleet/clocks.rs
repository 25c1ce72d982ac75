//! Clocks of replicas that differ by a day. Leases go by each replica's monotonic clock and by the
//! Redis's own. A wall clock is read for one thing only, the age of the configuration file when it is
//! loaded, by which is told which of two configurations is newer. (Replicas whose clocks are days
//! apart, beside a store with yet another: `src/quota/replica/tests`; a clock that differs from what
//! the file says: `src/config/revision.rs`.)

use crate::rig::{Fleet, LONG, Load, Plan, SECOND, Status, ask, stream};
use crate::support::{Call, Gate, Leave, Proto, eventually};
use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Nothing that decides about a slot can read a wall clock: it is not in the source.
#[test]
fn no_wall_clock_is_read_where_slots_are_counted() {
    let mut files = Vec::new();
    for part in ["quota", "admission", "core", "lifecycle", "upstream", "proxy"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(part), &mut files);
    }
    assert!(files.len() > 50, "{}", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for clock in ["SystemTime", "UNIX_EPOCH", "Realtime", "chrono::", "Utc::now"] {
            assert!(!text.contains(clock), "{} reads {clock}", file.display());
        }
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A configuration file that says it is from tomorrow, read by the replica.
async fn dated_tomorrow(gate: &Gate) {
    let file = File::options().append(true).open(gate.directory().join("streamgate.yaml")).unwrap();
    file.set_times(FileTimes::new().set_modified(SystemTime::now() + DAY)).unwrap();
    gate.take_output();
    gate.signal("HUP");
    gate.says(&["the new configuration is in force"]).await;
}

async fn cap(gate: &Gate, from: usize, to: usize) {
    let path = gate.directory().join("streamgate.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, after) = (format!("max_in_flight: {from}\n"), format!("max_in_flight: {to}\n"));
    assert!(text.contains(&before), "{text}");
    gate.take_output();
    std::fs::write(&path, text.replace(&before, &after)).unwrap();
    gate.signal("HUP");
    gate.says(&["the new configuration is in force"]).await;
}

async fn refused(gate: &Gate) -> bool {
    ask(gate.proxy, &stream("a", 1)).await.kind == "429 tenant_in_flight"
}

/// The configuration that was put in place last counts on all, also where another says that it is
/// from tomorrow; the cap is one and exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_reload_counts_beside_a_configuration_of_tomorrow() {
    let mut fleet = Fleet::start(Plan::new(4)).await;
    dated_tomorrow(&fleet.gates[1]).await;
    let load = Load::start(fleet.addresses(), 15, 5);
    sleep(2 * SECOND).await;
    load.stop().await.assert_answered(&["complete", "429 tenant_in_flight"]);
    fleet.assert_exact("a configuration of tomorrow");
    fleet.all_back().await;

    // Lowered on another replica alone.
    let mut held = vec![fleet.hold(1).await, fleet.hold(2).await];
    cap(&fleet.gates[0], 4, 2).await;
    all_refuse(&fleet, "two of two are held").await;
    // Raised on a third, after the first of tomorrow was lowered.
    cap(&fleet.gates[1], 4, 2).await;
    dated_tomorrow(&fleet.gates[1]).await;
    all_refuse(&fleet, "still two of two").await;
    cap(&fleet.gates[2], 4, 3).await;
    held.push(fleet.hold(2).await);
    all_refuse(&fleet, "three of three are held").await;
    // Raised again, when the one of tomorrow is gone.
    drop(held.remove(0));
    fleet.gates.remove(1).signal("KILL");
    cap(&fleet.gates[0], 2, 4).await;
    for _ in 0..2 {
        held.push(held_soon(&fleet).await);
    }
    all_refuse(&fleet, "four of four are held").await;
    for call in held {
        call.leave(Leave::Close).await;
    }
    fleet.all_back().await;
    fleet.assert_most(4);
}

async fn all_refuse(fleet: &Fleet, why: &str) {
    for gate in &fleet.gates {
        eventually(why, || async { refused(gate).await.then_some(()) }).await;
    }
}

/// A stream at the first replica, once the slots of a killed one are free.
async fn held_soon(fleet: &Fleet) -> Call {
    eventually("a slot comes free", || async {
        let mut call = Call::start(Proto::H1, fleet.gates[0].proxy, &stream("a", LONG)).await;
        matches!(call.head().await, Some((200, _))).then_some(call)
    })
    .await
}
