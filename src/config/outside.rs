//! What the configuration needs from outside its text: files and environment variables. A port,
//! so that validation can be tested without either.

use std::io;
use std::path::Path;

/// Files and environment variables.
pub(super) trait Outside {
    /// The value of an environment variable, if set and valid Unicode.
    fn variable(&self, name: &str) -> Option<String>;
    /// The whole file.
    fn file(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Whether `path` is a directory.
    fn is_directory(&self, path: &Path) -> bool;
    /// Whether they can be looked at at all. If not, whatever is named is taken to be there and
    /// in order.
    fn is_here(&self) -> bool {
        true
    }
}

/// This process's own.
pub(super) struct Process;

impl Outside for Process {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }
}

/// Those of a process that will run elsewhere.
pub(super) struct Elsewhere;

impl Outside for Elsewhere {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn file(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn is_directory(&self, _path: &Path) -> bool {
        false
    }

    fn is_here(&self) -> bool {
        false
    }
}
