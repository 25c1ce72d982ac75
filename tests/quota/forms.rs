//! TLS, Sentinel, Cluster, and copies that confirm.

use crate::support::certificates::{Certificates, certificates};
use crate::support::cluster::{cluster, nodes, url};
use crate::support::server::{RedisServer, free_port};
use crate::support::{BOUND, LEASE, MS, Replica, path, settings, stored, until};
use streamgate::config::{Quota, Redis, RedisTls, Secret, StrictFailover};
use streamgate::core::quota::{QuotaStore, StoreFault};
use tokio::time::{Instant, sleep};

fn tls_server(files: &Certificates, clients: &str) -> (RedisServer, String) {
    let port = free_port();
    let (text, cert, key, ca) =
        (port.to_string(), files.file("cert"), files.file("key"), files.file("ca"));
    let server = RedisServer::start(&[
        "--tls-port",
        &text,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        clients,
    ]);
    (server, format!("rediss://127.0.0.1:{port}/0"))
}

fn with_tls(url: &str, tls: RedisTls) -> Quota {
    let plain = settings(url);
    Quota { redis: Redis { tls, ..plain.redis.clone() }, ..plain }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_a_private_authority() {
    let files = certificates();
    let (_server, url) = tls_server(&files, "no");
    let trusting = RedisTls { ca: Some(Secret::from(&files.ca)), client: None };
    let [replica] = Replica::fleet(&with_tls(&url, trusting)).await;
    let _slot = replica.slot(&path("a", 1)).await;

    let stranger = certificates();
    let trusting = RedisTls { ca: Some(Secret::from(&stranger.ca)), client: None };
    let distrusting = Replica::start(&with_tls(&url, trusting));
    until("the certificate is not trusted", || {
        distrusting.store.status().last_fault == Some(StoreFault::Tls)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_a_client_certificate() {
    let files = certificates();
    let (_server, url) = tls_server(&files, "yes");
    let ca = Some(Secret::from(&files.ca));
    let nobody = Replica::start(&with_tls(&url, RedisTls { ca: ca.clone(), client: None }));
    let client = Some((Secret::from(&files.cert), Secret::from(&files.key)));
    let [replica] = Replica::fleet(&with_tls(&url, RedisTls { ca, client })).await;
    let _slot = replica.slot(&path("a", 1)).await;
    until("it asks for a certificate", || {
        nobody.store.status().last_fault == Some(StoreFault::Tls)
    })
    .await;
    assert!(!nobody.store.status().up);
}

/// A primary, its copy, and the connection to each.
struct Pair {
    primary: RedisServer,
    copy: RedisServer,
}

impl Pair {
    async fn start() -> Self {
        let primary = RedisServer::start(&[]);
        let port = primary.port().to_string();
        let copy = RedisServer::start(&["--replicaof", "127.0.0.1", &port]);
        let pair = Self { primary, copy };
        until("the copy is in step", || {
            let info: String =
                redis::cmd("INFO").arg("replication").query(&mut pair.copy.connect()).unwrap();
            info.contains("master_link_status:up")
        })
        .await;
        pair
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_to_the_primary_and_to_its_successor() {
    let mut pair = Pair::start().await;
    let sentinel = RedisServer::sentinel("main", pair.primary.port());
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    until("the sentinel knows the copy", || {
        let known: redis::RedisResult<Vec<redis::Value>> =
            redis::cmd("SENTINEL").arg("REPLICAS").arg("main").query(&mut sentinel.connect());
        known.is_ok_and(|known| known.len() == 1)
    })
    .await;
    let fleet: [_; 2] = Replica::fleet(&settings(&url)).await;
    let path = path("a", 2);
    let (one, _two) = (fleet[0].slot(&path).await, fleet[1].slot(&path).await);
    pair.primary.kill();
    // The copy is promoted; what was held is asserted there, and nothing beside it.
    until("the copy counts both", || stored(&mut pair.copy.connect(), "t:a").0 == 2).await;
    until("both are connected again", || fleet.iter().all(|r| r.store.status().up)).await;
    let _ = tokio::time::timeout(BOUND, fleet[0].full(&path)).await.expect("an answer");
    drop(one);
    let (_slot, _) = fleet[1].slot_soon(&path).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_master_is_said() {
    let primary = RedisServer::start(&[]);
    let sentinel = RedisServer::sentinel("main", primary.port());
    let url = format!("redis+sentinel://127.0.0.1:{}/other", sentinel.port());
    let replica = Replica::start(&settings(&url));
    until("it is not found", || replica.store.status().last_fault == Some(StoreFault::Unreachable))
        .await;
}

fn id(server: &RedisServer) -> String {
    redis::cmd("CLUSTER").arg("MYID").query(&mut server.connect()).unwrap()
}

/// Case 25, and a slot that moves while everything is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_slot_moves() {
    let nodes = nodes();
    let fleet: [_; 2] = Replica::fleet(&settings(&url(&nodes))).await;
    let path = path("a", 2);
    let (one, _two) = (fleet[0].slot(&path).await, fleet[1].slot(&path).await);

    let slot: u16 =
        redis::cmd("CLUSTER").arg("KEYSLOT").arg("sg:{q0}").query(&mut nodes[0].connect()).unwrap();
    let (from, to) = if slot < 8192 { (&nodes[0], &nodes[1]) } else { (&nodes[1], &nodes[0]) };
    let (slot, from_id, to_id) = (slot.to_string(), id(from), id(to));
    cluster(&mut to.connect(), &["SETSLOT", &slot, "IMPORTING", &from_id]);
    cluster(&mut from.connect(), &["SETSLOT", &slot, "MIGRATING", &to_id]);
    redis::cmd("MIGRATE")
        .arg(("127.0.0.1", to.port(), "sg:{q0}", 0, 5000))
        .query::<redis::Value>(&mut from.connect())
        .unwrap();
    for node in [to, from] {
        cluster(&mut node.connect(), &["SETSLOT", &slot, "NODE", &to_id]);
    }
    until("the other node counts both", || stored(&mut to.connect(), "t:a").0 == 2).await;
    until("both are connected", || fleet.iter().all(|r| r.store.status().up)).await;
    let _ = tokio::time::timeout(BOUND, fleet[0].full(&path)).await.expect("an answer");
    drop(one);
    let (_slot, _) = fleet[1].slot_soon(&path).await;
}

fn strict(url: &str) -> Quota {
    Quota { strict_failover: StrictFailover::Wait, ..settings(url) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_strict_failover_nothing_grows_that_no_copy_confirmed() {
    let mut pair = Pair::start().await;
    let [replica] = Replica::fleet(&strict(&pair.primary.url())).await;
    let path = path("a", 4);
    let held = replica.slot(&path).await;
    pair.copy.freeze();
    until("nobody confirms", || {
        replica.store.status().last_fault == Some(StoreFault::NotReplicated)
    })
    .await;
    // The primary answers, and that is not enough.
    until("the lease runs out", || replica.store.status().fenced).await;
    assert!(!held.is_valid());
    let _ = replica.unknown(&path).await;
    pair.copy.thaw();
    let (_slot, _) = replica.slot_soon(&path).await;
    until("it is counted again", || held.is_valid()).await;
}

/// Limit (b): without strict failover, a primary that lost its copy's election grants what the new
/// one grants too. With it, it does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_primary_grants_twice_only_without_strict_failover() {
    for (strict_failover, most) in [(StrictFailover::Off, 2), (StrictFailover::Wait, 1)] {
        let pair = Pair::start().await;
        let old = Quota { strict_failover, ..settings(&pair.primary.url()) };
        let [near] = Replica::fleet(&old).await;
        let path = path("a", 1);
        // The copy is promoted behind the back of the old primary, which goes on serving.
        redis::cmd("REPLICAOF").arg("NO").arg("ONE").query::<()>(&mut pair.copy.connect()).unwrap();
        let new = Quota { strict_failover: StrictFailover::Off, ..settings(&pair.copy.url()) };
        let far = Replica::ready(&new).await;
        let (_far_slot, _) = far.slot_soon(&path).await;
        let end = Instant::now() + LEASE;
        let mut near_slot = None;
        while near_slot.is_none() && Instant::now() < end {
            if let Ok(streamgate::core::quota::Acquired::Granted(slot)) = near.ask(&path).await {
                near_slot = Some(slot);
            }
            sleep(20 * MS).await;
        }
        let running = 1 + usize::from(near_slot.is_some());
        assert_eq!(running, most, "{strict_failover:?}");
    }
}
