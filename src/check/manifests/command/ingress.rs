//! Streamgate's own command line.

use super::launch::Launch;
use super::shell::{Word, unwrapped};
use super::{Image, base, commands, words};
use crate::check::manifests::objects::Container;

/// How Streamgate is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check::manifests) struct IngressCommand {
    /// `--config`.
    pub config: Option<String>,
    pub launch: Launch,
}

/// What a container runs, if that is `streamgate serve`.
pub(in crate::check::manifests) fn ingress(container: &Container) -> Option<IngressCommand> {
    let words = words(container);
    let runs = commands(&words, &container.vars);
    let serves = runs.iter().filter_map(|run| {
        let words = unwrapped(&run.command.words);
        let (binary, arguments) = words.split_first()?;
        let ours = base(&binary.text) == "streamgate" && serve(arguments);
        ours.then_some((arguments, run.launch))
    });
    let serves: Vec<_> = serves.collect();
    let launch = serves.iter().map(|(_, launch)| *launch).max().unwrap_or(Launch::Direct);
    let image = container.image.as_deref().map(Image::parse);
    let entrypoint = container.command.is_empty()
        && image.is_some_and(|image| image.is_streamgate())
        && serve(&words);
    let started = serves.first().map(|(arguments, _)| *arguments);
    let arguments = started.or_else(|| entrypoint.then_some(&words[..]))?;
    let config = arguments.iter().enumerate().find_map(|(n, word)| match word.text.as_str() {
        "--config" => arguments.get(n + 1).map(|next| next.text.clone()),
        text => text.strip_prefix("--config=").map(str::to_owned),
    });
    Some(IngressCommand { config, launch })
}

fn serve(arguments: &[Word]) -> bool {
    arguments.first().is_none_or(|word| word.text == "serve")
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

    #[test]
    fn a_script_may_do_something_else_before() {
        let launch = |script: &str| {
            let mut container = Container::bare("c", Some("other:1"));
            container.command = vec!["sh".into(), "-c".into(), script.into()];
            ingress(&container).map(|command| command.launch)
        };
        let checked = "streamgate check --config c && exec streamgate serve --config c";
        assert_eq!(launch(checked), Some(Launch::Direct));
        assert_eq!(launch("streamgate serve --config c; a"), Some(Launch::BehindShell));
        assert_eq!(launch("streamgate check --config c"), None);
    }
}
