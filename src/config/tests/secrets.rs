//! Nothing secret is ever shown, however wrong the file is.

use super::*;

const PLAIN: &str = "sg-0123456789abcdef";

#[track_caller]
fn hidden(text: &str) {
    let errors = text.parse::<Config>().unwrap_err();
    for shown in
        [errors.to_string(), format!("{errors:?}"), serde_json::to_string(errors.errors()).unwrap()]
    {
        assert!(!shown.contains("0123456789"), "{shown}");
    }
}

#[test]
fn a_plain_key_in_the_place_of_its_hash_is_not_shown() {
    let text = section("").replace(KEY_A, "hunter-0123456789");
    let errors = text.parse::<Config>().unwrap_err();
    let [error] = errors.errors() else { panic!("{errors}") };
    assert_eq!(error.path, "tenants[0].api_keys[0]");
    assert_eq!(error.value.as_deref(), Some("***"));
    assert!(error.remedy.contains("streamgate key new"));
    hidden(&text);
    hidden(&section("").replace(&format!("['{KEY_A}']"), "hunter-0123456789"));
    hidden(&section("").replace(KEY_A, "0123456789").replace("'0123456789'", "0123456789"));
}

#[test]
fn nor_is_a_key_anywhere_else() {
    hidden(&section("").replace("id: t", &format!("id: '{PLAIN} '")));
    hidden(&with("", &format!(", key: {PLAIN}"), ""));
    hidden(&with("", &format!(", {PLAIN}: key"), ""));
    hidden(
        &with(", api_key_env: 1234567890123456789", "", "").replace("1234567890123", "10123456789"),
    );
    hidden(&with(", api_key_env: 'plain-0123456789'", "", ""));
    hidden(&section(&format!("anonymous: {PLAIN}\n")));
    hidden(&section(&format!("log: {{level: Bearer {PLAIN}}}\n")));
    hidden(&section("quota: {redis: {url: 'redis://u:0123456789@h:port'}}\n"));
    hidden(&section("quota: {redis: {url: '0123456789'}}\n"));
    hidden(&section("listen: {proxy: 'http://u:0123456789@h'}\n"));
}

#[test]
fn broken_yaml_shows_no_source_lines() {
    hidden(&format!("tenants:\n  - api_keys: ['{PLAIN}'\n    id: x\n"));
    hidden(&format!("tenants:\n  - api_keys: '{PLAIN}\n"));
    hidden(&format!("tenants:\n  - api_keys: {PLAIN}: {PLAIN}: x\n"));
    hidden(&format!("tenants: *{PLAIN}\n"));
}

#[test]
fn a_configuration_prints_no_secret() {
    let config = valid(&section("quota: {store: redis, redis: {url: 'redis://u:0123456789@h'}}\n"));
    let shown = format!("{config:?}");
    assert!(shown.contains("***"));
    assert!(!shown.contains("0123456789") && !shown.contains("0a2179ee"), "{shown}");
}
