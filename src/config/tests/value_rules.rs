//! Sections other than pools and tenants.

use super::*;

#[test]
fn listeners_need_two_addresses() {
    let problem = |proxy: &str| format!("listen.admin: the same port as listen.proxy ({proxy})");
    only(&section("listen: {proxy: '127.0.0.1:9180'}\n"), &problem("127.0.0.1:9180"));
    only(&section("listen: {proxy: '0.0.0.0:9180'}\n"), &problem("0.0.0.0:9180"));
    valid(&section("listen: {proxy: '127.0.0.1:0', admin: '127.0.0.1:0'}\n"));
    only(
        &section("listen: {proxy: 'localhost:80'}\n"),
        "listen.proxy: not an address to listen on",
    );
}

#[test]
fn written_timeouts_are_in_order() {
    only(
        &section("timeouts: {first_byte: 10s, head_hold: 11s}\n"),
        "timeouts.head_hold: longer than timeouts.first_byte (10s), so it would never take effect",
    );
    only(
        &section("timeouts: {first_byte: 1s, connect: 2s}\n"),
        "timeouts.connect: longer than timeouts.first_byte (1s), so it would never take effect",
    );
    only(
        &section("timeouts: {first_byte: 20s, total: 10s}\n"),
        "timeouts.first_byte: longer than timeouts.total (10s), so it would never take effect",
    );
    only(
        &section("timeouts: {stream_idle: 20s, total: 10s}\n"),
        "timeouts.stream_idle: longer than timeouts.total (10s), so it would never take effect",
    );
    valid(&section("timeouts: {total: 10s}\n"));
    valid(&section("timeouts: {first_byte: 10s, head_hold: 10s}\n"));
}

#[test]
fn a_drain_has_time_to_drain() {
    only(
        &section("drain: {propagation: 10s, deadline: 15s, cut_margin: 5s}\n"),
        "drain.deadline: no time to drain: 15s are over after propagation 10s and cut_margin 5s",
    );
    valid(&section("drain: {propagation: 10s, deadline: 16s, cut_margin: 5s}\n"));
}

#[test]
fn the_goals_are_in_order_and_not_zero() {
    only(
        &section("slo: {ttft: 10s, e2e: 9s}\n"),
        "slo.ttft: longer than slo.e2e (9s), so it would never take effect",
    );
    only(&section("slo: {tpot: 0ms}\n"), "slo.tpot: out of range");
}

#[test]
fn the_largest_body_fits_into_what_one_tenant_may_hold() {
    only(
        &section("limits: {body: 3KiB, bodies: 5KiB}\n"),
        "limits.bodies: less than twice limits.body, so the largest body could never come in",
    );
    let limits = |text: &str| valid(&section(&format!("limits: {{{text}}}\n"))).limits;
    assert_eq!(limits("body: 3KiB, bodies: 6KiB").bodies, 6 << 10);
    // Defaults follow the value they depend on.
    assert_eq!(limits("body: 1GiB").bodies, 2 << 30);
    assert_eq!(limits("bodies: 1MiB").body, 512 << 10);
    assert_eq!(limits("body: 1KiB").bodies, 256 << 20);
}

#[test]
fn ranges() {
    for (text, problem) in [
        ("limits: {body: 0}", "limits.body: out of range"),
        ("limits: {body: 2GiB}", "limits.body: out of range"),
        ("limits: {bodies: 1KiB}", "limits.bodies: out of range"),
        ("limits: {header: 1B}", "limits.header: out of range"),
        ("timeouts: {connect: 0s}", "timeouts.connect: out of range"),
        ("timeouts: {upstream_idle: 5s}", "timeouts.upstream_idle: out of range"),
        ("timeouts: {client_header: 0s}", "timeouts.client_header: out of range"),
        ("timeouts: {write_stall: 2h}", "timeouts.write_stall: out of range"),
        ("runtime: {threads: 0}", "runtime.threads: out of range"),
        ("streams: {on_engine_abort: ignore}", "streams.on_engine_abort: not one of the choices"),
        ("log: {format: xml}", "log.format: not one of the choices"),
        ("drain: {http_prestop: 1}", "drain.http_prestop: expected a boolean, got a number"),
        ("records: {path: ''}", "records.path: empty"),
    ] {
        only(&section(&format!("{text}\n")), problem);
    }
}
