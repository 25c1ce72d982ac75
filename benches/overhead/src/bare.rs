//! The baseline: the least a Pingora proxy needs. No filter, no log, no metric, one worker thread,
//! Pingora's own server and listener; HTTP/1.1 and h2c on one port, as Streamgate's.

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::apps::HttpServerOptions;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};
use std::net::SocketAddr;

struct Bare {
    upstream: SocketAddr,
}

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

/// Serve until killed.
pub fn serve(listen: SocketAddr, upstream: SocketAddr) -> anyhow::Result<()> {
    let conf = ServerConf { threads: 1, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Bare { upstream });
    service.add_tcp(&listen.to_string());
    if let Some(app) = service.app_logic_mut() {
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        app.server_options = Some(options);
    }
    server.add_service(service);
    server.run_forever();
}
