//! Requests that do not queue.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_cap_is_exact_and_a_dropped_permit_frees_its_slot() {
    let rig = Rig::new();
    let first = rig.admit(rejecting(2)).await.unwrap();
    let _second = rig.admit(rejecting(2)).await.unwrap();
    let refused = rig.admit(rejecting(2)).await.unwrap_err();
    assert_eq!((refused.reason, refused.limit), (Reason::TenantInFlight, 2));
    assert_eq!((rig.held("a"), rig.holders.in_flight_of(&"a".into())), (2, 2));
    drop(first);
    rig.admit(rejecting(2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_pool_is_ours_to_answer_for() {
    let rig = Rig::new();
    let _other =
        rig.admit(in_pool(request(policy("b", 9, OnLimit::Reject)), "p", Some(1))).await.unwrap();
    let answer = rig.admit(in_pool(rejecting(9), "p", Some(1))).await;
    assert_eq!(reason(answer), Reason::PoolSaturated);
    assert_eq!(rig.held("a"), 0);
    rig.admit(in_pool(rejecting(9), "q", Some(1))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_say_is_never_a_429() {
    for error in [
        StoreError::Timeout,
        StoreError::Learning,
        StoreError::Unreachable("connection refused".into()),
    ] {
        let rig = Rig::over(Troubled::failing(error));
        for request in [rejecting(1), queueing(1, 4)] {
            let before = Instant::now();
            assert_eq!(reason(rig.admit(request).await), Reason::QuotaUnavailable);
            assert_eq!(before.elapsed(), Duration::ZERO, "at once, not after a wait");
        }
        rig.assert_nothing_left("a");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_recorded_for_the_tenant_when_it_ends() {
    let rig = Rig::new();
    let admitted = rig.admit(rejecting(1)).await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;
    drop(admitted);
    assert_eq!(*rig.recorded.0.lock().unwrap(), [("a".into(), Duration::from_secs(3))]);
}

#[tokio::test]
async fn a_panicking_request_gives_everything_back() {
    let rig = Rig::new();
    let admitted = rig.admit(rejecting(1)).await.unwrap();
    let task = tokio::spawn(async move {
        let _permit = admitted.permit;
        panic!("the request fails");
    });
    assert!(task.await.unwrap_err().is_panic());
    rig.assert_nothing_left("a");
    rig.admit(rejecting(1)).await.unwrap();
}

#[tokio::test]
async fn a_request_dropped_while_the_store_is_asked_holds_nothing() {
    let (store, gate) = Troubled::gated();
    let rig = Rig::over(store);
    let task = rig.queue(rejecting(1)).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    rig.assert_nothing_left("a");
    gate.add_permits(1);
    rig.admit(rejecting(1)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_with_one_id_are_listed_and_cut_both() {
    use streamgate::core::cause::CutCause;

    let rig = Rig::new();
    let first = rig.admit(rejecting(3)).await.unwrap().permit;
    let second = rig.admit(rejecting(3)).await.unwrap().permit;
    let mut another = rejecting(3);
    another.request_id = "s".into();
    let third = rig.admit(another).await.unwrap().permit;
    second.holder().set_endpoint("e:1".into());
    second.holder().add_tokens(5);
    second.holder().add_tokens(2);
    tokio::time::advance(Duration::from_millis(1500)).await;

    let listed = rig.holders.list(Instant::now());
    let ids: Vec<_> = listed.iter().map(|holder| holder.request_id.as_str()).collect();
    assert_eq!(ids, ["r", "r", "s"]);
    assert_eq!((listed[0].endpoint.clone(), listed[0].tokens), (None, 0));
    assert_eq!((listed[1].endpoint.clone(), listed[1].tokens), (Some("e:1".into()), 7));
    assert!((listed[2].age_seconds - 1.5).abs() < 1e-9);

    assert_eq!(rig.holders.cut("r", CutCause::Operator), 2);
    assert_eq!(soon(first.holder().cut()).await, CutCause::Operator);
    assert_eq!(soon(second.holder().cut()).await, CutCause::Operator);
    assert_eq!(third.holder().cut_cause(), None);
    assert_eq!(rig.holders.cut("nobody", CutCause::Operator), 0);

    assert_eq!(rig.holders.cut_endpoint(&"e:1".into(), CutCause::EndpointDrain), 1);
    assert_eq!(second.holder().cut_cause(), Some(CutCause::Operator), "the first cause stays");
    assert_eq!(rig.holders.cut_all(CutCause::Drain), 3);
    assert_eq!(soon(third.holder().cut()).await, CutCause::Drain);
}
