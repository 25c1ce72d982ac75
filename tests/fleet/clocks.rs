//! Clocks of replicas that differ by a day. Leases go by each replica's monotonic clock and by the
//! Redis's own; the only wall-clock time that is read is that of the configuration file, to tell
//! which of two configurations is newer.

use crate::rig::{Fleet, Load, Plan, SECOND, Status, ask, stream};
use crate::support::{Gate, Leave, eventually};
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

/// A configuration file as a node writes it whose clock is a day ahead, read by the replica.
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

/// One node is a day ahead. The cap is one and exact; when it is lowered everywhere it falls; when
/// that node is gone and its time still counts as the newest, the stricter thing that can happen is
/// that its cap stays, and clearing the key mends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configurations_a_day_apart() {
    let mut fleet = Fleet::start(Plan::new(4)).await;
    dated_tomorrow(&fleet.gates[1]).await;
    let load = Load::start(fleet.addresses(), 15, 5);
    sleep(2 * SECOND).await;
    load.stop().await.assert_answered(&["complete", "429 tenant_in_flight"]);
    fleet.assert_exact("a configuration of tomorrow");
    fleet.all_back().await;

    // Lowered on all, the one that is ahead included.
    for gate in &fleet.gates {
        cap(gate, 4, 2).await;
    }
    dated_tomorrow(&fleet.gates[1]).await;
    let held = [fleet.hold(1).await, fleet.hold(0).await];
    for gate in &fleet.gates {
        assert!(refused(gate).await, "two of two are held");
    }
    // The node that was ahead is gone; the others are given a larger cap.
    fleet.gates.remove(1).signal("KILL");
    let [gone, here] = held;
    drop(gone);
    for gate in &fleet.gates {
        cap(gate, 2, 3).await;
    }
    redis::cmd("DEL").arg("sg:{q0}").query::<()>(&mut fleet.redis.connect()).unwrap();
    fleet.gates[0].says(&["lost its memory"]).await;
    for gate in &fleet.gates {
        gate.calm().await;
    }
    let more = [fleet.hold(0).await, fleet.hold(1).await];
    eventually("three of three are held", || async {
        refused(&fleet.gates[1]).await.then_some(())
    })
    .await;
    for call in more.into_iter().chain([here]) {
        call.leave(Leave::Close).await;
    }
    fleet.all_back().await;
    fleet.assert_most(4);
}
