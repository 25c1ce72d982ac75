//! Files and variables that the configuration names.

use super::*;
use std::collections::HashMap;
use std::io;

/// Files and variables of a test.
#[derive(Default)]
struct Fake {
    files: HashMap<&'static str, Vec<u8>>,
    variables: HashMap<&'static str, &'static str>,
}

impl Outside for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(|value| (*value).to_owned())
    }

    fn file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let name = path.to_str().unwrap_or_default();
        self.files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_directory(&self, path: &Path) -> bool {
        [".", "/", "/dir"].iter().any(|directory| path == Path::new(directory))
    }
}

impl Fake {
    fn file(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        self.files.insert(name, content.into());
        self
    }

    fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.insert(name, value);
        self
    }

    fn problems(&self, text: &str) -> Vec<String> {
        let errors =
            Config::parse(text, Revision::FIRST, self).map_err(|errors| errors.errors().to_vec());
        let errors = errors.err().unwrap_or_default();
        errors.iter().map(|error| format!("{}: {}", error.path, error.problem)).collect()
    }
}

const TLS: &str = "listen: {tls: {cert: /cert, key: /key}}\n";

fn pair() -> (String, String) {
    let pair = rcgen::generate_simple_self_signed(["gate.test".to_owned()]).unwrap();
    (pair.cert.pem(), pair.signing_key.serialize_pem())
}

#[test]
fn a_pair_of_tls_files_is_accepted() {
    let (cert, key) = pair();
    let fake = Fake::default().file("/cert", cert).file("/key", key);
    let config = Config::parse(&section(TLS), Revision::FIRST, &fake).unwrap();
    let expected = TlsFiles { cert: "/cert".into(), key: "/key".into() };
    assert_eq!(config.listen.tls, Some(expected));
}

#[test]
fn tls_files_must_exist_parse_and_belong_together() {
    assert_eq!(
        Fake::default().problems(&section(TLS)),
        [
            "listen.tls.cert: cannot read the file: entity not found",
            "listen.tls.key: cannot read the file: entity not found",
        ]
    );
    let empty = Fake::default().file("/cert", "").file("/key", "nonsense");
    assert_eq!(
        empty.problems(&section(TLS)),
        ["listen.tls.cert: no certificate in it", "listen.tls.key: no usable private key in it",]
    );
    let strangers = Fake::default().file("/cert", pair().0).file("/key", pair().1);
    assert_eq!(
        strangers.problems(&section(TLS)),
        ["listen.tls.key: not the key of the certificate in listen.tls.cert"]
    );
    assert_eq!(
        Fake::default().problems(&section("listen: {tls: {}}\n")),
        ["listen.tls.cert: missing", "listen.tls.key: missing"]
    );
}

#[test]
fn credentials_come_from_a_variable_or_a_file_without_white_space_around() {
    let fake = Fake::default().file("/key", "from-file\n").variable("KEY", " from-env ");
    let key = |pool: &str| {
        let config = Config::parse(&with(pool, "", ""), Revision::FIRST, &fake).unwrap();
        config.pools[0].credential.as_ref().map(|secret| secret.expose().to_owned())
    };
    assert_eq!(key(", api_key_env: KEY").as_deref(), Some("from-env"));
    assert_eq!(key(", api_key_file: /key").as_deref(), Some("from-file"));
    assert_eq!(key(""), None);
}

#[test]
fn a_credential_that_cannot_be_sent_is_an_error() {
    let fake = Fake::default().file("/two", "a\nb\n").file("/bin", [0xff]).variable("EMPTY", "");
    for (pool, problem) in [
        ("api_key_env: NONE", "api_key_env: the environment variable NONE is not set"),
        ("api_key_env: EMPTY", "api_key_env: the variable holds no usable key"),
        ("api_key_file: /two", "api_key_file: the file holds no usable key"),
        ("api_key_file: /bin", "api_key_file: the file holds no usable key"),
        ("api_key_file: /none", "api_key_file: cannot read the file: entity not found"),
    ] {
        let text = with(&format!(", {pool}"), "", "");
        assert_eq!(fake.problems(&text), [format!("pools[0].{problem}")]);
    }
}

#[test]
fn the_admin_token_is_read_and_hidden() {
    let fake = Fake::default().file("/token", "hush\n");
    let config =
        Config::parse(&section("admin: {token_file: /token}\n"), Revision::FIRST, &fake).unwrap();
    assert_eq!(config.admin.token, Some(Secret::from("hush")));
    assert!(!format!("{config:?}").contains("hush"));
    assert_eq!(
        Fake::default().problems(&section("admin: {token_file: /token}\n")),
        ["admin.token_file: cannot read the file: entity not found"]
    );
}

#[test]
fn records_need_a_directory() {
    let fake = Fake::default();
    let records = |path: &str| fake.problems(&section(&format!("records: {{path: {path}}}\n")));
    assert!(records("/dir/records.jsonl").is_empty());
    assert!(records("records.jsonl").is_empty());
    assert_eq!(records("/none/records.jsonl"), ["records.path: its directory does not exist"]);
    assert_eq!(records("/dir"), ["records.path: a directory"]);
}

#[test]
fn what_a_process_elsewhere_names_is_not_looked_at() {
    let text = "\
listen: {tls: {cert: /there/tls.crt, key: /there/tls.key}}
admin: {token_file: /there/token}
pools:
- {name: a, models: [a], endpoints: ['a:1'], api_key_env: STREAMGATE_NO_SUCH_VARIABLE}
- {name: b, models: [b], endpoints: ['b:1'], api_key_file: /there/key}
tenants: [{id: t, max_in_flight: 1}]
anonymous: t
records: {path: /there/records.jsonl}
";
    let here = Fake::default().problems(text);
    assert_eq!(here.len(), 6, "{here:#?}");
    let config = Config::parse_elsewhere(text).unwrap();
    assert!(config.admin.token.is_none());
    assert!(config.pools.iter().all(|pool| pool.credential.is_none()));
    // Mistakes of the text itself are told all the same.
    let errors = Config::parse_elsewhere(&text.replace("max_in_flight: 1", "max_in_flight: 0"));
    assert_eq!(errors.unwrap_err().errors().len(), 1);
}
