//! A file of lines that survives rotation, full disks and a writer that died in mid-line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An append-only file of lines.
#[derive(Debug)]
pub struct Sink {
    path: PathBuf,
    file: File,
    /// The file ends in the middle of a line; the next write ends that line first, so that one
    /// record is damaged and not two.
    torn: bool,
    /// The last write failed; the operator was told once.
    failing: bool,
}

impl Sink {
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, torn) = open(path)?;
        Ok(Self { path: path.to_owned(), file, torn, failing: false })
    }

    /// Open the path again; the old file stays in use if that fails.
    pub fn reopen(&mut self) {
        match open(&self.path) {
            Ok((file, torn)) => (self.file, self.torn) = (file, torn),
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "the record file cannot be reopened");
            }
        }
    }

    /// Append whole lines. Returns how many of them were not written.
    pub fn write(&mut self, lines: &[u8]) -> u64 {
        if lines.is_empty() {
            return 0;
        }
        let (written, result) = append(&mut self.file, self.torn, lines);
        if written > 0 {
            self.torn = lines[written - 1] != b'\n';
        }
        self.tell(result);
        count(&lines[written..])
    }

    fn tell(&mut self, result: io::Result<()>) {
        let path = self.path.display();
        match result {
            Err(error) if !self.failing => {
                tracing::error!(%path, %error, "records are dropped: the file cannot be written");
                self.failing = true;
            }
            Ok(()) if self.failing => {
                tracing::warn!(%path, "records are written again");
                self.failing = false;
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// The file, and whether it ends in the middle of a line.
fn open(path: &Path) -> io::Result<(File, bool)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let torn = file.metadata()?.is_file() && ends_in_mid_line(path).unwrap_or(false);
    Ok((file, torn))
}

fn ends_in_mid_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}

/// Write `lines`, after the end of a torn one; how many bytes of `lines` were written.
fn append(out: &mut impl Write, torn: bool, lines: &[u8]) -> (usize, io::Result<()>) {
    if torn && let Err(error) = out.write_all(b"\n") {
        return (0, Err(error));
    }
    let mut written = 0;
    while written < lines.len() {
        match out.write(&lines[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Lines in `rest`, where a part of a line counts as one.
fn count(rest: &[u8]) -> u64 {
    rest.split_inclusive(|byte| *byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes, then refuses.
    struct Full {
        room: usize,
        taken: Vec<u8>,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.room).min(3);
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= fits;
            self.taken.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_says_how_much_was_written() {
        let mut out = Full { room: 7, taken: Vec::new() };
        let (written, result) = append(&mut out, false, b"one\ntwo\nthree\n");
        assert_eq!(
            (written, result.map_err(|error| error.kind())),
            (7, Err(io::ErrorKind::StorageFull))
        );
        assert_eq!(out.taken, b"one\ntwo");
        assert_eq!(count(b"\nthree\n"), 2, "the torn line is lost too");
    }

    #[test]
    fn a_torn_line_is_ended_before_the_next() {
        let mut out = Full { room: 100, taken: Vec::new() };
        append(&mut out, true, b"four\n").1.expect("there is room");
        assert_eq!(out.taken, b"\nfour\n");
    }

    #[test]
    fn a_file_left_in_mid_line_is_recognised() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("records.jsonl");
        std::fs::write(&path, "{\"torn\":").expect("written");
        let mut sink = Sink::open(&path).expect("opened");
        assert_eq!(sink.write(b"{}\n"), 0);
        assert_eq!(sink.write(b"{}\n"), 0);
        let text = std::fs::read_to_string(&path).expect("read");
        assert_eq!(text, "{\"torn\":\n{}\n{}\n");
    }
}
