//! `$(NAME)` in `command`, `args` and `env` values, as Kubernetes expands it: `$$(NAME)` is
//! literal, and a name without a variable is left as it stands.

use super::shell::{LONGEST_ARGUMENT, Vars, Word};

/// More than Linux takes of arguments and variables together, however large the stack is.
pub(in crate::check::manifests) const MOST: usize = 6 << 20;

/// Expand one text. A variable whose value the manifests do not hold leaves the word unknown, and
/// so does one that no program can be given.
pub(in crate::check::manifests) fn kubernetes(text: &str, vars: &Vars) -> Word {
    let mut word = Word::default();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        word.text.push_str(&rest[..at]);
        rest = &rest[at..];
        let value = reference(rest).and_then(|(name, _)| vars.get(name)?.as_ref());
        if word.text.len() + value.map_or(0, String::len) > LONGEST_ARGUMENT {
            return too_long(word);
        }
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
    if word.text.len() > LONGEST_ARGUMENT { too_long(word) } else { word }
}

fn too_long(word: Word) -> Word {
    Word { unknown: Some("a value of more than 128 KiB".to_owned()), ..word }
}

/// `$(NAME)rest` → the name and the rest.
pub(super) fn reference(text: &str) -> Option<(&str, &str)> {
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

    #[test]
    fn a_value_that_no_program_takes_is_unknown() {
        let mut vars = Vars::from([("A".into(), Some("a".repeat(1 << 16)))]);
        let twice = kubernetes("$(A)$(A)", &vars);
        assert_eq!((twice.text.len(), twice.unknown), (LONGEST_ARGUMENT, None));
        let more = kubernetes("x$(A)$(A)$(A)", &vars);
        assert_eq!(more.unknown.as_deref(), Some("a value of more than 128 KiB"));
        assert!(more.text.len() <= LONGEST_ARGUMENT);
        assert!(kubernetes(&"a".repeat(LONGEST_ARGUMENT + 1), &vars).unknown.is_some());
        vars.insert("A".into(), Some("a".repeat(LONGEST_ARGUMENT)));
        assert_eq!(kubernetes("$(A)", &vars).unknown, None);
    }
}
