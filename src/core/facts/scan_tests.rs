use super::super::walk::{Ignore, Walker};
use super::*;
use proptest::prelude::*;

/// Reads one value of any shape and nothing more.
fn check(text: &str) -> Result<(), Why> {
    let mut scan = Scanner::new(text);
    Walker::new(64)
        .walk(&mut scan, 0, &mut Ignore)
        .and_then(|()| scan.end())
        .map_err(|fault| fault.why)
}

fn string(text: &str) -> Str<'_> {
    Scanner::new(text).string().unwrap()
}

#[test]
fn accepts_json() {
    let texts = [
        "null",
        " true ",
        "\t\r\n[ ]",
        "{}",
        "-0",
        "0.5e-7",
        "1E+2",
        r#""\u00e9\ud83d\ude00\\\/\"""#,
        r#"{"a":[1,{"b":[[],{}]}],"":false}"#,
    ];
    for text in texts {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn refuses_what_is_not_json_and_says_why() {
    let value = Why::Expected("a value");
    let cases = [
        ("", Why::Ended),
        ("tru", value),
        ("nul]", value),
        ("[1,]", value),
        ("[1 2]", Why::Expected("',' or ']'")),
        ("[1", Why::Ended),
        ("{\"a\":1,}", Why::Expected("a key in double quotes")),
        ("{a:1}", Why::Expected("a key in double quotes")),
        ("{\"a\" 1}", Why::Expected("':'")),
        ("{\"a\":1]", Why::Expected("',' or '}'")),
        ("{\"a\"", Why::Ended),
        ("'a'", value),
        ("// x\n1", value),
        ("NaN", Why::NotFinite),
        ("-Infinity", Why::NotFinite),
        ("[Infinity]", Why::NotFinite),
        ("01", Why::Number),
        ("+1", value),
        (".5", value),
        ("1.", Why::Ended),
        ("[1.]", Why::Number),
        ("[1e]", Why::Number),
        ("[-]", Why::Number),
        ("1x", Why::Number),
        ("0x10", Why::Number),
        ("\"a", Why::Ended),
        ("\"a\\", Why::Ended),
        ("\"\\u12", Why::Ended),
        ("\"\\x41\"", Why::Escape),
        ("\"\\u12g4\"", Why::Escape),
        ("\"\\u+123\"", Why::Escape),
        ("\"a\nb\"", Why::Control),
        ("\"\u{0}\"", Why::Control),
        (r#""\ud800""#, Why::Surrogate),
        (r#""\udc00""#, Why::Surrogate),
        (r#""\ud800\ud800""#, Why::Surrogate),
        (r#""\ud800\n""#, Why::Surrogate),
        ("1 2", Why::Trailing),
        ("{} {}", Why::Trailing),
    ];
    for (text, why) in cases {
        assert_eq!(check(text), Err(why), "{text}");
    }
}

#[test]
fn depth_is_bounded_without_recursion() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(check(&nested(64)), Ok(()));
    assert_eq!(check(&nested(65)), Err(Why::TooDeep(64)));
    // Would overflow any stack if it recursed, and must not be read to its end.
    assert_eq!(check(&"[".repeat(1 << 22)), Err(Why::TooDeep(64)));
    assert_eq!(check(&"{\"a\":".repeat(1 << 20)), Err(Why::TooDeep(64)));
    // Siblings do not add up.
    assert_eq!(check(&format!("[{}[]]", "[[]],".repeat(1000))), Ok(()));
}

#[test]
fn keys_are_compared_decoded() {
    assert!(string(r#""stream""#).is("stream"));
    assert!(string(r#""str\u0065am""#).is("stream"));
    assert!(string(r#""\u0073\u0074ream""#).is("stream"));
    assert!(!string(r#""str\u0065""#).is("stream"));
    assert!(!string(r#""Stream""#).is("stream"));
    assert!(string(r#""\ud83d\ude00""#).is("😀"));
}

#[test]
fn lengths_count_decoded_bytes() {
    let cases = [
        (r#""abc""#, 3, 0),
        (r#""a\nb""#, 3, 0),
        (r#""é語😀""#, 9, 9),
        (r#""\u00e9\u8a9e\ud83d\ude00""#, 9, 9),
        (r#""\u0041\u0042""#, 2, 0),
    ];
    for (text, len, wide) in cases {
        let s = string(text);
        assert_eq!((s.len(), s.wide()), (len, wide), "{text}");
    }
}

proptest! {
    #[test]
    fn strings_decode_as_serde_decodes_them(text in any::<String>()) {
        let written = serde_json::to_string(&text).unwrap();
        let read = string(&written);
        prop_assert_eq!(read.len(), text.len());
        prop_assert_eq!(read.chars().collect::<String>(), text.clone());
        let wide: usize = text.chars().filter(|c| !c.is_ascii()).map(char::len_utf8).sum();
        prop_assert_eq!(read.wide(), wide);
    }

    #[test]
    fn escaped_strings_decode_as_serde_decodes_them(text in any::<String>()) {
        let escapes: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let written = format!("\"{escapes}\"");
        let read = string(&written);
        prop_assert_eq!(read.len(), text.len());
        prop_assert!(read.is(&text));
    }

    #[test]
    fn agrees_with_serde_on_what_is_json(text in r#"[\[\]{}:,"\\0-9a-fu.eE+\- truefalsn\n]{0,24}"#) {
        let serde = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        // serde refuses numbers beyond f64 only when it keeps them, as IgnoredAny does not.
        prop_assert_eq!(check(&text).is_ok(), serde, "{}", text);
    }
}
