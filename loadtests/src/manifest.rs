//! `MANIFEST.sha256` of a result folder: the format of `sha256sum`, so that `sha256sum -c` checks
//! it too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::plan::hex;

/// Name of the manifest.
pub const MANIFEST: &str = "MANIFEST.sha256";

/// Writes the manifest of all files in a folder (and below), sorted by name.
///
/// # Errors
/// When a file cannot be read or the manifest not be written.
pub fn write(folder: &Path) -> io::Result<PathBuf> {
    let mut text = String::new();
    for name in files(folder)? {
        text += &format!("{}  {name}\n", hash(&folder.join(&name))?);
    }
    let path = folder.join(MANIFEST);
    fs::write(&path, text)?;
    Ok(path)
}

/// Compares a folder with its manifest: what differs, what is missing, what is not listed.
///
/// # Errors
/// When the manifest cannot be read.
pub fn check(folder: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(folder.join(MANIFEST))?;
    let mut unlisted = files(folder)?;
    let mut wrong = Vec::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let Some((sum, name)) = line.split_once("  ") else {
            wrong.push(format!("{MANIFEST}: {line:?} is no line of a manifest"));
            continue;
        };
        unlisted.retain(|n| n != name);
        match hash(&folder.join(name)) {
            Ok(found) if found == sum => {}
            Ok(_) => wrong.push(format!("{name}: differs")),
            Err(e) => wrong.push(format!("{name}: {e}")),
        }
    }
    wrong.extend(unlisted.into_iter().map(|name| format!("{name}: not listed")));
    Ok(wrong)
}

fn files(folder: &Path) -> io::Result<Vec<String>> {
    let (mut names, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|n| n != MANIFEST) {
                let relative = path.strip_prefix(folder).unwrap_or(&path);
                names.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut fs::File::open(path)?, &mut hash)?;
    Ok(hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        for name in ["a", "b", "sub/c"] {
            fs::write(at(name), name).unwrap();
        }
        write(folder.path()).unwrap();
        assert_eq!(check(folder.path()).unwrap(), Vec::<String>::new());
        fs::write(at("a"), "changed").unwrap();
        fs::remove_file(at("b")).unwrap();
        fs::write(at("d"), "new").unwrap();
        let wrong = check(folder.path()).unwrap();
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("a: differs") && wrong[2].starts_with("d: not listed"));
    }
}
