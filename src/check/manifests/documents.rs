//! Text → documents. A `---` in the first column ends a document wherever it stands, so the text
//! is cut there and each document is parsed for itself: one that is broken hides no other.

use super::input::{Input, Unreadable};
use serde_json::Value;
use serde_saphyr::{MessageFormatter, UserMessageFormatter};

/// One document that is there.
pub(super) struct Document {
    /// `vllm.yaml, document 2 (line 14)`; the number is left out if there is only one.
    pub label: String,
    pub value: Value,
}

/// Every document of a text; empty ones are left out.
pub(super) fn documents(input: &Input) -> Vec<Result<Document, Unreadable>> {
    let pieces = pieces(&input.text);
    let several = pieces.len() > 1;
    let label = |number: usize, line: usize| match several {
        true => format!("{}, document {} (line {line})", input.name, number + 1),
        false => input.name.clone(),
    };
    let parsed = pieces.into_iter().enumerate().filter_map(|(number, piece)| {
        let label = label(number, piece.line);
        match parse(&piece) {
            Ok(Value::Null) => None,
            Ok(value) => Some(Ok(Document { label, value })),
            Err(problem) => Some(Err(Unreadable { name: label, problem })),
        }
    });
    parsed.collect()
}

struct Piece<'t> {
    text: &'t str,
    /// Of its first line of content; 1-based.
    line: usize,
    /// Lines of the input before `text`.
    before: usize,
}

fn parse(piece: &Piece<'_>) -> Result<Value, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(piece.text, options).map_err(|error| {
        let line = error.location().map(|at| at.line());
        let message = UserMessageFormatter.format_message(error.without_snippet()).into_owned();
        match line.and_then(|line| usize::try_from(line).ok()) {
            Some(line) => format!("not readable YAML, line {}: {message}", line + piece.before),
            None => format!("not readable YAML: {message}"),
        }
    })
}

/// The documents with content. Directives (`%YAML`) belong to what follows them.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut pieces = Vec::new();
    let (mut start, mut first, mut at) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let so_far = &text[start..at];
        if marks(line) && !only_directives(so_far) {
            pieces.push((start, at, first));
            (start, first) = (at, number);
        }
        at += line.len();
    }
    pieces.push((start, text.len(), first));
    let has_content = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---" && line != "..."
    };
    pieces
        .into_iter()
        .filter_map(|(start, end, before)| {
            let text = &text[start..end];
            let content = text.lines().position(|line| has_content(&line))?;
            Some(Piece { text, line: before + content + 1, before })
        })
        .collect()
}

/// Whether a line begins a document.
fn marks(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn only_directives(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut any = false;
    lines.all(|line| {
        any = true;
        line.starts_with('%')
    }) && any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<(String, Value), Unreadable>> {
        let input = Input { name: "a.yaml".into(), text: text.into() };
        let found = documents(&input).into_iter();
        found.map(|one| one.map(|document| (document.label, document.value))).collect()
    }

    #[test]
    fn documents_are_numbered_and_know_their_line() {
        let found = read("# head\n---\na: 1\n---\n# nothing\n---\n\nb: 2\n");
        let labels: Vec<_> = found.into_iter().map(|one| one.unwrap().0).collect();
        assert_eq!(labels, ["a.yaml, document 1 (line 3)", "a.yaml, document 2 (line 8)"]);
        assert_eq!(read("a: 1\n")[0].as_ref().unwrap().0, "a.yaml");
        assert!(read("---\n---\n# nothing\n").is_empty());
    }

    #[test]
    fn a_broken_document_hides_no_other() {
        let found = read("a: 1\n---\nb: [1\n---\nc: 3\n");
        assert!(found[0].is_ok() && found[2].is_ok());
        let error = found[1].as_ref().unwrap_err();
        assert_eq!(error.name, "a.yaml, document 2 (line 3)");
        assert!(error.problem.starts_with("not readable YAML, line "), "{}", error.problem);
    }

    #[test]
    fn directives_belong_to_the_next_document() {
        let found = read("%YAML 1.2\n---\na: 1\n...\n---\nb: 2\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(Result::is_ok), "{found:?}");
    }

    #[test]
    fn anchors_and_merge_keys_are_followed() {
        let found = read("x: &x {a: 1}\ny: {<<: *x, b: 2}\n");
        let (_, value) = found[0].as_ref().unwrap();
        assert_eq!(value["y"], serde_json::json!({"a": 1, "b": 2}));
    }

    #[test]
    fn text_that_grows_when_it_is_read_is_refused() {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..12 {
            let row = vec![format!("*a{}", n - 1); 10].join(",");
            text += &format!("a{n}: &a{n} [{row}]\n");
        }
        assert!(read(&text)[0].is_err());
        assert!(read(&("[".repeat(100_000) + "\n"))[0].is_err());
    }
}
