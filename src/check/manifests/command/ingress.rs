//! Streamgate's own command line.

use super::shell::unwrapped;
use super::{Image, base, commands, words};
use crate::check::manifests::objects::Container;

/// How Streamgate is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct IngressCommand {
    /// `--config`.
    pub config: Option<String>,
}

/// What a container runs, if that is `streamgate serve`.
pub(in crate::check::manifests) fn ingress(container: &Container) -> Option<IngressCommand> {
    let words = words(container);
    let script = commands(&words, &container.vars);
    let binary = script.commands.iter().find_map(|command| {
        let words = unwrapped(&command.words);
        (base(&words.first()?.text) == "streamgate").then(|| &words[1..])
    });
    let image = container.image.as_deref().map(Image::parse);
    let entrypoint =
        container.command.is_empty() && image.is_some_and(|image| image.is_streamgate());
    let arguments = binary.or_else(|| entrypoint.then_some(&words[..]))?;
    if arguments.first().is_some_and(|word| word.text != "serve") {
        return None;
    }
    let config = arguments.iter().enumerate().find_map(|(n, word)| match word.text.as_str() {
        "--config" => arguments.get(n + 1).map(|next| next.text.clone()),
        text => text.strip_prefix("--config=").map(str::to_owned),
    });
    Some(IngressCommand { config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_by_its_image_or_its_binary() {
        let mut container = Container::bare("c", Some("registry.example/streamgate:1"));
        container.args = vec!["serve".into(), "--config=/etc/a.yaml".into()];
        assert_eq!(ingress(&container).unwrap().config.as_deref(), Some("/etc/a.yaml"));
        container.image = Some("other:1".into());
        assert_eq!(ingress(&container), None);
        container.command = vec!["/usr/bin/streamgate".into()];
        assert!(ingress(&container).is_some());
        container.args[0] = "status".into();
        assert_eq!(ingress(&container), None);
    }
}
