//! Paths → texts. Files and folders are read with bounds, so that a wrong path ends in a message
//! and not in the machine's memory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest file, and the most that standard input may bring: an object of Kubernetes is at
/// most 1.5 MiB, the output of kustomize rarely more than a few.
pub(super) const LARGEST: u64 = 16 << 20;
/// The most of all of them.
const MOST_BYTES: u64 = 64 << 20;
/// The most files.
const MOST_FILES: usize = 10_000;
/// How deep folders are followed.
const DEEPEST: usize = 16;

/// One text.
pub(super) struct Input {
    /// As given, or as found in a folder.
    pub name: String,
    pub text: String,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub name: String,
    pub problem: String,
}

/// What was read, and what was not.
#[derive(Default)]
pub(super) struct Inputs {
    pub texts: Vec<Input>,
    pub unreadable: Vec<Unreadable>,
    bytes: u64,
    files: usize,
}

/// Read every path: `-` is `stdin`, a folder is all `*.yaml`, `*.yml` and `*.json` below it.
pub(super) fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Inputs {
    let mut inputs = Inputs::default();
    let mut drained = false;
    for path in paths {
        if path.as_os_str() == "-" {
            // A second `-` has nothing left to say.
            if !drained {
                inputs.text("standard input".to_owned(), stdin);
            }
            drained = true;
        } else if path.is_dir() {
            let before = (inputs.files, inputs.unreadable.len());
            inputs.folder(path, 0);
            if before == (inputs.files, inputs.unreadable.len()) {
                inputs.fail(path, "no *.yaml, *.yml or *.json file in it");
            }
        } else {
            inputs.file(path);
        }
    }
    inputs
}

impl Inputs {
    fn folder(&mut self, path: &Path, depth: usize) {
        if depth > DEEPEST {
            return self.fail(path, format!("more than {DEEPEST} folders deep"));
        }
        let entries = match fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return self.fail(path, format!("cannot read the folder: {error}")),
        };
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let hidden =
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if hidden {
                continue;
            }
            if path.is_dir() {
                self.folder(&path, depth + 1);
            } else if path
                .extension()
                .is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
            {
                self.file(&path);
            }
        }
    }

    fn file(&mut self, path: &Path) {
        match File::open(path) {
            Ok(mut file) => self.text(path.display().to_string(), &mut file),
            Err(error) => self.fail(path, format!("cannot read the file: {error}")),
        }
    }

    fn text(&mut self, name: String, from: &mut dyn Read) {
        self.files += 1;
        if self.files > MOST_FILES {
            if self.files == MOST_FILES + 1 {
                self.fail(
                    Path::new(&name),
                    format!("more than {MOST_FILES} files; the rest is left out"),
                );
            }
            return;
        }
        let left = LARGEST.min(MOST_BYTES.saturating_sub(self.bytes));
        let mut bytes = Vec::new();
        if let Err(error) = from.take(left + 1).read_to_end(&mut bytes) {
            return self.fail(Path::new(&name), format!("cannot read it: {error}"));
        }
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if length > left {
            let problem = format!(
                "too large: a file may have {} MiB, all together {} MiB",
                LARGEST >> 20,
                MOST_BYTES >> 20
            );
            return self.fail(Path::new(&name), problem);
        }
        self.bytes += length;
        match String::from_utf8(bytes) {
            Ok(text) => self.texts.push(Input { name, text }),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                self.fail(Path::new(&name), format!("not UTF-8 text from byte {at} on"));
            }
        }
    }

    fn fail(&mut self, path: &Path, problem: impl Into<String>) {
        let name = path.display().to_string();
        self.unreadable.push(Unreadable { name, problem: problem.into() });
    }
}
