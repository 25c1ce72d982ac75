//! Admission under the drain of the process.

use super::*;
use streamgate::config::Drain;
use streamgate::core::cause::CutCause;
use streamgate::core::drain_port::DrainWait;
use streamgate::core::observe::DrainPhase;
use streamgate::lifecycle::Lifecycle;

/// Ten seconds of propagation, cut at 145 of 150.
fn lifecycle(rig: &Rig) -> Lifecycle {
    Lifecycle::start(&Drain::default(), Arc::clone(&rig.controller) as _)
}

async fn reaches(lifecycle: &Lifecycle, phase: DrainPhase) {
    let mut status = lifecycle.status();
    let reached = status.wait_for(|status| status.phase == phase);
    tokio::time::timeout(Duration::from_secs(600), reached).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lame_duck_admits_and_a_draining_replica_answers_everybody() {
    let rig = Rig::new();
    let lifecycle = lifecycle(&rig);
    let running = rig.admit(queueing(1, 4)).await.unwrap();
    lifecycle.begin();
    tokio::time::advance(Duration::from_secs(9)).await;
    let waiting = rig.queue(queueing(1, 4)).await;
    reaches(&lifecycle, DrainPhase::Draining).await;
    let refused = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(refused.reason, Reason::Draining);
    assert_eq!(reason(rig.admit(rejecting(9)).await), Reason::Draining);

    drop(running);
    let early = lifecycle.wait(Duration::from_secs(1)).await;
    assert_eq!(early, DrainWait::TimedOut { in_flight: 0 }, "somebody is not answered yet");
    drop(refused);
    assert_eq!(lifecycle.wait(Duration::from_secs(1)).await, DrainWait::Drained);
    assert!(lifecycle.since().unwrap() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn streams_that_outlive_the_deadline_hear_why_and_their_slots_come_back_before_the_exit() {
    let rig = Rig::new();
    let lifecycle = lifecycle(&rig);
    let permit = rig.admit(rejecting(1)).await.unwrap().permit;
    let stream = tokio::spawn(async move {
        let cause = permit.holder().cut().await;
        // The client is told, then the permit goes.
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(permit);
        cause
    });
    lifecycle.terminate();
    assert_eq!(lifecycle.exit().await, 2);
    assert_eq!(lifecycle.since().unwrap().as_secs(), 146);
    rig.assert_nothing_left("a");
    assert_eq!(stream.await.unwrap(), CutCause::Drain);
}
