use super::*;

/// A second tenant beside the usual one.
fn second(fields: &str) -> String {
    section("") + &format!("- {{max_in_flight: 1, {fields}}}\n")
}

#[test]
fn ids_are_unique_labels_and_not_reserved() {
    let key = format!("api_keys: ['{KEY_B}']");
    only(&second(&format!("id: t, {key}")), "tenants[1].id: tenants[0].id has the same id");
    only(&second(&format!("id: t t, {key}")), "tenants[1].id: not usable as a name");
    only(&second(&key), "tenants[1].id: missing");
    only(
        &second(&format!("id: unknown, {key}")),
        "tenants[1].id: reserved: it labels requests of nobody known",
    );
    only(
        &second(&format!("id: reject, {key}")),
        "tenants[1].id: reserved: `anonymous: reject` would be ambiguous",
    );
}

#[test]
fn a_key_belongs_to_one_tenant() {
    only(
        &second(&format!("id: u, api_keys: ['{KEY_A}']")),
        "tenants[1].api_keys[0]: the same key as tenants[0].api_keys[0]",
    );
    // The same hash in another spelling is the same key.
    let upper = format!("sha256:{}", KEY_A["sha256:".len()..].to_uppercase());
    only(
        &second(&format!("id: u, api_keys: ['{KEY_B}', '{upper}']")),
        "tenants[1].api_keys[1]: the same key as tenants[0].api_keys[0]",
    );
}

#[test]
fn somebody_must_be_able_to_be_the_tenant() {
    let problem = "tenants[1].api_keys: nobody can be this tenant: it has no key and is not the \
                   anonymous one";
    only(&second("id: u"), problem);
    only(&second("id: u, api_keys: []"), problem);
    valid(&(second("id: u") + "anonymous: u\n"));
}

#[test]
fn the_cap_is_required_and_at_least_one() {
    let text = section("");
    only(
        &text.replace("max_in_flight: 1", "max_in_flight: 0"),
        "tenants[0].max_in_flight: out of range",
    );
    only(&text.replace(", max_in_flight: 1", ""), "tenants[0].max_in_flight: missing");
    only(
        &text.replace("max_in_flight: 1", "max_in_flight: 1.5"),
        "tenants[0].max_in_flight: not a whole number",
    );
}

#[test]
fn a_queue_needs_its_limit_and_a_size() {
    only(
        &with("", ", queue: {max_depth: 5}", ""),
        "tenants[0].queue: without effect: on_limit is `reject`",
    );
    only(
        &with("", ", on_limit: queue, queue: {max_depth: 0}", ""),
        "tenants[0].queue.max_depth: out of range",
    );
    only(
        &with("", ", on_limit: queue, queue: {max_wait: 0s}", ""),
        "tenants[0].queue.max_wait: out of range",
    );
    valid(&with("", ", on_limit: queue", ""));
}

#[test]
fn a_pin_names_a_pool() {
    only(&with("", ", pool: q", ""), "tenants[0].pool: there is no such pool");
}

#[test]
fn every_model_of_a_tenant_can_be_served() {
    let text = with("", ", models: [m, n]", "").replace("['*']", "[m]");
    only(&text, "tenants[0].models[1]: not served by any pool: this rule can never match");
    let text = with("", ", models: [n], pool: p", "").replace("['*']", "[m]");
    only(
        &text,
        "tenants[0].models[0]: not served by pool `p`, the tenant's only one: this rule can never \
         match",
    );
    only(&with("", ", models: []", ""), "tenants[0].models: empty list");
}

#[test]
fn anonymous_names_a_tenant() {
    only(&section("anonymous: guests\n"), "anonymous: there is no such tenant");
}

#[test]
fn ranges_of_a_tenant() {
    for (field, problem) in [
        ("weight: 0", "weight: out of range"),
        ("priority: 101", "priority: out of range"),
        ("requests_per_minute: -1", "requests_per_minute: out of range"),
        ("tokens_per_minute: many", "tokens_per_minute: expected a number, got text"),
        ("mode: dry-run", "mode: not one of the choices"),
        ("may_route: yes", "may_route: expected a boolean, got text"),
    ] {
        only(&with("", &format!(", {field}"), ""), &format!("tenants[0].{problem}"));
    }
}
