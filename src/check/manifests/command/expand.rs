//! `$(NAME)` in `command`, `args` and `env` values, as Kubernetes expands it: `$$(NAME)` is
//! literal, and a name without a variable is left as it stands.

use super::shell::{Vars, Word};

/// Expand one text. A variable whose value the manifests do not hold leaves the word unknown.
pub(in crate::check::manifests) fn kubernetes(text: &str, vars: &Vars) -> Word {
    let mut word = Word::default();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        word.text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            word.text.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(rest) {
            match vars.get(name) {
                Some(Some(value)) => word.text.push_str(value),
                Some(None) => {
                    word.unknown.get_or_insert_with(|| name.to_owned());
                    word.text.push_str(&rest[..rest.len() - after.len()]);
                }
                None => word.text.push_str(&rest[..rest.len() - after.len()]),
            }
            rest = after;
        } else {
            word.text.push('$');
            rest = &rest[1..];
        }
    }
    word.text.push_str(rest);
    word
}

/// `$(NAME)rest` → the name and the rest.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix("$(")?.split_once(')')?;
    let fits =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    fits.then_some((name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded_as_kubernetes_does() {
        let vars = Vars::from([("A".into(), Some("90".into())), ("S".into(), None)]);
        let expanded = |text: &str| kubernetes(text, &vars);
        assert_eq!(expanded("--t=$(A)s").text, "--t=90s");
        assert_eq!(expanded("$$(A) $(NONE) $ $A $(").text, "$(A) $(NONE) $ $A $(");
        assert_eq!(expanded("x$(S)").unknown.as_deref(), Some("S"));
        assert_eq!(expanded("x$(A)").unknown, None);
    }
}
