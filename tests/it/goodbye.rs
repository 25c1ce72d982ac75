//! The goodbye of a replica over HTTP/2, frame by frame: a client may answer the PING before it sends
//! requests that it had begun earlier.

use crate::support::wire::Wire;
use crate::support::{Gate, Setup, bounded};
use std::time::Duration;
use streamgate_loadtests::engine::{Engine, EngineConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Frame {
    fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self { kind, flags, stream, payload: payload.to_vec() }
    }

    fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    async fn read(wire: &mut Wire) -> Self {
        let mut head = [0; 9];
        bounded("a frame", wire.stream.read_exact(&mut head)).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        bounded("a frame", wire.stream.read_exact(&mut payload)).await.unwrap();
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Self { kind: head[3], flags: head[4], stream, payload }
    }

    /// The next frame of a kind.
    async fn next(wire: &mut Wire, kind: u8) -> Self {
        loop {
            let frame = Self::read(wire).await;
            if frame.kind == kind {
                return frame;
            }
        }
    }

    fn last_stream(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }
}

/// `GET /v1/models` of tenant `a`, each header as a literal that is not indexed.
fn models(stream: u32) -> Frame {
    let headers = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "gate"),
        (":path", "/v1/models"),
        ("authorization", "Bearer key-a"),
    ];
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for word in [name, value] {
            block.push(u8::try_from(word.len()).unwrap());
            block.extend(word.as_bytes());
        }
    }
    Frame::new(HEADERS, WHOLE, stream, &block)
}

#[tokio::test]
async fn a_request_that_the_answer_to_the_ping_overtook_is_served() {
    let engine = Engine::start(EngineConfig::instant(Duration::ZERO)).await.unwrap();
    let setup = Setup::new(&[engine.addr()]).tenant("a", "max_in_flight: 4");
    let drain = "drain: {propagation: 15s, deadline: 60s, cut_margin: 1s}";
    let gate = Gate::start(setup.with(drain)).await;
    let mut wire = Wire::connect(gate.proxy).await;
    let hello = [PREFACE, &Frame::new(SETTINGS, 0, 0, &[]).bytes(), &models(1).bytes()].concat();
    wire.stream.write_all(&hello).await.unwrap();
    assert_eq!(Frame::next(&mut wire, HEADERS).await.stream, 1);
    wire.stream.write_all(&Frame::new(SETTINGS, ACK, 0, &[]).bytes()).await.unwrap();

    gate.signal("TERM");
    let goaway = Frame::next(&mut wire, GOAWAY).await;
    assert_eq!(goaway.last_stream(), 0x7fff_ffff, "nothing is forbidden yet");
    let ping = Frame::next(&mut wire, PING).await;
    assert_eq!(ping.flags & ACK, 0);
    let pong = Frame::new(PING, ACK, 0, &ping.payload).bytes();
    wire.stream.write_all(&[pong, models(3).bytes()].concat()).await.unwrap();

    // Served first, and named as the last one then.
    let (mut served, mut last) = (false, None);
    while last.is_none() {
        let frame = Frame::read(&mut wire).await;
        match frame.kind {
            HEADERS => served |= frame.stream == 3,
            GOAWAY => last = Some(frame.last_stream()),
            _ => {}
        }
    }
    assert_eq!((served, last), (true, Some(3)));
    // Nothing runs any more: the connection is closed.
    let mut rest = Vec::new();
    bounded("the end", wire.stream.read_to_end(&mut rest)).await.unwrap();
}
