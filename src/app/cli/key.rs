//! `streamgate key new`.

use super::{answer, failure};
use crate::config::KeyHash;
use rand::TryRngCore;
use rand::rngs::OsRng;
use std::fmt::Write;
use std::process::ExitCode;

/// Makes a key recognisable where it should not be: in a log, a repository, a wrong field.
const PREFIX: &str = "sg-";

/// Print a new key and its hash. The output is YAML, and so can be read by scripts.
pub(super) fn new(tenant: &str) -> ExitCode {
    let mut random = [0; 32];
    match OsRng.try_fill_bytes(&mut random) {
        Ok(()) => answer(&text(tenant, &random), ExitCode::SUCCESS),
        Err(error) => failure(&format!("the system gives no random bytes: {error}")),
    }
}

fn text(tenant: &str, random: &[u8; 32]) -> String {
    let key = random.iter().fold(PREFIX.to_owned(), |mut key, byte| {
        // Writing to a String cannot fail.
        let _ = write!(key, "{byte:02x}");
        key
    });
    let hash = KeyHash::of(key.as_bytes()).to_config();
    format!(
        "# For a client of tenant {tenant}. It is stored nowhere and not shown again.\n\
         key: \"{key}\"\n\
         # For the configuration, in this tenant's entry.\n\
         api_keys: [\"{hash}\"]"
    )
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn the_output_is_yaml_with_the_key_and_its_hash() {
        // echo -n sg-0101…01 | sha256sum
        let expected = format!(
            "# For a client of tenant team-a. It is stored nowhere and not shown again.\n\
             key: \"sg-{}\"\n\
             # For the configuration, in this tenant's entry.\n\
             api_keys: [\"sha256:03c542d367b813f380a3077f8eb3c5aa98a3855ba9999eb58281da31b12e1d9e\"]",
            "01".repeat(32)
        );
        assert_eq!(text("team-a", &[1; 32]), expected);
    }
}
