//! Shadow tenants: decided and reported, never refused, never delayed.

use super::*;

fn shadow(cap: u32, on_limit: OnLimit) -> AdmitRequest {
    request(TenantPolicy { mode: Mode::Shadow, ..policy("a", cap, on_limit) })
}

#[tokio::test(start_paused = true)]
async fn above_the_cap_it_runs_without_a_slot_and_says_so() {
    let rig = Rig::new();
    let first = rig.admit(shadow(1, OnLimit::Reject)).await.unwrap();
    assert_eq!((first.shadow_refusal, first.permit.has_slot()), (None, true));
    let second = rig.admit(shadow(1, OnLimit::Reject)).await.unwrap();
    assert_eq!(second.shadow_refusal, Some(Reason::TenantInFlight));
    assert!(!second.permit.has_slot());
    assert_eq!((rig.held("a"), rig.holders.in_flight()), (1, 2));
    drop((first, second));
    assert_eq!(rig.recorded.0.lock().unwrap().len(), 1, "only a held slot has a hold time");
    rig.assert_nothing_left("a");
}

#[tokio::test(start_paused = true)]
async fn the_pool_and_the_store_do_not_refuse_it_either() {
    let rig = Rig::new();
    let _first = rig.admit(in_pool(shadow(9, OnLimit::Reject), "p", Some(1))).await.unwrap();
    let second = rig.admit(in_pool(shadow(9, OnLimit::Reject), "p", Some(1))).await.unwrap();
    assert_eq!(second.shadow_refusal, Some(Reason::PoolSaturated));

    let rig = Rig::over(Troubled::failing(StoreError::Timeout));
    let blind = rig.admit(shadow(1, OnLimit::Reject)).await.unwrap();
    assert_eq!(blind.shadow_refusal, Some(Reason::QuotaUnavailable));
}

#[tokio::test(start_paused = true)]
async fn a_queueing_tenant_is_not_delayed_and_its_queue_is_imagined() {
    let rig = Rig::new();
    let queue = OnLimit::Queue { max_depth: 2, max_wait: Duration::from_secs(10) };
    let before = Instant::now();
    let mut permits = Vec::new();
    let mut said = Vec::new();
    for _ in 0..5 {
        let admitted = rig.admit(shadow(1, queue)).await.unwrap();
        said.push(admitted.shadow_refusal);
        permits.push(admitted.permit);
    }
    let full = Some(Reason::QueueFull);
    assert_eq!(said, [None, None, None, full, full]);
    assert_eq!(before.elapsed(), Duration::ZERO);
    permits.truncate(2);
    let again = rig.admit(shadow(1, queue)).await.unwrap();
    assert_eq!(again.shadow_refusal, None, "places above the cap came free");
}

#[tokio::test(start_paused = true)]
async fn a_drain_refuses_it_like_everybody() {
    let rig = Rig::new();
    rig.controller.close_queue();
    assert_eq!(reason(rig.admit(shadow(1, OnLimit::Reject)).await), Reason::Draining);
}
