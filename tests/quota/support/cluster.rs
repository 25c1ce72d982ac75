//! Two nodes of a real Redis Cluster.

use super::server::RedisServer;
use std::time::{Duration, Instant};

/// How long two nodes may take to find each other.
const READY: Duration = Duration::from_secs(20);

/// `CLUSTER …`.
pub fn cluster(connection: &mut redis::Connection, words: &[&str]) -> redis::Value {
    let mut cmd = redis::cmd("CLUSTER");
    words.iter().for_each(|word| {
        cmd.arg(*word);
    });
    cmd.query(connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Two nodes, each with half of the slots.
pub fn nodes() -> [RedisServer; 2] {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "3000"];
    let nodes = [RedisServer::start(&options), RedisServer::start(&options)];
    for (node, range) in nodes.iter().zip([["0", "8191"], ["8192", "16383"]]) {
        cluster(&mut node.connect(), &["ADDSLOTSRANGE", range[0], range[1]]);
    }
    let port = nodes[1].port().to_string();
    cluster(&mut nodes[0].connect(), &["MEET", "127.0.0.1", &port]);
    let end = Instant::now() + READY;
    while !nodes.iter().all(serves) {
        assert!(Instant::now() < end, "the cluster serves all slots within {READY:?}");
        std::thread::yield_now();
    }
    nodes
}

fn serves(node: &RedisServer) -> bool {
    let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut node.connect()).unwrap();
    info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")
}

/// The URL by which replicas find both.
pub fn url(nodes: &[RedisServer; 2]) -> String {
    format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", nodes[0].port(), nodes[1].port())
}
