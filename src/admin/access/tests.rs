use super::*;
use Action::{Change, Prestop};

const LOOPBACK: [&str; 3] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];

fn check(
    access: &Access,
    action: Action,
    peer: &str,
    headers: &[(&'static str, &str)],
) -> Result<(), Denied> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().expect("a header value"));
    }
    access.check(action, peer.parse().expect("an address"), &map)
}

#[test]
fn loopback_needs_no_token() {
    for access in [Access::new(None, false), Access::new(Some("t0ken"), false)] {
        for peer in LOOPBACK {
            for action in [Change, Prestop] {
                assert_eq!(check(&access, action, peer, &[("host", "localhost:9180")]), Ok(()));
                assert_eq!(check(&access, action, peer, &[]), Ok(()));
            }
        }
    }
}

#[test]
fn others_need_the_token() {
    let access = Access::new(Some(" t0ken\n"), false);
    let peer = "10.1.2.3";
    for action in [Change, Prestop] {
        for good in ["Bearer t0ken", "bearer t0ken", "BEARER  t0ken"] {
            assert_eq!(check(&access, action, peer, &[("authorization", good)]), Ok(()), "{good}");
        }
        for bad in ["Bearer t0ke", "Bearer t0kenn", "Bearer", "Basic t0ken", "t0ken", "Bearer "] {
            let denied = check(&access, action, peer, &[("authorization", bad)]);
            assert_eq!(denied, Err(Denied::Token), "{bad}");
        }
        assert_eq!(check(&access, action, peer, &[]), Err(Denied::Token));
    }
}

#[test]
fn without_a_token_file_nobody_else_may() {
    for access in [Access::new(None, false), Access::new(Some("  \n"), false)] {
        let empty = [("authorization", "Bearer ")];
        assert_eq!(check(&access, Change, "10.1.2.3", &empty), Err(Denied::Loopback));
    }
}

#[test]
fn a_new_token_replaces_the_old() {
    let access = Access::new(Some("old"), false);
    access.set_token(Some("new"));
    let with = |token| check(&access, Change, "10.1.2.3", &[("authorization", token)]);
    assert_eq!((with("Bearer old"), with("Bearer new")), (Err(Denied::Token), Ok(())));
}

#[test]
fn the_kubelet_may_call_prestop_if_told_so() {
    let access = Access::new(None, true);
    assert_eq!(check(&access, Prestop, "10.1.2.3", &[("host", "10.9.9.9:9180")]), Ok(()));
    assert_eq!(check(&access, Change, "10.1.2.3", &[]), Err(Denied::Loopback));
    let page = [("sec-fetch-site", "cross-site")];
    assert_eq!(check(&access, Prestop, "10.1.2.3", &page), Err(Denied::Browser));
}

#[test]
fn a_foreign_page_may_not_change_anything() {
    let access = Access::new(None, false);
    let host = ("host", "127.0.0.1:9180");
    for page in [
        [host, ("origin", "https://evil.example")],
        [host, ("origin", "null")],
        [host, ("origin", "https://127.0.0.1:9180")],
        [host, ("origin", "http://127.0.0.1:8080")],
        [host, ("sec-fetch-site", "cross-site")],
        [host, ("sec-fetch-site", "same-site")],
    ] {
        assert_eq!(check(&access, Change, "127.0.0.1", &page), Err(Denied::Browser), "{page:?}");
    }
    let own = [host, ("origin", "http://127.0.0.1:9180"), ("sec-fetch-site", "same-origin")];
    assert_eq!(check(&access, Change, "127.0.0.1", &own), Ok(()));
    for signal in [("sec-fetch-site", "none"), ("referer", "http://127.0.0.1:9180/")] {
        assert_eq!(check(&access, Prestop, "127.0.0.1", &[host, signal]), Err(Denied::Browser));
    }
}

#[test]
fn a_name_pointed_at_loopback_is_refused() {
    let access = Access::new(None, false);
    for host in ["evil.example:9180", "localhost.evil.example", "127.0.0.1.evil.example", "x:y:z"] {
        let rebound = [("host", host), ("origin", "http://evil.example:9180")];
        for headers in [&rebound[..1], &rebound] {
            let denied = check(&access, Change, "127.0.0.1", headers);
            assert_eq!(denied, Err(Denied::Browser), "{host}");
        }
    }
    for host in ["localhost", "LOCALHOST:9180", "127.0.0.1", "[::1]:9180", "[::1]", "10.0.0.1:80"] {
        assert_eq!(check(&access, Change, "127.0.0.1", &[("host", host)]), Ok(()), "{host}");
    }
    let two = [("host", "localhost"), ("host", "evil.example")];
    assert_eq!(check(&access, Change, "127.0.0.1", &two), Err(Denied::Browser));
}

#[test]
fn what_a_local_proxy_passed_on_is_not_loopback() {
    let access = Access::new(None, false);
    for header in [("x-forwarded-for", "10.1.2.3"), ("forwarded", "for=10.1.2.3")] {
        assert_eq!(check(&access, Change, "127.0.0.1", &[header]), Err(Denied::Loopback));
    }
    assert_eq!(check(&access, Change, "127.0.0.6", &[]), Err(Denied::Loopback));
}
