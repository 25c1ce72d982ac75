//! Names of Kubernetes objects.

use super::Wrong;
use super::measure::whole;
use super::words::text;
use crate::config::yaml::Value;
use crate::core::discovery::PortRef;

/// The name of a namespace or a service: a DNS label (RFC 1123).
pub(in crate::config) fn dns_label(value: &Value) -> Result<String, Wrong> {
    let name = text(value)?;
    is_dns_label(&name, 63).then_some(name).ok_or_else(|| {
        Wrong::new(
            "not the name of a Kubernetes object",
            "use 1 to 63 lower-case letters, digits or `-`, beginning and ending with a letter or \
             digit",
        )
    })
}

/// A port of a service's endpoints, by number or by name.
pub(in crate::config) fn service_port(value: &Value) -> Result<PortRef, Wrong> {
    match value {
        Value::Text(name) if is_dns_label(name, 15) && name.contains(char::is_alphabetic) => {
            Ok(PortRef::Name(name.clone()))
        }
        Value::Text(_) => Err(Wrong::new(
            "not the name of a port",
            "write its name as in the service (up to 15 lower-case letters, digits or `-`), or its \
             number without quotes",
        )),
        number => whole(1..=u16::MAX)(number).map(PortRef::Number),
    }
}

fn is_dns_label(name: &str, longest: usize) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=longest).contains(&name.len())
        && name.chars().all(|c| letter(c) || c == '-')
        && name.starts_with(letter)
        && name.ends_with(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn objects_have_dns_labels() {
        for good in ["llm", "a", "vllm-2"] {
            assert!(dns_label(&written(good)).is_ok(), "{good}");
        }
        for bad in ["", "Llm", "-a", "a-", "a.b", "a_b", &"a".repeat(64)] {
            assert!(dns_label(&written(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_port_is_a_number_or_a_name() {
        assert_eq!(service_port(&Value::Int(8000)), Ok(PortRef::Number(8000)));
        assert_eq!(service_port(&written("http")), Ok(PortRef::Name("http".to_owned())));
        for bad in [Value::Int(0), Value::Int(65_536), written("8000"), written("HTTP")] {
            assert!(service_port(&bad).is_err(), "{bad}");
        }
    }
}
