//! The tenant's queue: its bound, its order, its ends.

use super::*;
use futures::FutureExt;

/// Permits of answered tasks, in the order of `tasks`; `None`: still waiting.
fn admitted(task: &mut JoinHandle<Result<Admitted, Refused>>) -> Option<Admitted> {
    task.now_or_never().map(|answer| answer.unwrap().unwrap())
}

#[tokio::test(start_paused = true)]
async fn cap_4_and_queue_4_refuse_exactly_92_of_100() {
    let rig = Rig::new();
    let mut tasks: Vec<_> = (0..100).map(|_| rig.spawn(queueing(4, 4))).collect();
    while tasks.iter().filter(|task| task.is_finished()).count() < 96 {
        tokio::task::yield_now().await;
    }
    let mut running = Vec::new();
    let mut waiting = Vec::new();
    let mut refusals = 0;
    for mut task in tasks.drain(..) {
        match (&mut task).now_or_never().map(Result::unwrap) {
            Some(Ok(admitted)) => running.push(admitted),
            Some(Err(refused)) => {
                assert_eq!(refused.reason, Reason::QueueFull);
                refusals += 1;
            }
            None => waiting.push(task),
        }
    }
    assert_eq!((running.len(), waiting.len(), refusals), (4, 4, 92));
    assert_eq!((rig.held("a"), rig.controller.queued(&"a".into())), (4, 4));

    // Two clients that wait are killed, then one slot after another comes back.
    for task in waiting.drain(..2) {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!(rig.controller.queued(&"a".into()), 2);
    drop(running);
    for task in waiting {
        let _admitted = soon(task).await.unwrap().unwrap();
    }
    rig.assert_nothing_left("a");
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_and_newcomers_do_not_overtake() {
    let rig = Rig::new();
    let mut running = vec![rig.admit(queueing(1, 9)).await.unwrap()];
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(rig.queue(queueing(1, 9)).await);
    }
    for turn in 0..5 {
        running.clear();
        // The slot is free and nobody was scheduled yet: a newcomer must not take it.
        let mut newcomer = Box::pin(rig.admit(queueing(1, 9)));
        assert!(futures::poll!(newcomer.as_mut()).is_pending());
        drop(newcomer);
        running.push(soon(&mut tasks[turn]).await.unwrap().unwrap());
        for later in &mut tasks[turn + 1..] {
            assert!(admitted(later).is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gives_up_after_its_time_and_not_before() {
    let rig = Rig::new();
    let _running = rig.admit(queueing(1, 2)).await.unwrap();
    let task = rig.queue(queueing(1, 2)).await;
    let asked_at = Instant::now();
    let refused = soon(task).await.unwrap().unwrap_err();
    assert_eq!(refused.reason, Reason::QueueTimeout);
    assert_eq!(asked_at.elapsed().as_secs(), 10);
    assert_eq!(refused.waited.as_secs(), 10);
    assert_eq!(rig.controller.queued(&"a".into()), 0);
}

#[tokio::test(start_paused = true)]
async fn time_spent_before_admission_counts_as_waiting() {
    let rig = Rig::new();
    let _running = rig.admit(queueing(1, 2)).await.unwrap();
    let arrived = Instant::now();
    tokio::time::advance(Duration::from_secs(4)).await;
    let refused = soon(rig.controller.admit(queueing(1, 2), arrived)).await.unwrap_err();
    assert_eq!((refused.waited.as_secs(), arrived.elapsed().as_secs()), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_places_refuses_at_once() {
    let rig = Rig::new();
    let _running = rig.admit(queueing(1, 0)).await.unwrap();
    assert_eq!(reason(rig.admit(queueing(1, 0)).await), Reason::QueueFull);
}

#[tokio::test(start_paused = true)]
async fn a_granted_waiter_that_is_dropped_unheard_passes_its_slot_on() {
    let rig = Rig::new();
    let running = rig.admit(queueing(1, 9)).await.unwrap();
    let first = rig.queue(queueing(1, 9)).await;
    let second = rig.queue(queueing(1, 9)).await;
    drop(running);
    while !first.is_finished() {
        tokio::task::yield_now().await;
    }
    assert!(!second.is_finished());
    drop(first); // holds the admitted answer that nobody read
    let _second = soon(second).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_dropped_while_asking_lets_the_next_ask() {
    let (store, gate) = Troubled::gated();
    let rig = Rig::over(store);
    gate.add_permits(2);
    let running = rig.admit(queueing(1, 9)).await.unwrap();
    let head = rig.queue(queueing(1, 9)).await; // its first question is answered "full"
    while gate.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let next = rig.queue(queueing(1, 9)).await;
    drop(running);
    head.abort(); // in the middle of its second question
    assert!(head.await.unwrap_err().is_cancelled());
    gate.add_permits(9);
    let _next = soon(next).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_pool_does_not_hold_up_requests_for_another() {
    let rig = Rig::new();
    let of_b = in_pool(request(policy("b", 9, OnLimit::Reject)), "p", Some(1));
    let in_p = rig.admit(of_b).await.unwrap();
    let for_p = rig.queue(in_pool(queueing(1, 2), "p", Some(1))).await;
    let in_q = rig.admit(in_pool(queueing(1, 2), "q", None)).await.unwrap();
    // Now the tenant's cap is what everybody waits for, and the oldest waiter comes first.
    let for_q = rig.queue(in_pool(queueing(1, 2), "q", None)).await;
    drop(in_p);
    drop(in_q);
    let first = soon(for_p).await.unwrap().unwrap();
    assert!(!for_q.is_finished());
    drop(first);
    let _last = soon(for_q).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_meets_a_full_pool_lets_those_for_another_pass() {
    let rig = Rig::new();
    let running = rig.admit(in_pool(queueing(1, 2), "q", None)).await.unwrap();
    let for_p = rig.queue(in_pool(queueing(1, 2), "p", Some(1))).await;
    let for_q = rig.queue(in_pool(queueing(1, 2), "q", None)).await;
    let of_b = in_pool(request(policy("b", 9, OnLimit::Reject)), "p", Some(1));
    let _in_p = rig.admit(of_b).await.unwrap();
    drop(running);
    let _in_q = soon(for_q).await.unwrap().unwrap();
    assert!(!for_p.is_finished());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_pool_ends_as_ours_not_as_the_tenants() {
    let rig = Rig::new();
    let of_b = in_pool(request(policy("b", 9, OnLimit::Reject)), "p", Some(1));
    let _in_p = rig.admit(of_b).await.unwrap();
    let waiting = rig.queue(in_pool(queueing(9, 1), "p", Some(1))).await;
    let full = rig.admit(in_pool(queueing(9, 1), "p", Some(1))).await;
    assert_eq!(reason(full), Reason::PoolSaturated);
    assert_eq!(reason(soon(waiting).await.unwrap()), Reason::PoolSaturated);
}

#[tokio::test(start_paused = true)]
async fn a_reload_reaches_those_who_wait() {
    let rig = Rig::new();
    let _running = rig.admit(queueing(1, 2)).await.unwrap();
    let waiting = rig.queue(queueing(1, 2)).await;
    rig.controller.apply([queueing(2, 2).policy]);
    let _second = soon(waiting).await.unwrap().unwrap();
    // A request that still brings the old policy is judged by the new one.
    rig.controller.apply([queueing(3, 2).policy]);
    let _third = soon(rig.admit(queueing(1, 2))).await.unwrap();
    assert_eq!(rig.held("a"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_raised_pool_cap_starts_those_who_wait_and_a_lowered_one_holds_them() {
    let rig = Rig::new();
    let ask = || in_pool(queueing(9, 9), "p", Some(1));
    let first = rig.admit(ask()).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(rig.queue(ask()).await);
    }
    let cap = |cap| {
        let caps = [("p".into(), pool_cap(Some(cap))), ("q".into(), pool_cap(None))];
        rig.controller.apply_pools(caps);
    };
    // No request arrives and none ends: the reload alone starts two more.
    cap(3);
    let mut running = vec![first];
    for task in waiting.drain(..2) {
        running.push(soon(task).await.unwrap().unwrap());
    }
    assert_eq!(rig.held("a"), 3);
    // Back to one: slots that come free are not given away until one alone is held.
    cap(1);
    running.truncate(1);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(waiting.iter().all(|task| !task.is_finished()));
    assert_eq!(reason(rig.admit(in_pool(rejecting(9), "p", None)).await), Reason::PoolSaturated);
    for task in waiting {
        running.clear();
        running.push(soon(task).await.unwrap().unwrap());
        assert_eq!(rig.held("a"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_answers_those_who_wait_too() {
    let store = Arc::new(Troubled::default());
    let rig = Rig::over(Arc::clone(&store) as _);
    let running = rig.admit(queueing(1, 2)).await.unwrap();
    let waiting = [rig.queue(queueing(1, 2)).await, rig.queue(queueing(1, 2)).await];
    *store.error.lock().unwrap() = Some(StoreError::Timeout);
    drop(running);
    for task in waiting {
        assert_eq!(reason(soon(task).await.unwrap()), Reason::QuotaUnavailable);
    }
    rig.assert_nothing_left("a");
}
