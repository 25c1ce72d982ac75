//! The registry as a whole, built from real configurations.

use super::*;
use crate::core::policy::{Mode, ModelSet};
use proptest::prelude::*;

fn registry(text: &str) -> TenantRegistry {
    let config: Config = text.parse().unwrap_or_else(|errors| panic!("{errors}"));
    TenantRegistry::from(&config)
}

/// Tenants `a` (keys a1, a2) and `b` (key b1) on one pool that serves everything.
fn two(anonymous: &str) -> TenantRegistry {
    let hash = |key: &str| KeyHash::of(key.as_bytes()).to_config();
    registry(&format!(
        "pools: [{{name: p, models: ['*'], endpoints: ['h:1']}}]\n\
         tenants:\n\
         - {{id: a, api_keys: ['{}', '{}'], max_in_flight: 1}}\n\
         - {{id: b, api_keys: ['{}'], max_in_flight: 1, mode: shadow}}\n\
         anonymous: {anonymous}\n",
        hash("a1"),
        hash("a2"),
        hash("b1")
    ))
}

fn who(
    registry: &TenantRegistry,
    authorization: Option<&str>,
    x_api_key: Option<&str>,
) -> Result<String, AuthError> {
    registry
        .identify(authorization.map(str::as_bytes), x_api_key.map(str::as_bytes))
        .map(|tenant| tenant.id.to_string())
}

#[test]
fn either_header_identifies() {
    let registry = two("reject");
    assert_eq!(who(&registry, Some("Bearer a1"), None).unwrap(), "a");
    assert_eq!(who(&registry, Some("bearer a2"), None).unwrap(), "a");
    assert_eq!(who(&registry, None, Some("b1")).unwrap(), "b");
    assert_eq!(who(&registry, Some("Bearer b1"), Some("b1")).unwrap(), "b");
}

#[test]
fn a_key_of_nobody_is_refused_and_never_anonymous() {
    for registry in [two("reject"), two("b")] {
        assert_eq!(who(&registry, Some("Bearer c1"), None), Err(AuthError::Unknown));
        assert_eq!(who(&registry, None, Some("A1")), Err(AuthError::Unknown));
        assert_eq!(who(&registry, Some("Basic a1"), None), Err(AuthError::Malformed));
        assert_eq!(who(&registry, Some(""), None), Err(AuthError::Malformed));
        assert_eq!(who(&registry, Some("Bearer a1"), Some("b1")), Err(AuthError::Conflicting));
        // The hash is no key.
        let hash = KeyHash::of(b"a1").to_config();
        assert_eq!(who(&registry, None, Some(&hash)), Err(AuthError::Unknown));
        assert_eq!(who(&registry, None, Some(&hash["sha256:".len()..])), Err(AuthError::Unknown));
    }
}

#[test]
fn only_no_credential_at_all_is_anonymous() {
    assert_eq!(who(&two("reject"), None, None), Err(AuthError::Missing));
    assert_eq!(who(&two("b"), None, None).unwrap(), "b");
    assert_eq!(AuthError::Missing.reason(), Reason::Unauthenticated);
}

#[test]
fn tenants_are_found_by_id() {
    let registry = two("reject");
    assert_eq!(registry.tenant("b").unwrap().mode, Mode::Shadow);
    assert!(registry.tenant("unknown").is_none());
    assert_eq!(registry.tenants().len(), 2);
}

#[test]
fn nothing_of_a_key_is_printed() {
    assert!(format!("{:?}", two("reject")).contains("KeyTable(3 keys)"));
}

/// Pools x (model x), y (model y), rest (any); tenants all, only-x, only-z, pinned to y.
const ROUTES: &str = "\
pools:
- {name: y, models: [y, yy], endpoints: ['h:1']}
- {name: x, models: [x], endpoints: ['h:2']}
- {name: rest, models: ['*'], endpoints: ['h:3']}
tenants:
- {id: all, max_in_flight: 1, api_keys: ['HASH1']}
- {id: only-x, max_in_flight: 1, api_keys: ['HASH2'], models: [x]}
- {id: only-z, max_in_flight: 1, api_keys: ['HASH3'], models: [z, x]}
- {id: pinned, max_in_flight: 1, api_keys: ['HASH4'], pool: y}
";

fn routes(text: &str) -> TenantRegistry {
    let text = (1..=4).fold(text.to_owned(), |text, n| {
        text.replace(&format!("HASH{n}"), &KeyHash::of(n.to_string().as_bytes()).to_config())
    });
    registry(&text)
}

fn route(registry: &TenantRegistry, tenant: &str, model: Option<&str>) -> Result<String, Reason> {
    let tenant = registry.tenant(tenant).unwrap();
    registry.route(tenant, model).map(|pool| pool.to_string())
}

