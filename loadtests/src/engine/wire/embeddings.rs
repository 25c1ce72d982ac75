//! `/v1/embeddings`: a plain request without a generation, for proxies that account for it.

use super::Identity;

/// An answer with one short vector an input. The vector is a fixed one: nobody compares it.
pub(crate) fn embeddings(identity: &Identity, inputs: usize, prompt_tokens: u64) -> String {
    let item = |index| {
        format!(r#"{{"index":{index},"object":"embedding","embedding":[0.5,-0.5,0.5,-0.5]}}"#)
    };
    let items: Vec<String> = (0..inputs).map(item).collect();
    let Identity { id, created, model, .. } = identity;
    format!(
        r#"{{"id":{id},"object":"list","created":{created},"model":{model},"data":[{}],"usage":{{"prompt_tokens":{prompt_tokens},"total_tokens":{prompt_tokens},"completion_tokens":0,"prompt_tokens_details":null}}}}"#,
        items.join(",")
    )
}
