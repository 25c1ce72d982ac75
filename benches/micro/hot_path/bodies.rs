//! Reading and editing request bodies.

use bytes::Bytes;
use divan::Bencher;
use divan::counter::BytesCount;
use streamgate::core::api::Api;
use streamgate::core::facts::{Limits, read, upstream_body};

const KIB: usize = 1024;
const SIZES: [usize; 3] = [KIB, 64 * KIB, KIB * KIB];

#[divan::bench(args = SIZES)]
fn read_facts(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| read(Api::Chat, &body, &Limits::default()));
}

/// `stream_options.include_usage` is put in; the body itself is not copied.
#[divan::bench(args = SIZES)]
fn edit_body(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    let facts = read(Api::Chat, &body, &Limits::default()).expect("a valid body");
    bencher.with_inputs(|| body.clone()).bench_local_values(|body| upstream_body(&facts, body));
}

/// A conversation of about `size` bytes, with escapes and text beyond ASCII as chats have.
fn body(size: usize) -> Bytes {
    const TURN: &str = r#"{"role":"user","content":"Could you explain how the \"borrow checker\" decides?\nI have read the book – twice – and über den Besitz bin ich mir noch nicht sicher."}"#;
    let mut body = String::from(r#"{"model":"qwen","stream":true,"max_tokens":256,"messages":["#);
    body.push_str(TURN);
    while body.len() + TURN.len() + 3 <= size {
        body.push(',');
        body.push_str(TURN);
    }
    body.push_str("]}");
    body.into()
}
