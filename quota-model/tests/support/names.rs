//! The names that stand for the model's numbers.

use streamgate_quota_model::store::{Class, IncId, Leaf, ScopeId};

pub const KEY: &str = "test:{q0}";

/// Bit `i` of a leaf. In alphabetical order on purpose: a leaf's name lists its scopes in this order.
pub const SCOPES: [&str; 4] = ["p:h100", "p:l20", "t:acme", "t:beta-2.x%20y"];

pub fn scope(id: ScopeId) -> &'static str {
    SCOPES[usize::from(id)]
}

pub fn scope_id(name: &str) -> ScopeId {
    let at = SCOPES.iter().position(|s| *s == name).expect("a scope of this test");
    u8::try_from(at).expect("few scopes")
}

pub fn leaf(leaf: Leaf) -> String {
    leaf.path().map(scope).collect::<Vec<_>>().join("|")
}

pub fn leaf_id(name: &str) -> Leaf {
    Leaf(name.split('|').map(|s| 1 << scope_id(s)).sum())
}

pub fn inc(id: IncId) -> String {
    let class = match id.class {
        Class::Ordinary => 'o',
        Class::Floor => 'f',
    };
    format!("{class}{}x{}", id.owner, id.life)
}

pub fn inc_id(name: &str) -> IncId {
    let class = match name.as_bytes()[0] {
        b'o' => Class::Ordinary,
        b'f' => Class::Floor,
        other => panic!("class {other}"),
    };
    let (owner, life) = name[1..].split_once('x').expect("owner x life");
    IncId { owner: owner.parse().expect("owner"), life: life.parse().expect("life"), class }
}

/// Generations are named by number; 0 is "none".
pub fn generation(id: u16) -> String {
    if id == 0 { String::new() } else { format!("g{id}") }
}

pub fn generation_id(name: &str) -> u16 {
    name.strip_prefix('g').expect("a generation of this test").parse().expect("a number")
}
