use super::*;
use EndpointPhase::{Down, Draining, Ready};

/// An endpoint with a clock that the test moves.
struct Clocked {
    health: EndpointHealth,
    now: Instant,
}

const INTERVAL: Duration = Duration::from_secs(2);

fn endpoint() -> Clocked {
    ruled(HealthRules::probed(INTERVAL))
}

fn ruled(rules: HealthRules) -> Clocked {
    let now = Instant::now();
    Clocked { health: EndpointHealth::new(rules, now), now }
}

impl Clocked {
    fn after(&mut self, millis: u64) -> &mut Self {
        self.now += Duration::from_millis(millis);
        self
    }

    fn mark(&mut self, mark: Mark) -> &mut Self {
        self.health.mark(mark, self.now, self.now);
        self
    }

    fn probe(&mut self, probe: Probe) -> &mut Self {
        self.health.probed(probe, self.now, self.now);
        self
    }

    fn delay(&self) -> u128 {
        self.health.probe_delay().unwrap().as_millis()
    }

    fn is(&self) -> (EndpointPhase, Standing) {
        (self.health.phase(self.now), self.health.standing(self.now))
    }
}

#[test]
fn another_address_of_the_same_name_is_another_process() {
    let zero = Instant::now();
    let at = |second| zero + Duration::from_secs(second);
    let mut health = EndpointHealth::new(HealthRules::probed(Duration::from_secs(2)), zero);
    health.moved(at(1));
    assert_eq!(health.phase(at(1)), EndpointPhase::Ready, "nothing drained");
    health.order_drain(at(2));
    health.probed(Probe::Healthy, at(3), at(3));
    assert_eq!(health.phase(at(3)), EndpointPhase::Draining);
    health.moved(at(4));
    assert_eq!(health.phase(at(4)), EndpointPhase::Down);
    health.probed(Probe::Healthy, at(5), at(5));
    assert_eq!(health.phase(at(5)), EndpointPhase::Ready);
}

#[test]
fn a_drain_answer_to_another_replica_counts_unless_a_newer_process_was_seen() {
    let zero = Instant::now();
    let at = |second| zero + Duration::from_secs(second);
    let rules = HealthRules::probed(Duration::from_secs(2));
    // A replica that starts later knows nothing better.
    let mut fresh = EndpointHealth::new(rules, at(10));
    fresh.mark_from_fleet(at(5), at(11));
    assert_eq!(fresh.phase(at(11)), EndpointPhase::Draining);

    let mut renewed = EndpointHealth::new(rules, zero);
    renewed.mark(Mark::Unreachable, at(6), at(6));
    renewed.probed(Probe::Healthy, at(7), at(8));
    renewed.mark_from_fleet(at(5), at(9));
    assert_eq!(renewed.phase(at(9)), EndpointPhase::Ready);
    renewed.mark_from_fleet(at(9), at(10));
    assert_eq!(renewed.phase(at(10)), EndpointPhase::Draining);

    let mut late = EndpointHealth::new(rules, zero);
    late.mark_from_fleet(zero, at(600));
    assert_eq!(late.phase(at(600)), EndpointPhase::Ready, "it is not believed any more");
}

#[test]
fn a_passive_mark_makes_a_suspect_and_a_failed_probe_confirms_it() {
    let mut it = endpoint();
    assert_eq!(it.is(), (Ready, Standing::Ready));
    it.after(1).mark(Mark::Unreachable);
    assert_eq!(it.is(), (Down, Standing::LastResort));
    it.after(250).probe(Probe::Unhealthy);
    assert_eq!(it.is(), (Down, Standing::Out));
    it.after(500).probe(Probe::Healthy);
    assert_eq!(it.is(), (Ready, Standing::Ready));
}

#[test]
fn only_failures_in_a_row_take_a_ready_endpoint_down() {
    let mut it = endpoint();
    for _ in 0..3 {
        it.after(1).probe(Probe::Unhealthy).after(1).probe(Probe::Unreachable);
        it.after(1).probe(Probe::Healthy);
        assert_eq!(it.is().0, Ready);
    }
    it.probe(Probe::Unhealthy).probe(Probe::Unhealthy).probe(Probe::Unhealthy);
    assert_eq!(it.is(), (Down, Standing::Out));
}

