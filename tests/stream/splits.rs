//! Any split of any stream gives the same result.

use crate::fixture::{Answer, Run};
use crate::table::CASES;
use bytes::Bytes;
use proptest::prelude::*;
use streamgate::core::api::Api;
use streamgate::core::stream::TrackerOptions;

/// `body` cut at `cuts`, in any order, with repetitions.
fn split(body: &Bytes, cuts: &[usize]) -> Vec<Bytes> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
    cuts.extend([0, body.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| body.slice(pair[0]..pair[1])).collect()
}

fn options() -> impl Strategy<Value = TrackerOptions> {
    (any::<bool>(), any::<bool>(), prop_oneof![Just(1 << 20), 1..400usize]).prop_map(
        |(hide_usage, hide_abort, max_event)| TrackerOptions { hide_usage, hide_abort, max_event },
    )
}

fn api() -> impl Strategy<Value = Api> {
    prop::sample::select(Api::ALL.to_vec())
}

/// Pieces of streams of every API, valid or not, in any order.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}",
        "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"é\\n\"}}]}",
        "data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":\"stop\"}]}",
        "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"abort\"}]}",
        "data:{\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
        "data: {\"error\":{\"message\":\"m\",\"code\":500}}",
        "data: {\"choices\":\r\ndata: []}",
        "data: [DONE]",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}",
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":null}}",
        "event: ping\ndata: {\"type\":\"ping\"}",
        "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"x\"}}",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}",
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}",
        "event: error\ndata: x",
        ": keep-alive",
        "data",
        "id: 1",
        "\u{feff}",
        "data: {\"choices\": nonsense",
        "\n",
        "\n\n",
        "\r\n\r\n",
        "\r\r",
        "\r",
        "",
    ])
}

fn stream() -> impl Strategy<Value = Bytes> {
    let event = (piece(), prop::sample::select(vec!["\n\n", "\r\n\r\n", "\r\r", "\n", ""]));
    prop::collection::vec(event, 0..12).prop_map(|events| {
        Bytes::from(events.iter().map(|(text, end)| format!("{text}{end}")).collect::<String>())
    })
}

/// `part` is `whole` with some bytes left out.
fn is_subsequence(part: &[u8], whole: &[u8]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|byte| whole.any(|other| other == byte))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn made_up_streams(body in stream(), api in api(), options in options(), cuts in any::<[usize; 6]>()) {
        let whole = Run::once(api, options, &body);
        let parts = Run::whole(api, options, &split(&body, &cuts));
        prop_assert_eq!(parts.facts(), whole.facts());
        prop_assert_eq!(&parts.forwarded, &whole.forwarded);
        prop_assert!(is_subsequence(&whole.forwarded, &body));
    }

    #[test]
    fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..200), api in api(), cuts in any::<[usize; 4]>()) {
        let body = Bytes::from(body);
        let options = TrackerOptions::default();
        let whole = Run::once(api, options, &body);
        let parts = Run::whole(api, options, &split(&body, &cuts));
        prop_assert_eq!(parts.facts(), whole.facts());
        prop_assert_eq!(&parts.forwarded, &whole.forwarded);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn captured_streams(case in 0..CASES.len(), options in options(), cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        let body = Answer::load(CASES[case].file).body();
        let whole = Run::once(CASES[case].api, options, &body);
        let parts = Run::whole(CASES[case].api, options, &split(&body, &cuts));
        prop_assert_eq!(parts.facts(), whole.facts());
        prop_assert!(parts.forwarded == whole.forwarded);
    }
}
