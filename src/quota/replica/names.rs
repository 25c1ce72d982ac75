//! The store's names (docs/quota-protocol.md, section 2).

use crate::core::ids::{PoolId, TenantId};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rand::Rng;
use rand::distr::Alphanumeric;
use std::sync::Arc;

/// Everything but `A-Z a-z 0-9 _ . : @ / -`.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b':').remove(b'@').remove(b'/').remove(b'-');

/// 22 characters of 62 are more than 128 bits.
const ID_LENGTH: usize = 22;

/// The scope of a tenant.
pub(super) fn tenant(id: &TenantId) -> Arc<str> {
    format!("t:{}", utf8_percent_encode(id.as_str(), ENCODED)).into()
}

/// The scope of a pool.
pub(super) fn pool(id: &PoolId) -> Arc<str> {
    format!("p:{}", utf8_percent_encode(id.as_str(), ENCODED)).into()
}

/// A leaf: all its scopes in order.
pub(super) fn leaf(scopes: &[&str]) -> Arc<str> {
    scopes.join("|").into()
}

/// A name that nobody else has: an incarnation (after its class letter) or a generation.
pub(super) fn random(prefix: &str, random: &mut impl Rng) -> Arc<str> {
    let mut id = prefix.to_owned();
    id.extend(random.sample_iter(Alphanumeric).take(ID_LENGTH).map(char::from));
    id.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    proptest! {
        #[test]
        fn names_are_what_the_scripts_accept_and_distinct(a in "\\PC{1,40}", b in "\\PC{1,40}") {
            let fits = |name: &str| {
                name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:@/%-".contains(&b))
            };
            let (x, y) = (tenant(&TenantId::from(&a)), tenant(&TenantId::from(&b)));
            prop_assert!(fits(&x) && fits(&y));
            prop_assert_eq!(a == b, x == y);
        }
    }

    #[test]
    fn plain_names_stay_readable() {
        assert_eq!(&*leaf(&[&tenant(&"acme".into()), &pool(&"l20".into())]), "t:acme|p:l20");
        assert_eq!(&*tenant(&"a|b %".into()), "t:a%7Cb%20%25");
    }

    #[test]
    fn ids_fit_the_scripts_and_differ() {
        let mut rng = StdRng::seed_from_u64(1);
        let (a, b) = (random("o", &mut rng), random("o", &mut rng));
        assert!(a.len() == 23 && a.bytes().all(|b| b.is_ascii_alphanumeric()));
        assert_ne!(a, b);
    }
}
