//! EndpointSlices in the API's words, to those of `core::discovery`.

use crate::core::discovery::{Incarnation, Slice, SliceEndpoint, SlicePort};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use std::collections::BTreeMap;

/// The slices of one service by name.
#[derive(Debug, Default)]
pub(super) struct Slices(BTreeMap<String, Slice>);

impl Slices {
    /// Add or replace one.
    pub fn put(&mut self, slice: EndpointSlice) {
        let name = slice.metadata.name.clone().unwrap_or_default();
        self.0.insert(name, translated(slice));
    }

    pub fn remove(&mut self, slice: &EndpointSlice) {
        self.0.remove(slice.metadata.name.as_deref().unwrap_or_default());
    }

    pub fn iter(&self) -> impl Iterator<Item = &Slice> {
        self.0.values()
    }

    pub fn has_endpoints(&self) -> bool {
        self.0.values().any(|slice| !slice.endpoints.is_empty())
    }
}

fn translated(slice: EndpointSlice) -> Slice {
    Slice {
        ports: slice.ports.into_iter().flatten().filter_map(port).collect(),
        endpoints: slice.endpoints.into_iter().map(endpoint).collect(),
    }
}

/// `None`: not a TCP port.
fn port(port: EndpointPort) -> Option<SlicePort> {
    let tcp = port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let number = match port.port {
        None => None,
        Some(number) => Some(u16::try_from(number).ok()?),
    };
    tcp.then(|| SlicePort { name: port.name.unwrap_or_default(), number })
}

fn endpoint(endpoint: Endpoint) -> SliceEndpoint {
    let conditions = endpoint.conditions.unwrap_or_default();
    SliceEndpoint {
        addresses: endpoint.addresses,
        ready: conditions.ready,
        terminating: conditions.terminating,
        incarnation: endpoint.target_ref.and_then(pod),
    }
}

/// A pod by its UID: a StatefulSet gives its names again. Without one, by its name.
fn pod(target: ObjectReference) -> Option<Incarnation> {
    target.uid.or(target.name).map(Incarnation::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::discovery::{Availability, PortRef, merge};
    use serde_json::{Value, json};

    fn read(slice: Value) -> Slices {
        let mut slices = Slices::default();
        slices.put(serde_json::from_value(slice).unwrap());
        slices
    }

    fn written(endpoints: Value, ports: Value) -> Value {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "vllm-abc", "namespace": "llm"},
            "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
        })
    }

    #[test]
    fn a_slice_is_read_with_its_defaults() {
        let slices = read(written(
            json!([
                {"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "name": "a", "uid": "u1"}},
                {"addresses": ["10.0.0.2"], "conditions": {},
                 "targetRef": {"kind": "Pod", "name": "b"}},
                {"addresses": ["10.0.0.3"],
                 "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.0.0.4"], "conditions": {"ready": false}},
            ]),
            json!([
                {"name": "http", "port": 8000, "protocol": "TCP"},
                {"name": "dns", "port": 53, "protocol": "UDP"},
            ]),
        ));
        let found = merge(slices.iter(), &PortRef::Name("http".to_owned()));
        let found: Vec<_> = found
            .iter()
            .map(|found| (found.id.as_str(), found.incarnation.as_deref(), found.availability))
            .collect();
        assert_eq!(
            found,
            [
                ("10.0.0.1:8000", Some("u1"), Availability::Ready),
                ("10.0.0.2:8000", Some("b"), Availability::Ready),
                ("10.0.0.3:8000", None, Availability::Leaving),
                ("10.0.0.4:8000", None, Availability::NotReady),
            ]
        );
        assert!(merge(slices.iter(), &PortRef::Number(53)).is_empty());
    }

    #[test]
    fn an_empty_slice_may_be_written_as_null() {
        let slices = read(written(Value::Null, Value::Null));
        assert!(!slices.has_endpoints());
        assert_eq!(slices.iter().count(), 1);
    }

    #[test]
    fn a_slice_is_replaced_and_removed_by_name() {
        let full = written(json!([{"addresses": ["10.0.0.1"]}]), json!([{"port": 8000}]));
        let mut slices = read(full.clone());
        assert!(slices.has_endpoints());
        slices.put(serde_json::from_value(written(json!([]), json!([]))).unwrap());
        assert!(!slices.has_endpoints());
        slices.remove(&serde_json::from_value(full).unwrap());
        assert_eq!(slices.iter().count(), 0);
    }
}
