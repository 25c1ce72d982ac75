//! Image references.

use std::fmt;

/// An image reference, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct Image {
    /// The last part of its path: `vllm-openai`.
    pub name: String,
    pub tag: Option<String>,
    /// Its maker counts releases of something else than vLLM.
    own_numbers: bool,
}

/// Makers of images that are called as vLLM's own and have version numbers of their own.
const OWN_NUMBERS: [&str; 1] = ["lmcache"];

/// A release of vLLM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::check::manifests) struct Version(pub u32, pub u32, pub u32);

impl Image {
    pub fn parse(reference: &str) -> Self {
        let (reference, _digest) = reference.split_once('@').unwrap_or((reference, ""));
        let last = super::base(reference);
        let own_numbers = reference.split('/').any(|part| OWN_NUMBERS.contains(&part));
        let (name, tag) = match last.split_once(':') {
            Some((name, tag)) => (name, Some(tag.to_owned())),
            None => (last, None),
        };
        Self { name: name.to_owned(), tag, own_numbers }
    }

    /// Whether vLLM's own server is what this image runs.
    pub fn is_vllm(&self) -> bool {
        const KINDS: [&str; 8] = ["openai", "cpu", "rocm", "tpu", "xpu", "hpu", "neuron", "cuda"];
        self.name == "vllm"
            || self
                .name
                .strip_prefix("vllm-")
                .is_some_and(|kind| KINDS.iter().any(|k| kind.starts_with(k)))
    }

    pub fn is_streamgate(&self) -> bool {
        self.name == "streamgate"
    }

    /// The version in the tag of an image of vLLM.
    pub fn version(&self) -> Option<Version> {
        let tag = self.tag.as_deref().filter(|_| self.is_vllm() && !self.own_numbers)?;
        let tag = tag.strip_prefix("vllm-").unwrap_or(tag);
        let mut numbers = tag.strip_prefix('v').unwrap_or(tag).splitn(3, '.');
        let whole = |text: &str| text.parse::<u32>().ok();
        let major = whole(numbers.next()?)?;
        let minor = leading(numbers.next()?)?;
        Some(Version(major, minor, numbers.next().and_then(leading).unwrap_or(0)))
    }
}

/// The number that a text begins with.
fn leading(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_tags_of_vllm_alone() {
        for (reference, expected) in [
            ("vllm/vllm-openai:v0.18.0", Some(Version(0, 18, 0))),
            ("localhost:5000/mirror/vllm-openai:0.17.1-cu130@sha256:abc", Some(Version(0, 17, 1))),
            ("vllm-openai:v0.20", Some(Version(0, 20, 0))),
            ("vllm-openai:v0.18.0rc1", Some(Version(0, 18, 0))),
            ("vllm-openai:latest", None),
            ("registry.example/lmcache/vllm-openai:v0.3.9", None),
            ("vllm-openai", None),
            ("localhost:5000/vllm-openai", None),
            ("vllm-openai@sha256:abc", None),
            ("llm-d-cuda:v0.3.1", None),
            ("vllm-router:v0.1.0", None),
        ] {
            assert_eq!(Image::parse(reference).version(), expected, "{reference}");
        }
    }
}
