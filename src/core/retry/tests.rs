use super::Failure::{
    EarlyError, Evicted, LostEarly, NotConnected, OwnShortage, Refused, Status, TimedOut,
    Unanswered, Untaken,
};
use super::*;
use proptest::prelude::*;

const UNREACHABLE: End = End::Refuse(Reason::UpstreamUnreachable);

const DRAINING: &[u8] = br#"{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError","param":null,"code":500}}"#;
const BUSY: &[u8] = br#"{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}"#;
const DEAD: &[u8] = br#"{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}"#;

/// The judgement of a first failure of a stream that may have three attempts.
fn first(failure: Failure<'_>) -> Judgement {
    Attempts::new(3, Kind::Stream, false).fail(failure, false)
}

fn judged(mark: Option<Mark>, again: bool, end: End) -> Judgement {
    Judgement { mark, again, paid: true, avoid: true, end }
}

fn unanswered(reused: bool, millis: u64) -> Failure<'static> {
    Unanswered { reused, after: Duration::from_millis(millis) }
}

#[test]
fn what_was_never_sent_is_sent_elsewhere() {
    assert_eq!(first(NotConnected), judged(Some(Mark::Unreachable), true, UNREACHABLE));
    assert_eq!(first(Refused), judged(Some(Mark::Refused), true, UNREACHABLE));
}

#[test]
fn our_own_shortage_says_nothing_about_the_endpoint() {
    assert_eq!(first(OwnShortage), judged(None, true, End::Refuse(Reason::NoEndpoint)));
}

#[test]
fn a_stream_may_move_while_an_attempt_is_left() {
    let mut stream = Attempts::new(3, Kind::Stream, false);
    assert!(stream.may_move());
    stream.moved();
    assert!(stream.may_move());
    stream.moved();
    assert!(!stream.may_move());
    for stays in [
        Attempts::new(3, Kind::Answer, false),
        Attempts::new(3, Kind::Read, false),
        Attempts::new(3, Kind::Stream, true),
        Attempts::new(1, Kind::Stream, false),
    ] {
        assert!(!stays.may_move());
    }
    // It was not begun by an engine that then died of it.
    assert!(stream_after_a_move().fail(LostEarly, false).again);
}

fn stream_after_a_move() -> Attempts {
    let mut stream = Attempts::new(3, Kind::Stream, false);
    stream.moved();
    stream
}

#[test]
fn a_stale_pooled_connection_says_nothing_about_its_endpoint() {
    let stale = unanswered(true, 3);
    let free = Judgement { mark: None, again: true, paid: false, avoid: false, end: UNREACHABLE };
    assert_eq!(first(stale), free);
    // An engine that kept the request for a while may have begun it.
    assert_eq!(first(unanswered(true, 101)), first(unanswered(false, 3)));

    // A second one looks like an engine that dies of the request.
    let untaken = Untaken { after: Duration::from_millis(3) };
    let mut attempts = Attempts::new(5, Kind::Answer, false);
    assert_eq!(attempts.fail(untaken, false), free);
    assert_eq!(attempts.failed(), 0);
    assert_eq!(attempts.fail(untaken, false), judged(Some(Mark::Lost), false, UNREACHABLE));
}

/// An engine that dies of a request closes a reused connection like one that was closed while idle.
#[test]
fn a_request_that_kills_engines_meets_two_whatever_connections_it_came_on() {
    let untaken = Untaken { after: Duration::ZERO };
    let deaths =
        [unanswered(true, 3), unanswered(false, 3), LostEarly, Status { status: 503, body: b"" }];
    for kind in [Kind::Stream, Kind::Read] {
        for first in deaths {
            for second in deaths {
                let mut attempts = Attempts::new(9, kind, false);
                assert!(attempts.fail(untaken, false).again);
                assert!(attempts.fail(first, false).again, "{first:?}");
                assert!(attempts.fail(NotConnected, false).again, "its process is gone");
                assert!(attempts.fail(Status { status: 500, body: DRAINING }, false).again);
                assert!(!attempts.fail(second, false).again, "{first:?}, then {second:?}");
            }
        }
    }
}

