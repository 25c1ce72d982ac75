//! Where the endpoints of a pool come from.

use super::*;
use crate::core::discovery::PortRef;

fn discovered(source: &str) -> String {
    with(&format!(", discovery: {source}"), "", "").replace(", endpoints: ['127.0.0.1:8001']", "")
}

fn kubernetes(fields: &str) -> String {
    discovered(&format!("{{kubernetes: {{namespace: llm, {fields}}}}}"))
}

#[test]
fn a_service_is_named_with_its_namespace_and_port() {
    let port = |fields: &str| match &valid(&kubernetes(fields)).pools[0].discovery {
        Some(Discovery::Kubernetes { namespace, service, port }) => {
            assert_eq!((namespace.as_str(), service.as_str()), ("llm", "vllm"));
            port.clone()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(port("service: vllm, port: 8000"), PortRef::Number(8000));
    assert_eq!(port("service: vllm, port: http"), PortRef::Name("http".to_owned()));
    let at = "pools[0].discovery.kubernetes";
    only(&kubernetes("service: vllm"), &format!("{at}.port: missing"));
    only(&kubernetes("service: vllm, port: 0"), &format!("{at}.port: out of range"));
    only(&kubernetes("service: vllm, port: '80'"), &format!("{at}.port: not the name of a port"));
    only(&kubernetes("port: 80"), &format!("{at}.service: missing"));
    let problem = format!("{at}.service: not the name of a Kubernetes object");
    only(&kubernetes("service: vllm.llm.svc, port: 80"), &problem);
    assert!(valid(&kubernetes("service: vllm, port: 80")).pools[0].endpoints.is_empty());
}

#[test]
fn a_name_is_given_with_its_port() {
    let config = valid(&discovered("{dns: 'vllm.llm.svc:8000'}"));
    let expected = Discovery::Dns("vllm.llm.svc:8000".to_owned());
    assert_eq!(config.pools[0].discovery, Some(expected));
    only(&discovered("{dns: vllm}"), "pools[0].discovery.dns: not host:port");
    let problem = "pools[0].discovery.dns: an address, not a name";
    only(&discovered("{dns: '10.0.0.1:8000'}"), problem);
    only(&discovered("{dns: '[fd00::1]:8000'}"), problem);
}

#[test]
fn there_is_one_source_and_no_list_beside_it() {
    let problem = "pools[0].discovery: exactly one source is needed";
    only(&discovered("{}"), problem);
    let both = "{dns: 'vllm:80', kubernetes: {namespace: llm, service: vllm, port: 80}}";
    only(&discovered(both), problem);
    only(
        &with(", discovery: {dns: 'vllm:8000'}", "", ""),
        "pools[0].discovery: endpoints are listed too",
    );
    only(
        &discovered("{dns: 'vllm:8000'}, kind: gateway"),
        "pools[0].discovery: a gateway has one address, which is not discovered",
    );
}

#[test]
fn two_pools_do_not_find_the_same_engines() {
    let second = |source: &str| {
        let text = discovered("{dns: 'vllm:8000'}").replace("models: ['*']", "models: [x]");
        let pool = format!("- {{name: q, models: [y], discovery: {source}}}\ntenants:");
        text.replace("tenants:", &pool)
    };
    let problem = "pools[1].discovery: the same source as pools[0].discovery";
    only(&second("{dns: 'vllm:8000'}"), problem);
    valid(&second("{dns: 'vllm:8001'}"));
}
