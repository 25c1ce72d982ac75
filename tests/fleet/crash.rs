//! A replica dies, and one that lives holds on.

use crate::rig::{Fleet, LEASE, Load, Plan, SECOND, SLACK, stream};
use crate::support::{Call, Leave, Proto, eventually};
use tokio::time::{Instant, sleep_until};

/// Case 10, both halves: `kill -9` of a replica that holds all slots but one; that one is a silent
/// stream of another replica, which keeps it for five leases under the load of everybody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_replica_gives_back_and_a_silent_stream_keeps() {
    let mut fleet = Fleet::start(Plan::new(4)).await;
    let silent = stream("a", 10).fault("stall-after=2");
    let begun = Instant::now();
    let mut silent = Call::start(Proto::H1, fleet.gates[1].proxy, &silent).await;
    assert_eq!(silent.head().await.expect("an answer").0, 200);
    let dead = [fleet.hold(0).await, fleet.hold(0).await, fleet.hold(0).await];
    fleet.runs(4).await;

    let load = Load::start(vec![fleet.gates[1].proxy, fleet.gates[2].proxy], 10, 5);
    eventually("the clients are refused", || async {
        (load.so_far().count("429 tenant_in_flight") > 20).then_some(())
    })
    .await;
    assert_eq!(load.so_far().count("complete"), 0, "all slots are held");
    let killed = Instant::now();
    fleet.gates.remove(0).signal("KILL");
    eventually("a slot of the killed replica is used", || async {
        (load.so_far().count("complete") > 0).then_some(())
    })
    .await;
    let first = load.so_far().first("complete").expect("there is one");
    let took = first.duration_since(killed);
    println!("slots of a killed replica: usable {took:?} after kill -9, lease {LEASE:?}");
    assert!(took <= LEASE + SECOND + SLACK, "{took:?}");

    sleep_until(begun + 5 * LEASE).await;
    let tally = load.stop().await;
    println!("{:?}", tally.kinds());
    tally.assert_answered(&["complete", "429 tenant_in_flight"]);
    fleet.assert_exact("a killed replica and a silent stream of five leases");
    // Still there, still counted: with it, exactly three more fit.
    fleet.runs(1).await;
    let mut rest = Vec::new();
    for at in [0, 1, 0] {
        rest.push(fleet.hold(at).await);
    }
    let one_more = crate::rig::ask(fleet.gates[1].proxy, &stream("a", 1)).await;
    assert_eq!(one_more.kind, "429 tenant_in_flight");
    for call in rest.into_iter().chain([silent]) {
        call.leave(Leave::Close).await;
    }
    drop(dead);
    fleet.all_back().await;
}