#[test]
fn an_answer_is_repeated_only_if_the_engine_took_nothing_of_its_request() {
    let lost = judged(Some(Mark::Lost), false, UNREACHABLE);
    let answer = |failure| Attempts::new(3, Kind::Answer, false).fail(failure, false);
    assert_eq!(answer(unanswered(true, 0)), lost);
    assert_eq!(answer(Untaken { after: Duration::from_millis(101) }), lost);
    assert!(answer(Untaken { after: Duration::ZERO }).again);
    for kind in [Kind::Stream, Kind::Read] {
        assert!(Attempts::new(3, kind, false).fail(unanswered(true, 0), false).again);
    }
}

#[test]
fn an_unanswered_stream_or_read_is_repeated_once_and_an_answer_is_not() {
    let lost = Some(Mark::Lost);
    assert_eq!(first(unanswered(false, 0)), judged(lost, true, UNREACHABLE));
    for (kind, again) in [(Kind::Answer, false), (Kind::Read, true)] {
        let judgement = Attempts::new(3, kind, false).fail(unanswered(false, 0), false);
        assert_eq!(judgement, judged(lost, again, UNREACHABLE));
    }
}

#[test]
fn what_leaves_an_endpoint_at_its_deadline_goes_elsewhere_once() {
    let none = End::Refuse(Reason::NoEndpoint);
    assert_eq!(first(Evicted), judged(None, true, none));
    let mut attempts = Attempts::new(5, Kind::Stream, false);
    assert!(attempts.fail(Evicted, false).again);
    assert!(!attempts.fail(Evicted, false).again);
    assert!(!Attempts::new(5, Kind::Answer, false).fail(Evicted, false).again);
}

#[test]
fn drain_answers_move_on_and_mark_the_endpoint() {
    let moved = judged(Some(Mark::DrainAnswer), true, End::Refuse(Reason::NoEndpoint));
    for status in [500, 503] {
        assert_eq!(first(Status { status, body: DRAINING }), moved);
    }
    let anthropic = br#"{"type":"error","error":{"type":"api_error","message":"cannot schedule new futures after shutdown"}}"#;
    assert_eq!(first(Status { status: 500, body: anthropic }), moved);
    // Plain requests too: the engine began nothing.
    let plain =
        Attempts::new(3, Kind::Answer, false).fail(Status { status: 500, body: DRAINING }, false);
    assert_eq!(plain, moved);
}

#[test]
fn a_full_engine_queue_moves_on_without_a_mark() {
    let saturated = judged(None, true, End::Refuse(Reason::PoolSaturated));
    assert_eq!(first(Status { status: 503, body: BUSY }), saturated);
}

