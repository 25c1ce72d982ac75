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
    /// It begins with a shell or a script, and the server is what its arguments call.
    bare: bool,
}

/// Makers of images of vLLM that have version numbers of their own.
const OWN_NUMBERS: [&str; 3] = ["lmcache", "llm-d", "nvidia"];

/// vLLM is far from release 2: such numbers are dates, or releases of something else.
const LAST_MAJOR: u32 = 1;

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
        let own_numbers = own_numbers || name.starts_with("llm-d");
        let bare = ["vllm-dev", "vllm-ascend"].contains(&name)
            || (name == "vllm" && reference.split('/').any(|part| part == "nvidia"));
        Self { name: name.to_owned(), tag, own_numbers, bare }
    }

    /// Whether vLLM's own server is what this image is for.
    pub fn is_vllm(&self) -> bool {
        const KINDS: [&str; 10] =
            ["ascend", "cpu", "cuda", "dev", "hpu", "neuron", "openai", "rocm", "tpu", "xpu"];
        let kind = ["vllm-", "llm-d-"].iter().find_map(|family| self.name.strip_prefix(family));
        ["vllm", "llm-d"].contains(&self.name.as_str())
            || kind.is_some_and(|kind| KINDS.iter().any(|k| kind.starts_with(k)))
    }

    /// Whether its entrypoint is the server.
    pub fn serves(&self) -> bool {
        !self.bare
    }

    pub fn is_streamgate(&self) -> bool {
        self.name == "streamgate"
    }

    /// The version in the tag of an image of vLLM: `v0.18.0`, `0.18.0-cu130`, `main-v0.18`,
    /// `rocm6.4_vllm_0.10.1`.
    pub fn version(&self) -> Option<Version> {
        let tag = self.tag.as_deref().filter(|_| self.is_vllm())?;
        let named = |(at, name): (usize, &str)| {
            let rest = tag[at + name.len()..].trim_start_matches(['-', '_']);
            Version::read(rest.strip_prefix('v').unwrap_or(rest))
        };
        if let Some(version) = tag.match_indices("vllm").find_map(named) {
            return Some(version);
        }
        if self.own_numbers {
            return None;
        }
        let after_v = |part: &str| Version::read(part.strip_prefix('v')?);
        Version::read(tag).or_else(|| tag.split(['-', '_']).find_map(after_v))
    }
}

impl Version {
    /// The release that a text begins with.
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.splitn(3, '.');
        let major = numbers.next()?.parse().ok().filter(|major| *major <= LAST_MAJOR)?;
        let minor = leading(numbers.next()?)?;
        Some(Self(major, minor, numbers.next().and_then(leading).unwrap_or(0)))
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
            ("vllm-openai:vllm-v0.17.1", Some(Version(0, 17, 1))),
            ("vllm-openai:main-v0.17", Some(Version(0, 17, 0))),
            ("vllm-openai:cu128-v0.17.0", Some(Version(0, 17, 0))),
            ("rocm/vllm:rocm6.4_vllm_0.10.1", Some(Version(0, 10, 1))),
            (
                "rocm/vllm-dev:rocm7.2_ubuntu22.04_py3.10_pytorch_2.9_vllm_0.14.0rc0",
                Some(Version(0, 14, 0)),
            ),
            ("rocm/vllm-dev:nightly_main_20260224", None),
            ("quay.io/ascend/vllm-ascend:v0.18.0rc1-a3", Some(Version(0, 18, 0))),
            ("nvcr.io/nvidia/vllm:25.09-py3", None),
            ("ghcr.io/llm-d/llm-d-cuda:v0.6.0", None),
            ("mirror/llm-d-cuda:v0.6.0", None),
            ("lmcache/vllm-openai:v0.3.9-vllm-0.17.0", Some(Version(0, 17, 0))),
            ("vllm:2025.10", None),
            ("vllm:cuda-v12.8", None),
        ] {
            assert_eq!(Image::parse(reference).version(), expected, "{reference}");
        }
    }

    #[test]
    fn images_of_vllm_are_known_by_their_names() {
        for (reference, vllm, serves) in [
            ("vllm/vllm-openai:v0.18.0", true, true),
            ("rocm/vllm:x", true, true),
            ("rocm/vllm-dev:nightly", true, false),
            ("quay.io/ascend/vllm-ascend:v0.18.0", true, false),
            ("nvcr.io/nvidia/vllm:25.09-py3", true, false),
            ("ghcr.io/llm-d/llm-d-cuda:v0.6.0", true, true),
            ("ghcr.io/llm-d/llm-d:v0.2.0", true, true),
            ("ghcr.io/llm-d/llm-d-routing-sidecar:v0.7.1", false, true),
            ("ghcr.io/llm-d/llm-d-inference-sim:v0.6.0", false, true),
            ("vllm-router:v0.1.0", false, true),
        ] {
            let image = Image::parse(reference);
            assert_eq!((image.is_vllm(), image.serves()), (vllm, serves), "{reference}");
        }
    }
}
