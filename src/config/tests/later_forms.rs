//! Keys that `unsupported` still refuses are read and checked like all others, so that removing
//! a line there is enough. These tests leave that one step out.

use super::*;

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    let tree = yaml::parse(text)?;
    let report = Report::new(&tree);
    let raw = raw::read(&tree, &report);
    rules::check(&raw, &report);
    let config = build::build(raw, Revision::FIRST, &report, &Process);
    report.finish(config)
}

fn problems(text: &str) -> Vec<String> {
    let errors = parse(text).err().map(|errors| errors.errors().to_vec()).unwrap_or_default();
    errors.iter().map(|error| format!("{}: {}", error.path, error.problem)).collect()
}

#[test]
fn rates_weight_and_priority_reach_the_tenant() {
    let fields = ", weight: 3, priority: -2, requests_per_minute: 60, tokens_per_minute: 9000";
    let config = parse(&with("", fields, "")).unwrap();
    let tenant = config.tenant("t").unwrap();
    assert_eq!((tenant.weight, tenant.priority), (3, -2));
    assert_eq!((tenant.requests_per_minute, tenant.tokens_per_minute), (Some(60), Some(9000)));
}

#[test]
fn another_identity_needs_no_keys() {
    let identity = "identity: {trusted_header: {name: X-Tenant, from: [10.0.0.0/8, '::1']}}\n";
    let text = section(identity).replace(&format!("api_keys: ['{KEY_A}'], "), "");
    let header = parse(&text).unwrap().identity.trusted_header.unwrap();
    assert_eq!(header.name.as_str(), "x-tenant");
    assert_eq!(header.from.len(), 2);
    assert_eq!(
        problems(&section("identity: {trusted_header: {name: 'x y', from: []}}\n")),
        [
            "identity.trusted_header.name: not a header name",
            "identity.trusted_header.from: empty list",
        ]
    );
}

#[test]
fn a_token_has_one_source_of_keys() {
    let jwt = |source: &str| {
        section(&format!(
            "identity: {{jwt: {{issuer: i, audience: a, tenant_claim: c{source}}}}}\n"
        ))
    };
    let config = parse(&jwt(", jwks_url: 'https://i/keys'")).unwrap();
    assert_eq!(config.identity.jwt.unwrap().jwks, Jwks::Url("https://i/keys".to_owned()));
    let problem = ["identity.jwt: exactly one source of keys is needed"];
    assert_eq!(problems(&jwt("")), problem);
    assert_eq!(problems(&jwt(", jwks_url: u, jwks_file: f")), problem);
}