#[test]
fn a_drain_answer_outlasts_healthy_probes_until_the_process_is_gone() {
    let mut it = endpoint();
    it.after(1).mark(Mark::DrainAnswer);
    for _ in 0..20 {
        it.after(2_000).probe(Probe::Healthy).probe(Probe::Unhealthy);
        assert_eq!(it.is(), (Draining, Standing::Out));
    }
    it.after(2_000).probe(Probe::Unreachable);
    assert_eq!(it.is(), (Down, Standing::Out));
    it.after(30_000).probe(Probe::Healthy);
    assert_eq!(it.is(), (Ready, Standing::Ready));
}

#[test]
fn a_drain_answer_is_believed_for_a_bounded_time_and_an_order_is_not_forgotten() {
    let mut answered = endpoint();
    answered.after(1).mark(Mark::DrainAnswer).after(599_999);
    assert_eq!(answered.is().0, Draining);
    answered.after(1);
    assert_eq!(answered.is(), (Ready, Standing::Ready));
    answered.probe(Probe::Healthy).mark(Mark::DrainAnswer);
    assert_eq!(answered.is().0, Draining);

    let mut ordered = endpoint();
    ordered.after(1).mark(Mark::DrainAnswer);
    ordered.health.order_drain(ordered.now);
    assert_eq!(ordered.after(900_000).is().0, Draining);
    ordered.health.restore(ordered.now);
    assert_eq!(ordered.is().0, Ready);
}

#[test]
fn an_ordered_drain_ends_with_the_next_process() {
    let mut it = endpoint();
    it.health.order_drain(it.now);
    it.after(1).probe(Probe::Unreachable).after(1).probe(Probe::Healthy);
    assert_eq!(it.is().0, Ready);
}

#[test]
fn an_orchestrator_that_calls_it_ready_ends_a_down_and_no_drain() {
    let mut it = endpoint();
    it.after(1).probe(Probe::Unreachable).probe(Probe::Unreachable).probe(Probe::Unreachable);
    assert_eq!(it.is().0, Down);
    it.after(1);
    it.health.vouched(it.now);
    assert_eq!(it.is(), (Ready, Standing::Ready));
    it.health.order_drain(it.now);
    it.health.vouched(it.now);
    assert_eq!(it.is().0, Draining);
}

#[test]
fn evidence_from_before_the_present_state_is_ignored() {
    let mut it = endpoint();
    let early = it.now;
    it.after(10).mark(Mark::Unreachable);
    it.health.probed(Probe::Healthy, early, it.now);
    assert_eq!(it.is().0, Down, "the probe began before the mark");
    it.after(10).probe(Probe::Healthy);
    let now = it.now;
    it.health.mark(Mark::DrainAnswer, early, now);
    it.health.mark(Mark::Lost, early, now);
    assert_eq!(it.is().0, Ready, "the request ran on the process before");
}

#[test]
fn probes_of_a_down_endpoint_back_off_and_a_relapse_goes_on_where_it_was() {
    let mut it = endpoint();
    it.after(60_000).mark(Mark::Unreachable);
    let mut delays = vec![it.delay()];
    for _ in 0..6 {
        it.after(10_000).probe(Probe::Unreachable);
        delays.push(it.delay());
    }
    assert_eq!(delays, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000]);
    it.probe(Probe::Healthy);
    assert_eq!(it.delay(), INTERVAL.as_millis());
    it.after(1_000).mark(Mark::Lost);
    assert_eq!(it.delay(), 5_000);
    it.probe(Probe::Healthy).after(30_000).mark(Mark::Lost);
    assert_eq!(it.delay(), 250);
}

#[test]
fn many_failures_do_not_overflow_the_backoff() {
    let mut it = endpoint();
    it.mark(Mark::Unreachable);
    for _ in 0..100 {
        it.after(1).probe(Probe::Unreachable);
    }
    assert_eq!(it.delay(), 5_000);
}

#[test]
fn an_endpoint_that_is_never_probed_comes_back_by_itself() {
    let mut it = ruled(HealthRules::unprobed());
    it.after(60_000).mark(Mark::Unreachable);
    assert_eq!(it.health.probe_delay(), None);
    assert_eq!(it.is(), (Down, Standing::LastResort));
    assert_eq!(it.after(250).is(), (Ready, Standing::Ready));
    // Failing again at once, it is left alone for longer.
    it.mark(Mark::Unreachable).after(499);
    assert_eq!(it.is().0, Down);
    assert_eq!(it.after(1).is().0, Ready);
    it.mark(Mark::DrainAnswer);
    assert_eq!(it.after(59_999).is().0, Draining);
    assert_eq!(it.after(1).is().0, Ready);
}
