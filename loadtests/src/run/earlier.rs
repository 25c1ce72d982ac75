//! What an earlier run left in the result folder, kept until this one has measured something.

use std::io;
use std::path::{Path, PathBuf};

/// Files put aside as `NAME.earlier`; they stay there if the process is killed.
#[derive(Debug)]
pub(super) struct Earlier {
    /// Where they were, and where they are.
    moved: Vec<(PathBuf, PathBuf)>,
}

impl Earlier {
    /// Puts those of `names` aside that are in `folder`.
    ///
    /// # Errors
    /// When a file cannot be renamed.
    pub fn put_aside(folder: &Path, names: &[&str]) -> io::Result<Self> {
        let mut moved = Vec::new();
        for name in names {
            let (from, to) = (folder.join(name), folder.join(format!("{name}.earlier")));
            // A link or a pipe is somebody's choice of where to write.
            if from.symlink_metadata().is_ok_and(|found| found.is_file()) {
                std::fs::rename(&from, &to)?;
                moved.push((from, to));
            }
        }
        Ok(Self { moved })
    }

    /// Nothing was measured: they are where they were.
    ///
    /// # Errors
    /// When a file cannot be renamed.
    pub fn put_back(self) -> io::Result<()> {
        self.moved.iter().try_for_each(|(was, is)| std::fs::rename(is, was))
    }

    /// There are newer ones.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn discard(self) -> io::Result<()> {
        self.moved.iter().try_for_each(|(_, is)| std::fs::remove_file(is))
    }
}
