//! Several replicas and a Redis that behaves.

use crate::relay::Mode;
use crate::rig::{Fleet, LEASE, Load, MS, Plan, SECOND, Status, ask, stream};
use crate::support::{Call, Leave, eventually};
use tokio::time::{Instant, sleep};

/// Case 5: bursts over three replicas, round robin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_share_one_cap() {
    let fleet = Fleet::start(Plan::new(5)).await;
    fleet.relays[1].set(Mode { delay: 10 * MS, ..Mode::default() });
    fleet.relays[2].set(Mode { delay: 30 * MS, ..Mode::default() });
    let load = Load::start(fleet.addresses(), 30, 5);
    sleep(4 * SECOND).await;
    let tally = load.stop().await;
    println!("{:?}", tally.kinds());
    tally.assert_answered(&["complete", "429 tenant_in_flight"]);
    fleet.assert_exact("three replicas, round robin");
    fleet.all_back().await;
}

/// Case 8: the slot that ended on one replica is admitted on the other, which had been refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_comes_free_on_one_replica_is_there_on_the_other() {
    let fleet = Fleet::start(Plan::new(2).replicas(2)).await;
    for _ in 0..5 {
        let (here, there) = (fleet.hold(0).await, fleet.hold(1).await);
        assert_eq!(ask(fleet.gates[1].proxy, &stream("a", 1)).await.kind, "429 tenant_in_flight");
        here.leave(Leave::Close).await;
        fleet.runs(1).await;
        let begun = Instant::now();
        eventually("a slot on the other replica", || async {
            let seen = ask(fleet.gates[1].proxy, &stream("a", 1)).await;
            (seen.kind == "complete").then_some(())
        })
        .await;
        let took = begun.elapsed();
        assert!(took < LEASE / 2, "no lease had to end: {took:?}");
        there.leave(Leave::Close).await;
        fleet.all_back().await;
    }
    fleet.assert_most(2);
}

/// Case 11: a setting that has nothing to do with it changes under load, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_of_something_else_keeps_all_counts() {
    let fleet = Fleet::start(Plan::new(4)).await;
    let held = [fleet.hold(0).await, fleet.hold(1).await];
    let load = Load::start(fleet.addresses(), 12, 5);
    for round in 1..=4 {
        for gate in &fleet.gates {
            let path = gate.directory().join("streamgate.yaml");
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("slo:").next().unwrap().to_owned();
            gate.take_output();
            std::fs::write(&path, text + &format!("slo:\n  ttft: {round}s\n")).unwrap();
            gate.signal("HUP");
            gate.says(&["the new configuration is in force"]).await;
        }
    }
    let tally = load.stop().await;
    println!("{:?}", tally.kinds());
    tally.assert_answered(&["complete", "429 tenant_in_flight"]);
    fleet.assert_exact("reloads under load");
    for call in held {
        call.leave(Leave::Close).await;
    }
    fleet.all_back().await;
}

/// A cap that falls below what is held takes nothing away and grants nothing until enough ended;
/// the replicas hear of it one after another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_lowered_below_what_is_held() {
    let fleet = Fleet::start(Plan::new(4)).await;
    let mut held = Vec::new();
    for at in [0, 1, 2, 0] {
        held.push(fleet.hold(at).await);
    }
    lower(&fleet, 0, 2).await;
    for gate in &fleet.gates {
        assert_eq!(ask(gate.proxy, &stream("a", 1)).await.kind, "429 tenant_in_flight");
    }
    fleet.runs(4).await;
    end(&fleet, &mut held, 3).await;
    // Two run. Replicas with the old configuration follow the newer one too.
    end(&fleet, &mut held, 2).await;
    for gate in &fleet.gates {
        let kind = ask(gate.proxy, &stream("a", 1)).await.kind;
        assert_eq!(kind, "429 tenant_in_flight", "two of two are held");
    }
    lower(&fleet, 1, 2).await;
    lower(&fleet, 2, 2).await;
    fleet.engine.reset_stats();
    end(&fleet, &mut held, 1).await;
    let load = Load::start(fleet.addresses(), 9, 3);
    sleep(2 * SECOND).await;
    let tally = load.stop().await;
    tally.assert_answered(&["complete", "429 tenant_in_flight"]);
    assert!(tally.count("complete") > 0, "{:?}", tally.kinds());
    fleet.assert_most(2);
    end(&fleet, &mut held, 0).await;
    fleet.all_back().await;
}

async fn end(fleet: &Fleet, held: &mut Vec<Call>, left: usize) {
    while held.len() > left {
        held.pop().unwrap().leave(Leave::Close).await;
    }
    fleet.runs(left).await;
}

async fn lower(fleet: &Fleet, replica: usize, cap: usize) {
    let gate = &fleet.gates[replica];
    let path = gate.directory().join("streamgate.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let before = format!("max_in_flight: {}\n", fleet.plan.cap);
    assert!(text.contains(&before));
    std::fs::write(&path, text.replace(&before, &format!("max_in_flight: {cap}\n"))).unwrap();
    gate.signal("HUP");
    eventually("the new cap is in force", || async {
        let state = gate.state().await;
        let tenants = state["tenants"].as_array().unwrap().clone();
        tenants.iter().any(|t| t["tenant"] == "a" && t["limit"] == cap).then_some(())
    })
    .await;
}
