//! Two listeners need two addresses, and no endpoint may be this proxy itself.

use crate::config::errors::Report;
use crate::config::raw::RawConfig;
use std::net::SocketAddr;

pub(super) fn check(raw: &RawConfig, report: &Report<'_>) {
    let listen = &raw.listen;
    if collide(listen.proxy, listen.admin) {
        report.contradiction(
            "listen.admin",
            &["listen.proxy"],
            format!("the same port as listen.proxy ({})", listen.proxy),
            "give the admin API a port of its own",
        );
    }
    for endpoint in raw.pools.iter().flat_map(|pool| &pool.endpoints) {
        let address = endpoint.value.parse::<SocketAddr>().ok();
        if address.is_some_and(|address| is_self(listen.proxy, address)) {
            report.contradiction(
                &endpoint.path,
                &["listen.proxy"],
                "the address of this proxy: every request would come back to it",
                "name the engine's address",
            );
        }
    }
}

/// Port 0 is another port each time.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let overlap = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && overlap
}

fn is_self(listen: SocketAddr, endpoint: SocketAddr) -> bool {
    let here = endpoint.ip().is_loopback() || endpoint.ip().is_unspecified();
    listen.port() == endpoint.port()
        && (listen.ip() == endpoint.ip() || (listen.ip().is_unspecified() && here))
}
