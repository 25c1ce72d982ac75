//! What a request presents, before anybody is looked up.

use crate::core::reason::Reason;

/// Longest key that is looked at, in bytes. Keys made by `streamgate key new` have 67.
const LONGEST: usize = 512;

/// Why nobody was recognised. All are answered alike, so that a client learns nothing about
/// which keys exist; the difference is for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("no credential was presented")]
    Missing,
    #[error(
        "the credential is not `Bearer KEY` or a key of 1 to {LONGEST} visible ASCII characters"
    )]
    Malformed,
    #[error("two different credentials were presented")]
    Conflicting,
    #[error("the key is not a configured one")]
    Unknown,
}

impl AuthError {
    /// The reason the client is told.
    pub const fn reason(self) -> Reason {
        Reason::Unauthenticated
    }
}

/// The outcome of reading both headers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Presented<'h> {
    /// Neither header is there.
    Nothing,
    Key(&'h [u8]),
}

pub(super) fn presented<'h>(
    authorization: Option<&'h [u8]>,
    x_api_key: Option<&'h [u8]>,
) -> Result<Presented<'h>, AuthError> {
    let bearer = authorization.map(bearer).transpose()?;
    let plain = x_api_key.map(key).transpose()?;
    match (bearer, plain) {
        (None, None) => Ok(Presented::Nothing),
        // Both are the client's own words, so this comparison gives nothing away.
        (Some(a), Some(b)) if a != b => Err(AuthError::Conflicting),
        (Some(key), _) | (None, Some(key)) => Ok(Presented::Key(key)),
    }
}

/// The key of `Bearer KEY`.
fn bearer(header: &[u8]) -> Result<&[u8], AuthError> {
    const SCHEME: &[u8] = b"bearer";
    let header = header.trim_ascii();
    let (scheme, rest) = header.split_at_checked(SCHEME.len()).ok_or(AuthError::Malformed)?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || !rest.starts_with(b" ") {
        return Err(AuthError::Malformed);
    }
    key(rest)
}

fn key(header: &[u8]) -> Result<&[u8], AuthError> {
    let key = header.trim_ascii();
    let fits = (1..=LONGEST).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
    if fits { Ok(key) } else { Err(AuthError::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authorization(header: &str) -> Result<Presented<'_>, AuthError> {
        presented(Some(header.as_bytes()), None)
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        for header in ["Bearer k", "bearer k", "BEARER  k", " Bearer k "] {
            assert_eq!(authorization(header), Ok(Presented::Key(b"k")), "{header:?}");
        }
    }

    #[test]
    fn anything_else_is_malformed_never_absent() {
        let long = format!("Bearer {}", "k".repeat(LONGEST + 1));
        for header in [
            "",
            " ",
            "Bearer",
            "Bearer ",
            "Bearerk",
            "Basic azpr",
            "k",
            "Bearer a b",
            "Bearer ä",
            &long,
        ] {
            assert_eq!(authorization(header), Err(AuthError::Malformed), "{header:?}");
        }
        for header in ["", " ", "a b", "ä", "a\tb", &long[7..]] {
            let got = presented(None, Some(header.as_bytes()));
            assert_eq!(got, Err(AuthError::Malformed), "{header:?}");
        }
        assert_eq!(presented(Some(&b"Bearer \xff"[..]), None), Err(AuthError::Malformed));
    }

    #[test]
    fn two_headers_must_agree() {
        let both =
            |a: &'static str, b: &'static str| presented(Some(a.as_bytes()), Some(b.as_bytes()));
        assert_eq!(both("Bearer k", "k"), Ok(Presented::Key(b"k")));
        assert_eq!(both("Bearer k", "l"), Err(AuthError::Conflicting));
        assert_eq!(both("Bearer k", ""), Err(AuthError::Malformed));
        assert_eq!(both("Basic k", "k"), Err(AuthError::Malformed));
        assert_eq!(presented(None, None), Ok(Presented::Nothing));
    }
}
