//! Addresses and header names.

use super::Wrong;
use super::words::text;
use crate::config::yaml::Value;
use http::HeaderName;
use ipnet::IpNet;
use std::net::{Ipv6Addr, SocketAddr};

/// An address to listen on, `IP:port`.
pub(in crate::config) fn socket(value: &Value) -> Result<SocketAddr, Wrong> {
    text(value)?.parse().map_err(|_| {
        Wrong::new(
            "not an address to listen on",
            "write IP:port, such as 0.0.0.0:8080 or \"[::]:8080\"; a host name is not accepted",
        )
    })
}

/// An address to connect to, `host:port` with a name, an IPv4 address or a bracketed IPv6
/// address.
pub(in crate::config) fn endpoint(value: &Value) -> Result<String, Wrong> {
    let address = text(value)?;
    let fits = address.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port));
    fits.then_some(address).ok_or_else(|| {
        Wrong::new(
            "not host:port",
            "write host:port without a scheme or path, such as 10.0.0.7:8000 or \"[fd00::7]:8000\"",
        )
    })
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(label)
}

/// One spelling only: an endpoint's text is its identity.
fn is_port(port: &str) -> bool {
    port.starts_with(|c: char| matches!(c, '1'..='9')) && port.parse::<u16>().is_ok()
}

/// A network such as `10.0.0.0/8`; a single address is a network of one.
pub(in crate::config) fn cidr(value: &Value) -> Result<IpNet, Wrong> {
    let network = text(value)?;
    network
        .parse()
        .or_else(|_| network.parse().map(|address: std::net::IpAddr| IpNet::from(address)))
        .map_err(|_| Wrong::new("not a network", "write an address with a prefix: 10.0.0.0/8"))
}

/// An HTTP header name.
pub(in crate::config) fn header_name(value: &Value) -> Result<HeaderName, Wrong> {
    text(value)?
        .parse()
        .map_err(|_| Wrong::new("not a header name", "write a name such as x-platform-tenant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(address: &str) -> bool {
        endpoint(&Value::Text(address.to_owned())).is_ok()
    }

    #[test]
    fn endpoints_are_host_and_port() {
        for good in ["127.0.0.1:8001", "vllm-0.vllm.ns.svc.cluster.local:8000", "[::1]:80", "a_b:1"]
        {
            assert!(reads(good), "{good}");
        }
    }

    #[test]
    fn anything_else_is_not() {
        for bad in [
            "127.0.0.1",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "127.0.0.1:+80",
            "127.0.0.1:080",
            "a..:80",
            ":8000",
            "http://127.0.0.1:8000",
            "127.0.0.1:8000/v1",
            "::1:80",
            "[::1]",
            "[vllm]:80",
            "a..b:80",
            "-a:80",
            "a b:80",
        ] {
            assert!(!reads(bad), "{bad}");
        }
    }

    #[test]
    fn an_address_is_a_network_of_one() {
        let read = |network: &str| cidr(&Value::Text(network.to_owned()));
        assert_eq!(read("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(read("::1").unwrap().to_string(), "::1/128");
        assert_eq!(read("10.0.0.0/33").unwrap_err().problem, "not a network");
    }
}
