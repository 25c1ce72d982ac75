//! End-to-end tests: the built `streamgate` binary between real clients and simulated engines,
//! over real sockets.

#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]

mod slots;
mod support;
