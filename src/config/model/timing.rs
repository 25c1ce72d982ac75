//! Everything that is a duration.

use std::time::Duration;

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Deadlines of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP (and TLS) connect to an endpoint.
    pub connect: Duration,
    /// From the request sent to the endpoint's first byte of progress.
    pub first_byte: Duration,
    /// How long the response head is held back waiting for progress; zero: it is passed on at
    /// once. At most `first_byte`.
    pub head_hold: Duration,
    /// Silence of the engine inside a stream.
    pub stream_idle: Duration,
    /// The client takes no byte although some are ready.
    pub write_stall: Duration,
    /// Whole request; `None`: no limit.
    pub total: Option<Duration>,
    /// From the accepted connection (on a kept-alive one: from the first byte of the next
    /// request) to a complete request head.
    pub client_header: Duration,
    /// From the complete head to the complete body.
    pub client_body: Duration,
    /// How long an idle connection to an endpoint is kept. Below 5 s, after which vLLM's server
    /// closes it, possibly just as a request is written to it; zero: never reused.
    pub upstream_idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: secs(2),
            first_byte: secs(120),
            head_hold: secs(30),
            stream_idle: secs(60),
            write_stall: secs(30),
            total: None,
            client_header: secs(15),
            client_body: secs(60),
            upstream_idle: secs(4),
        }
    }
}

/// The drain of this replica; every time counts from the start of the drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long new requests are still served, until every load balancer has noticed.
    pub propagation: Duration,
    /// The end: nothing of this replica runs on after it.
    pub deadline: Duration,
    /// Streams that still run are cut this long before `deadline`.
    /// `deadline > propagation + cut_margin`.
    pub cut_margin: Duration,
    /// Whether `GET /prestop` may be called from elsewhere than loopback, as the kubelet does.
    pub http_prestop: bool,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            propagation: secs(10),
            deadline: secs(150),
            cut_margin: secs(5),
            http_prestop: false,
        }
    }
}
