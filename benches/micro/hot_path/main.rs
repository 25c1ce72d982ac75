//! What one step of the hot path costs: time and allocations, each step alone.
//!
//! `cargo bench -p streamgate-micro`, or `scripts/bench.sh micro`. Figures with `items` count one
//! event or one request as an item; allocations are of the whole iteration.
#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up must stop")]

mod admission;
mod answers;
mod bodies;
mod events;
mod keys;
mod telemetry;

use divan::AllocProfiler;
use tikv_jemallocator::Jemalloc;

/// The product's allocator, counted.
#[global_allocator]
static ALLOCATOR: AllocProfiler<Jemalloc> = AllocProfiler::new(Jemalloc);

fn main() {
    divan::main();
}
