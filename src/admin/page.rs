//! `GET /`: the live page, one document without external assets.
//!
//! Everything it shows comes from `/api/v1/state` and `/api/v1/holders` and is written as text,
//! never as markup. The policy allows its own style and script by a nonce, requests to its own
//! origin, and nothing else.

use axum::http::HeaderName;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::IntoResponse;

const HTML: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/live.js");
const VIEWS: &str = include_str!("page/views.js");

/// The page, with a nonce of its own.
pub async fn page() -> impl IntoResponse {
    let nonce = format!("{:032x}", rand::random::<u128>());
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    let headers: [(HeaderName, String); 3] = [
        (CONTENT_TYPE, "text/html; charset=utf-8".into()),
        (CONTENT_SECURITY_POLICY, policy),
        (REFERRER_POLICY, "no-referrer".into()),
    ];
    (headers, document(&nonce))
}

fn document(nonce: &str) -> String {
    let script = format!("{VIEWS}\n{SCRIPT}");
    HTML.replace("{{nonce}}", nonce).replace("{{style}}", STYLE).replace("{{script}}", &script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let page = document("n0nce");
        assert!(!page.contains("{{"), "a placeholder is left");
        for outside in ["http://", "https://", "src=", "@import", "url(", "innerHTML"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("nonce=\"n0nce\"").count(), 2);
    }
}