#[test]
fn a_model_leads_to_the_pool_that_names_it_else_to_the_one_for_any() {
    let registry = routes(ROUTES);
    assert_eq!(route(&registry, "all", Some("x")).unwrap(), "x");
    assert_eq!(route(&registry, "all", Some("yy")).unwrap(), "y");
    assert_eq!(route(&registry, "all", Some("z")).unwrap(), "rest");
    assert_eq!(route(&registry, "only-z", Some("z")).unwrap(), "rest");
    assert_eq!(route(&registry, "pinned", Some("y")).unwrap(), "y");
}

#[test]
fn a_model_of_others_is_forbidden_and_one_of_nobody_is_unknown() {
    let registry = routes(ROUTES);
    assert_eq!(route(&registry, "only-x", Some("y")), Err(Reason::ForbiddenModel));
    assert_eq!(route(&registry, "only-x", Some("X")), Err(Reason::ForbiddenModel));
    assert_eq!(route(&registry, "pinned", Some("x")), Err(Reason::ForbiddenModel));
    let text = ROUTES.replace("- {name: rest, models: ['*'], endpoints: ['h:3']}\n", "");
    let registry = routes(&text.replace("[z, x]", "[x]"));
    assert_eq!(route(&registry, "all", Some("z")), Err(Reason::UnknownModel));
    assert_eq!(route(&registry, "only-x", Some("z")), Err(Reason::UnknownModel));
    assert_eq!(route(&registry, "pinned", Some("z")), Err(Reason::UnknownModel));
}

#[test]
fn a_request_without_a_model_goes_to_the_first_pool_of_the_tenant() {
    let registry = routes(ROUTES);
    assert_eq!(route(&registry, "all", None).unwrap(), "y");
    assert_eq!(route(&registry, "only-x", None).unwrap(), "x");
    assert_eq!(route(&registry, "only-z", None).unwrap(), "x");
    assert_eq!(route(&registry, "pinned", None).unwrap(), "y");
}

/// `*` or some of three names.
fn models() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just("'*'".to_owned()),
        3 => prop::sample::subsequence(vec!["x", "y", "z"], 1..=3).prop_map(|names| names.join(", ")),
    ]
}

/// Models of one to three pools: each name in one pool, and `*` where there would be none; or
/// anything, which is mostly refused.
fn pools() -> impl Strategy<Value = Vec<String>> {
    let tidy = (1..4_usize, prop::array::uniform3(0..3_usize)).prop_map(|(count, homes)| {
        let models = |pool| {
            let names = ["x", "y", "z"].into_iter().zip(homes);
            let own: Vec<_> =
                names.filter(|(_, home)| home % count == pool).map(|(x, _)| x).collect();
            if own.is_empty() { "'*'".to_owned() } else { own.join(", ") }
        };
        (0..count).map(models).collect()
    });
    prop_oneof![3 => tidy, 1 => prop::collection::vec(models(), 1..4)]
}

fn any_configuration() -> impl Strategy<Value = String> {
    let tenants = prop::collection::vec((models(), prop::option::of(0..3_usize)), 1..5);
    (pools(), tenants).prop_map(|(pools, tenants)| {
        let mut text = "pools:\n".to_owned();
        for (n, models) in pools.iter().enumerate() {
            text += &format!("- {{name: p{n}, models: [{models}], endpoints: ['h:{}']}}\n", n + 1);
        }
        text += "tenants:\n";
        for (n, (models, pin)) in tenants.iter().enumerate() {
            let key = KeyHash::of(n.to_string().as_bytes()).to_config();
            let (models, pin) = match pin {
                // A pinned tenant uses what its pool serves.
                Some(pin) if *pin < pools.len() => (&pools[*pin], format!("p{pin}")),
                _ => (models, "null".to_owned()),
            };
            text += &format!(
                "- {{id: t{n}, api_keys: ['{key}'], max_in_flight: 1, models: [{models}], pool: {pin}}}\n"
            );
        }
        text
    })
}

proptest! {
    /// What the rules of the configuration promise, routing keeps: whatever is accepted leads
    /// every tenant's every model to a pool, and to every pool somebody.
    #[test]
    fn an_accepted_configuration_serves_all_it_names(text in any_configuration()) {
        let Ok(config) = text.parse::<Config>() else { return Ok(()) };
        let registry = TenantRegistry::from(&config);
        let mut reached = std::collections::HashSet::new();
        for tenant in registry.tenants() {
            reached.insert(registry.route(tenant, None).unwrap());
            for model in ["x", "y", "z", "other"] {
                let routed = registry.route(tenant, Some(model));
                let named = matches!(&tenant.models, ModelSet::Only(_)) && tenant.models.contains(model);
                prop_assert!(routed.is_ok() || !named, "{} {model}\n{text}", tenant.id);
                reached.extend(routed);
            }
        }
        for pool in config.pools.iter() {
            prop_assert!(reached.contains(&pool.id), "{}\n{text}", pool.id);
        }
    }
}
