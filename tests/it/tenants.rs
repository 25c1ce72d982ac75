//! A short interactive tenant beside one that floods: the published experiments T0 and T1 on
//! calibrated simulated engines at ten times their speed, through the built binary.
//!
//! A sends 105 requests of 517 prompt and 64 output tokens, B 105 of 1,477 and 512, in turn, 1.4 a
//! second. Good: complete, TTFT ≤ 2 s, TPOT ≤ 150 ms, E2E ≤ 30 s, of all that were planned.

use std::path::{Path, PathBuf};
use streamgate_loadtests::figures::Group;
use streamgate_loadtests::report::{OnBroken, recompute};
use streamgate_loadtests::run::{Options, run};
use streamgate_loadtests::scenario::Scenario;
use tokio_util::sync::CancellationToken;

/// The figures of both tenants.
async fn tenants(name: &str) -> (Group, Group) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join(format!("loadtests/scenarios/streamgate/{name}.yaml"));
    let scenario = Scenario::read(&file).unwrap();
    assert!(scenario.time_scale >= 10.0);
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        out: folder.path().to_owned(),
        seeds: vec![scenario.seed],
        command: name.to_owned(),
        progress: false,
        streamgate: Some(PathBuf::from(env!("CARGO_BIN_EXE_streamgate"))),
    };
    let ran = run(&scenario, &options, CancellationToken::new()).await.unwrap();
    let (_, figures) = recompute(&ran.records, OnBroken::Refuse).unwrap();
    let of = |tenant: &str| {
        let mut groups = figures.groups.iter();
        let group = groups.find(|group| group.tenant.as_deref() == Some(tenant)).unwrap().clone();
        println!(
            "{name} {tenant}: planned {} dropped {} refused {} broken {} failed {} good {}, \
             generator late by {:?} ms (P99)",
            group.planned,
            group.dropped,
            group.refused,
            group.broken,
            group.failed,
            group.good,
            figures.validity.lag_p99_virtual_ms
        );
        group
    };
    (of("A"), of("B"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_caps_the_flood_drowns_the_short_tenant_and_with_them_it_does_not() {
    let (a, b) = tenants("sg-t0").await;
    assert_eq!((a.planned, b.planned), (105, 105));
    assert!(a.good <= 20, "{a:?}");

    let (a, b) = tenants("sg-t1").await;
    assert_eq!((a.planned, b.planned), (105, 105));
    assert!(a.good >= 104, "{a:?}");
    assert!((93..=97).contains(&b.refused), "{b:?}");
    assert_eq!(a.broken + b.broken + a.failed + b.failed, 0);
}
