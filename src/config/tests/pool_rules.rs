use super::*;

/// Two pools and one tenant.
fn two(first: &str, second: &str, tenant: &str) -> String {
    format!(
        "pools:\n- {{name: a, endpoints: ['h:1'], {first}}}\n- {{name: b, endpoints: ['h:2'], {second}}}\n\
         tenants:\n- {{id: t, api_keys: ['{KEY_A}'], max_in_flight: 1 {tenant}}}\n"
    )
}

/// Two pools and two tenants, the second one pinned to pool b.
fn two_tenants(first: &str, second: &str, tenant: &str) -> String {
    let other = format!("- {{id: u, api_keys: ['{KEY_B}'], max_in_flight: 1, pool: b}}\n");
    two(first, second, tenant) + &other
}

#[test]
fn names_are_unique_labels() {
    let text = two("models: [x]", "models: [y]", "").replace("name: b", "name: a");
    only(&text, "pools[1].name: pools[0].name has the same name");
    only(
        &two("models: [x]", "models: [y]", "").replace("name: b", "name: b/c"),
        "pools[1].name: not usable as a name",
    );
}

#[test]
fn an_engine_has_more_time_than_the_margin_of_a_cut() {
    let with = |timeout| {
        two(&format!("models: [x], engine_shutdown_timeout: {timeout}"), "models: [y]", "")
    };
    let problem =
        "streams are cut drain.cut_margin (5s) before it, so they would have no time at all";
    only(&with("5s"), &format!("pools[0].engine_shutdown_timeout: {problem}"));
    let pools = valid(&with("30s")).pools;
    let timeouts: Vec<_> = pools.iter().map(|pool| pool.engine_shutdown_timeout).collect();
    assert_eq!(timeouts, [Some(std::time::Duration::from_secs(30)), None]);
    assert_eq!(valid(&with("0s")).pools[0].engine_shutdown_timeout, None);
}

#[test]
fn endpoints_are_addresses_listed_once_overall() {
    let text = two("models: [x]", "models: [y]", "").replace("h:2", "H:1");
    only(&text, "pools[1].endpoints[0]: the same endpoint as pools[0].endpoints[0]");
    let text = section("").replace("['127.0.0.1:8001']", "['h:1', 'h:1']");
    only(&text, "pools[0].endpoints[1]: the same endpoint as pools[0].endpoints[0]");
    let text = section("").replace("127.0.0.1:8001", "http://h:1");
    only(&text, "pools[0].endpoints[0]: not host:port");
    let text = section("").replace("['127.0.0.1:8001']", "[]");
    only(&text, "pools[0].endpoints: the pool has no endpoints");
}

#[test]
fn an_endpoint_is_not_this_proxy() {
    let problem =
        "pools[0].endpoints[0]: the address of this proxy: every request would come back to it";
    only(&section("listen: {proxy: '127.0.0.1:8001'}\n"), problem);
    only(&section("listen: {proxy: '0.0.0.0:8001'}\n"), problem);
    valid(&section("listen: {proxy: '127.0.0.2:8001'}\n"));
}

#[test]
fn a_gateway_has_one_address_and_no_strategy() {
    let text = with(", kind: gateway", "", "").replace("['127.0.0.1:8001']", "['h:1', 'h:2']");
    only(&text, "pools[0].endpoints: a gateway has one address, 2 are listed");
    only(
        &with(", kind: gateway, strategy: least-request", "", ""),
        "pools[0].strategy: without effect: a gateway chooses by itself",
    );
}

#[test]
fn models_are_named_once_or_all() {
    let text = section("").replace("models: ['*']", "models: [x, '*']");
    only(&text, "pools[0].models[1]: pools[0] lists other models too");
    let text = section("").replace("models: ['*']", "models: [x, x]");
    only(&text, "pools[0].models[1]: listed twice");
    let text = section("").replace("models: ['*']", "models: []");
    only(&text, "pools[0].models: empty list");
}

#[test]
fn one_model_in_two_pools_needs_pins() {
    let problem = "pools[1].models[0]: pool `a` serves it too, and tenant `t` is pinned to neither";
    only(&two("models: [x]", "models: [x]", ""), problem);
    only(&two("models: ['*']", "models: ['*']", ""), problem);
    only(&two_tenants("models: [x]", "models: [x]", ""), problem);
    valid(&two_tenants("models: [x]", "models: [x]", ", pool: a"));
    valid(&two_tenants("models: ['*']", "models: ['*']", ", pool: a"));
}

#[test]
fn a_named_model_goes_before_any_model() {
    valid(&two("models: [x]", "models: ['*']", ""));
    // Only named models are used: which of the two catch-alls serves the rest does not matter to
    // this tenant, but then nobody needs the first of them.
    let text = two_tenants("models: ['*']", "models: ['*']", ", models: [x]");
    only(&text, "pools[1].models[0]: pool `a` serves it too, and tenant `t` is pinned to neither");
}

#[test]
fn a_pool_that_nobody_may_use_is_an_error() {
    let problem = "pools[1].name: no tenant may use this pool";
    only(&two("models: [x]", "models: [y]", ", models: [x]"), problem);
    only(&two("models: [x]", "models: [y]", ", pool: a"), problem);
    only(&two("models: [x]", "models: ['*']", ", models: [x]"), problem);
    valid(&two_tenants("models: [x]", "models: [y]", ", models: [x]"));
}

#[test]
fn one_source_of_the_credential() {
    only(
        &with(", api_key_env: PATH, api_key_file: /k", "", ""),
        "pools[0].api_key_file: api_key_env is given too",
    );
}

#[test]
fn ranges_of_a_pool() {
    for (field, problem) in [
        ("max_in_flight: -1", "max_in_flight: out of range"),
        ("max_in_flight_per_endpoint: 1000001", "max_in_flight_per_endpoint: out of range"),
        ("health: {path: health}", "health.path: not a request path"),
        ("health: {interval: 99ms}", "health.interval: out of range"),
        ("health: {timeout: 0s}", "health.timeout: out of range"),
        ("retries: {max_attempts: 0}", "retries.max_attempts: out of range"),
        ("retries: {budget_percent: 101}", "retries.budget_percent: out of range"),
        ("retries: {min_per_second: 1001}", "retries.min_per_second: out of range"),
    ] {
        only(&with(&format!(", {field}"), "", ""), &format!("pools[0].{problem}"));
    }
}
