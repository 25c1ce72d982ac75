use super::Availability::{Leaving, NotReady, Ready};
use super::*;
use proptest::prelude::*;
use std::slice::from_ref;

const PORT: PortRef = PortRef::Number(8000);

/// Ready, on the wanted port.
fn pod(address: &str, name: &str) -> SliceEndpoint {
    SliceEndpoint {
        addresses: vec![address.to_owned()],
        incarnation: (!name.is_empty()).then(|| name.into()),
        ..SliceEndpoint::default()
    }
}

fn conditions(ready: Option<bool>, terminating: Option<bool>) -> SliceEndpoint {
    SliceEndpoint { ready, terminating, ..pod("10.0.0.1", "a") }
}

fn slice(endpoints: &[SliceEndpoint]) -> Slice {
    on("http", Some(8000), endpoints)
}

fn on(name: &str, number: Option<u16>, endpoints: &[SliceEndpoint]) -> Slice {
    let ports = vec![SlicePort { name: name.to_owned(), number }];
    Slice { ports, endpoints: endpoints.to_vec() }
}

fn leaving(endpoint: SliceEndpoint) -> SliceEndpoint {
    SliceEndpoint { terminating: Some(true), ready: Some(false), ..endpoint }
}

fn found(slices: &[Slice]) -> Vec<(String, Availability)> {
    let found = merge(slices, &PORT);
    found.into_iter().map(|found| (found.id.to_string(), found.availability)).collect()
}

fn addresses(slices: &[Slice], port: &PortRef) -> Vec<String> {
    merge(slices, port).into_iter().map(|found| found.id.to_string()).collect()
}

#[test]
fn unset_conditions_have_the_defaults_of_the_api() {
    for (ready, terminating, expected) in [
        (None, None, Ready),
        (Some(true), Some(false), Ready),
        (Some(false), None, NotReady),
        (Some(false), Some(false), NotReady),
        (Some(false), Some(true), Leaving),
        (None, Some(true), Leaving),
        // `publishNotReadyAddresses` calls everything ready.
        (Some(true), Some(true), Leaving),
    ] {
        let found = merge(&[slice(&[conditions(ready, terminating)])], &PORT);
        assert_eq!(found[0].availability, expected, "ready {ready:?}, terminating {terminating:?}");
    }
}

#[test]
fn several_slices_are_one_list() {
    let slices = [
        slice(&[pod("10.0.0.2", "b"), leaving(pod("10.0.0.3", "c"))]),
        slice(&[]),
        slice(&[pod("10.0.0.1", "a")]),
    ];
    let all = [("10.0.0.1:8000", Ready), ("10.0.0.2:8000", Ready), ("10.0.0.3:8000", Leaving)];
    assert_eq!(found(&slices), all.map(|(address, is)| (address.to_owned(), is)));
    assert!(found(&[]).is_empty());
}

#[test]
fn of_one_pod_in_two_slices_the_later_state_counts() {
    let (ready, leaves) = (pod("10.0.0.1", "a"), leaving(pod("10.0.0.1", "a")));
    let starts = SliceEndpoint { ready: Some(false), ..pod("10.0.0.1", "a") };
    for (one, other, is) in [(&ready, &leaves, Leaving), (&starts, &ready, Ready)] {
        let expected = [("10.0.0.1:8000".to_owned(), is)];
        let (one, other) = (slice(from_ref(one)), slice(from_ref(other)));
        assert_eq!(found(&[one.clone(), other.clone()]), expected);
        assert_eq!(found(&[other, one]), expected);
    }
}

#[test]
fn of_two_pods_at_one_address_the_one_that_stays_is_the_newer() {
    let old = leaving(pod("10.0.0.1", "z-old"));
    let new = SliceEndpoint { ready: Some(false), ..pod("10.0.0.1", "a-new") };
    let found = merge(&[slice(&[old]), slice(&[new])], &PORT);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].incarnation.as_deref(), Some("a-new"));
    assert_eq!(found[0].availability, NotReady);
}

#[test]
fn a_pod_with_two_address_families_is_one_endpoint() {
    let v4 = slice(&[pod("10.0.0.1", "a"), pod("10.0.0.2", "b")]);
    let v6 = slice(&[pod("fd00::1", "a"), pod("fd00::3", "c"), pod("FD00::4", "")]);
    let all = ["10.0.0.1:8000", "10.0.0.2:8000", "[fd00::3]:8000", "[fd00::4]:8000"];
    assert_eq!(addresses(&[v6, v4], &PORT), all);
}

#[test]
fn addresses_of_one_entry_are_the_same_place_and_names_are_kept() {
    let mut many = pod("10.0.0.1", "a");
    many.addresses.push("10.0.0.9".to_owned());
    let none = SliceEndpoint { addresses: Vec::new(), ..pod("", "x") };
    let name = pod("Engine-1.example.org", "");
    let all = ["10.0.0.1:8000", "engine-1.example.org:8000"];
    assert_eq!(addresses(&[slice(&[many, none, name])], &PORT), all);
}

#[test]
fn a_port_is_found_by_number_or_by_name() {
    let one = [pod("10.0.0.1", "a")];
    let two = [pod("10.0.0.2", "b")];
    let named = [on("http", Some(8000), &one), on("http", Some(9000), &two)];
    let by_name = PortRef::Name("http".to_owned());
    assert_eq!(addresses(&named, &by_name), ["10.0.0.1:8000", "10.0.0.2:9000"]);
    assert_eq!(addresses(&named, &PORT), ["10.0.0.1:8000"]);
    assert!(addresses(&named, &PortRef::Name("metrics".to_owned())).is_empty());
    // Every port, and no port named at all: the number is taken as it is.
    assert_eq!(addresses(&[on("", None, &one)], &PORT), ["10.0.0.1:8000"]);
    let portless = Slice { ports: Vec::new(), endpoints: one.to_vec() };
    assert_eq!(addresses(&[portless], &PORT), ["10.0.0.1:8000"]);
    assert!(addresses(&[on("http", None, &one)], &by_name).is_empty());
}

#[test]
fn offered_ports_are_named_for_people() {
    let slices = [on("http", Some(8000), &[]), on("", Some(1), &[]), on("any", None, &[])];
    assert_eq!(ports(&slices).into_iter().collect::<Vec<_>>(), ["1", "any=any", "http=8000"]);
}

fn any_endpoint() -> impl Strategy<Value = SliceEndpoint> {
    let condition = || prop::option::of(any::<bool>());
    (0..4u8, 0..3u8, condition(), condition()).prop_map(|(address, name, ready, terminating)| {
        let address = ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"][usize::from(address)];
        SliceEndpoint { ready, terminating, ..pod(address, ["", "a", "b"][usize::from(name)]) }
    })
}

proptest! {
    #[test]
    fn the_order_of_slices_and_entries_does_not_matter(
        endpoints in prop::collection::vec(any_endpoint(), 0..8).prop_shuffle(),
        cut in 0..8usize,
    ) {
        let (one, other) = endpoints.split_at(cut.min(endpoints.len()));
        let merged = merge(&[slice(one), slice(other)], &PORT);
        let mut turned = endpoints.clone();
        turned.reverse();
        prop_assert_eq!(&merged, &merge(&[slice(&turned)], &PORT));
        let ids: HashSet<_> = merged.iter().map(|found| found.id.clone()).collect();
        prop_assert_eq!(ids.len(), merged.len());
    }
}
