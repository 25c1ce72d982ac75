//! A cluster, two fleets on one Redis, and what operators see of a fleet.

use crate::cluster;
use crate::rig::{Fleet, Ledger, Load, Plan, SECOND, Status, ask, stream};
use crate::server::RedisServer;
use crate::support::{Leave, eventually};
use std::process::Command;
use std::sync::Arc;
use tokio::time::sleep;

/// Case 25: a tenant and a pool with a cap each, in one hash of one slot, over a real cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_several_nodes() {
    let nodes = cluster::nodes();
    let url = cluster::url(&nodes);
    let [first, second] = nodes;
    let fleet = Fleet::over(first, Plan::new(5).url(&url).pool("max_in_flight: 4")).await;
    let load = Load::start(fleet.addresses(), 15, 5);
    sleep(2 * SECOND).await;
    let tally = load.stop().await;
    println!("{:?}", tally.kinds());
    tally.assert_only(&["complete", "503 pool_saturated", "503 quota_unavailable"]);
    assert!(tally.count("complete") > 20, "{:?}", tally.kinds());
    println!("cluster: most at the engine {}, cap of the pool 4", fleet.most());
    fleet.assert_most(4);
    fleet.runs(0).await;
    let mut keys = Vec::new();
    for node in [&*fleet.redis, &second] {
        let found: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut node.connect()).unwrap();
        keys.extend(found);
    }
    assert_eq!(keys, ["sg:{q0}"], "everything is in one hash slot");
}

/// Two fleets with prefixes of their own: each has its whole cap, and neither sees the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_fleets_on_one_redis() {
    let redis = Arc::new(RedisServer::start(&[]));
    let plan = |prefix: &str| {
        let url = redis.url();
        Plan::new(2).replicas(2).url(&url).redis(&format!("key_prefix: {prefix}"))
    };
    let (one, two) = (plan("one"), plan("two"));
    let one = Fleet::over(redis.clone(), one).await;
    let two = Fleet::over(redis.clone(), two).await;
    let mut held = Vec::new();
    for fleet in [&one, &two] {
        held.extend([fleet.hold(0).await, fleet.hold(1).await]);
        for gate in &fleet.gates {
            assert_eq!(ask(gate.proxy, &stream("a", 1)).await.kind, "429 tenant_in_flight");
        }
    }
    for fleet in [&one, &two] {
        fleet.assert_exact("one of two fleets");
        let store = fleet.gates[0]
            .status_when("it knows its own fleet", |s| s["replicas"] == 2 && s["fleet"] == 2)
            .await;
        assert_eq!(store["held"], 1, "{store}");
    }
    drop(held);
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.connect()).unwrap();
    keys.sort();
    assert_eq!(keys, ["one:{q0}", "two:{q0}"]);
}

/// State, status and metrics of each replica, against what runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_replica_shows_the_fleet() {
    let fleet = Fleet::start(Plan::new(4)).await;
    let held = [fleet.hold(0).await, fleet.hold(0).await, fleet.hold(1).await];
    for (gate, here) in fleet.gates.iter().zip([2, 1, 0]) {
        let store = gate
            .status_when("three run, three replicas", |s| s["fleet"] == 3 && s["replicas"] == 3)
            .await;
        let number = |key: &str| store[key].as_u64().unwrap();
        assert_eq!(number("held") - number("spare"), here, "{store}");
        assert_eq!((number("escrow"), number("unfenced")), (0, 0), "{store}");
        let state = gate.state().await;
        let tenants = state["tenants"].as_array().unwrap();
        let tenant = tenants.iter().find(|tenant| tenant["tenant"] == "a").unwrap();
        assert_eq!((&tenant["in_flight"], &tenant["fleet_in_flight"]), (&here.into(), &3.into()));
        shown(gate.admin, here);
        let metrics = gate.metrics().await;
        for (name, value) in [
            ("streamgate_quota_store_up", 1.0),
            ("streamgate_quota_fenced", 0.0),
            ("streamgate_quota_learning", 0.0),
            ("streamgate_quota_escrow", 0.0),
            ("streamgate_quota_unfenced_requests", 0.0),
            ("streamgate_quota_replicas", 3.0),
            ("streamgate_fleet_in_flight", 3.0),
        ] {
            assert!((metrics.sum(name) - value).abs() < 0.1, "{name} {}", metrics.sum(name));
        }
        for op in ["connect", "join", "beat", "look"] {
            let count = metrics.sum_where("streamgate_quota_store_seconds_count", &[("op", op)]);
            assert!(count >= 1.0, "{op} {count}");
        }
    }
    for call in held {
        call.leave(Leave::Close).await;
    }
    fleet.all_back().await;
    let ledger = Ledger::of(fleet.redis.port());
    eventually("the pool is counted down too", || async {
        (ledger.held("p:p").ok()? == (0, 0)).then_some(())
    })
    .await;
}

fn shown(admin: std::net::SocketAddr, here: u64) {
    let output = Command::new(env!("CARGO_BIN_EXE_streamgate"))
        .args(["status", "--admin", &format!("http://{admin}")])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("store redis up (3 replicas"), "{text}");
    let row = text.lines().find(|line| line.starts_with("a ")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells[1..4], [&*here.to_string(), "3", "4"], "in flight, fleet, limit: {text}");
}