#[test]
fn other_answers_are_the_clients() {
    let passed_on = judged(None, false, End::PassOn);
    for (status, body) in [
        (500, &b"Internal Server Error"[..]),
        (502, b"bad gateway"),
        (429, br#"{"error":{"message":"slow down"}}"#),
        // A message that quotes what a client wrote must not take the endpoint out of service.
        (500, br#"{"error":{"message":"bad prompt: cannot schedule new futures after shutdown"}}"#),
        (400, DRAINING),
        (500, BUSY),
        (500, b""),
    ] {
        assert_eq!(first(Status { status, body }), passed_on, "{status}");
    }
    assert_eq!(
        first(Status { status: 500, body: DEAD }),
        judged(Some(Mark::Lost), false, End::PassOn)
    );
}

#[test]
fn an_unknown_503_may_have_begun_the_request() {
    let busy = Status { status: 503, body: b"upstream connect error or disconnect/reset" };
    for body in [&b""[..], b"upstream connect error or disconnect/reset"] {
        let answer =
            Attempts::new(3, Kind::Answer, false).fail(Status { status: 503, body }, false);
        assert_eq!(answer, judged(None, false, End::PassOn), "finished work perhaps");
    }
    for kind in [Kind::Stream, Kind::Read] {
        let mut attempts = Attempts::new(9, kind, false);
        assert_eq!(attempts.fail(busy, false), judged(None, true, End::PassOn));
        assert_eq!(attempts.fail(busy, false), judged(None, false, End::PassOn), "once");
    }
    let gateway =
        |body| Attempts::new(3, Kind::Stream, true).fail(Status { status: 503, body }, false).again;
    assert!(!gateway(b"upstream connect error or disconnect/reset"));
    assert!(gateway(BUSY) && gateway(DRAINING));
}

#[test]
fn a_stream_lost_before_its_first_token_is_repeated_once_whatever_is_allowed() {
    let mut attempts = Attempts::new(9, Kind::Stream, false);
    assert_eq!(attempts.fail(LostEarly, false), judged(Some(Mark::Lost), true, UNREACHABLE));
    assert!(attempts.fail(NotConnected, false).again);
    assert!(!attempts.fail(LostEarly, false).again, "a request that kills engines is stopped");
    assert!(!Attempts::new(9, Kind::Answer, false).fail(LostEarly, false).again);
}

#[test]
fn an_early_error_event_is_judged_by_whose_fault_it_is() {
    let early = |status, message| first(EarlyError { status, message });
    assert_eq!(early(Some(400), Some("too long")), judged(None, false, End::PassOn));
    let dead = Some("EngineCore encountered an issue. See stack trace");
    assert_eq!(early(Some(500), dead), judged(Some(Mark::Lost), true, End::PassOn));
    assert_eq!(early(None, None), judged(Some(Mark::Lost), true, End::PassOn));
    let drain = Some(SHUTTING_DOWN);
    assert_eq!(early(Some(500), drain), judged(Some(Mark::DrainAnswer), true, End::PassOn));
    let full = Some("The engine is currently busy and cannot accept new requests.");
    assert_eq!(early(Some(503), full), judged(None, true, End::PassOn));
    // What was worked on is not done twice, but what was not begun moves on.
    let answer = |status, message| {
        let failure = EarlyError { status: Some(status), message };
        Attempts::new(3, Kind::Answer, false).fail(failure, false).again
    };
    assert!(!answer(500, None) && !answer(500, dead));
    assert!(answer(500, drain) && answer(503, full));
}

#[test]
fn a_timeout_is_not_repeated() {
    assert_eq!(first(TimedOut), judged(None, false, End::Refuse(Reason::UpstreamTimeout)));
}

#[test]
fn nothing_is_repeated_once_the_client_has_bytes() {
    for failure in [NotConnected, LostEarly, TimedOut, Status { status: 500, body: DRAINING }] {
        let judgement = Attempts::new(3, Kind::Stream, false).fail(failure, true);
        assert!(!judgement.again);
        assert_eq!(judgement.end, End::Broken);
    }
}

#[test]
fn the_number_of_attempts_is_bounded() {
    let mut attempts = Attempts::new(3, Kind::Stream, false);
    let again: Vec<_> = (0..4).map(|_| attempts.fail(NotConnected, false).again).collect();
    assert_eq!(again, [true, true, false, false]);
    assert!(!Attempts::new(1, Kind::Stream, false).fail(NotConnected, false).again);
}

#[test]
fn the_first_retry_elsewhere_is_at_once_and_later_ones_wait_longer() {
    let longest = |attempt, elsewhere| pause(attempt, elsewhere, 1.0).as_millis();
    assert_eq!([1, 2, 3, 4, 9].map(|n| longest(n, true)), [0, 0, 25, 50, 250]);
    assert_eq!([1, 2, 3, 4, 9].map(|n| longest(n, false)), [0, 25, 50, 100, 250]);
    assert_eq!(pause(9, false, 0.0), Duration::ZERO);
}

proptest! {
    #[test]
    fn work_that_may_have_begun_is_repeated_at_most_once(
        kinds in prop::collection::vec(0..6_u8, 1..24),
        max in 1..12_u32,
        streamed: bool,
    ) {
        let kind = if streamed { Kind::Stream } else { Kind::Answer };
        let mut attempts = Attempts::new(max, kind, false);
        let (mut begun, mut made) = (0, 0);
        for kind in kinds {
            let failure = [
                NotConnected,
                Untaken { after: Duration::ZERO },
                unanswered(true, 0),
                LostEarly,
                unanswered(false, 0),
                Status { status: 503, body: b"" },
            ][usize::from(kind)];
            made += 1;
            begun += u32::from(kind >= 2);
            if !attempts.fail(failure, false).again {
                break;
            }
            prop_assert!(begun <= u32::from(streamed));
        }
        prop_assert!(attempts.failed() <= max && made <= max + MAX_STALE);
    }
}
