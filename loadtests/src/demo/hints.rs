//! What to try by hand.

use super::settings::Settings;

/// The text that the demo starts with.
pub(super) fn text(settings: &Settings) -> String {
    let (proxy, admin) = (settings.proxy, settings.admin);
    let mut text =
        format!("\nStreamgate serves at http://{proxy}, the live page is http://{admin}/\n\n");
    for tenant in &settings.tenants {
        text += &format!(
            "As {} (at most {} in flight):\n  curl -N http://{proxy}/v1/chat/completions \
             -H 'authorization: Bearer {}' -H 'content-type: application/json' \
             -d '{{\"model\":\"sim\",\"stream\":true,\"max_tokens\":40,\
             \"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n",
            tenant.id, tenant.limit, tenant.key
        );
    }
    text += &format!(
        "What runs now:\n  curl http://{admin}/api/v1/state\n  curl http://{admin}/metrics\n\n\
         Ctrl-C stops everything.\n\n"
    );
    text
}
