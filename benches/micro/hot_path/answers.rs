//! A refusal as it is written: what a client that floods costs.

use divan::Bencher;
use std::time::Duration;
use streamgate::core::answer::answer;
use streamgate::core::api::Dialect;
use streamgate::core::reason::Reason;
use streamgate::core::rejection::{LimitInfo, LimitUnit, Rejection};

#[divan::bench]
fn tenant_in_flight(bencher: Bencher<'_, '_>) {
    let wait = Duration::from_secs(3);
    let rejection = || {
        Rejection::new(Reason::TenantInFlight, "All 4 of this tenant's slots are in use.")
            .retry_after(wait)
            .limit(LimitInfo {
                name: "in-flight",
                unit: LimitUnit::ConcurrentRequests,
                quota: 4,
                remaining: 0,
                window: None,
                reset: Some(wait),
            })
    };
    bencher.bench_local(|| {
        answer(&rejection(), Dialect::OpenAi, "0123456789abcdef0123456789abcdef", 0.5)
    });
}
