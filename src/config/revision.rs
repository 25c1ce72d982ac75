//! When a configuration came to its place. Replicas that share a quota store follow the newest one
//! they have heard of, so every file needs a number that grows with each change of it.

use crate::core::policy::Revision;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The revision of the file at `path`: the latest of the times at which its content or its entry
/// changed, and for a symbolic link those of the link too, in milliseconds since the epoch.
///
/// The time of change counts beside that of modification because putting an older file back (a
/// rollback that keeps times, a link moved to the previous version) is a newer configuration.
pub(super) fn of(path: &Path) -> Revision {
    let times = [std::fs::metadata(path), std::fs::symlink_metadata(path)];
    let latest = times.into_iter().flatten().map(|file| latest(&file)).max();
    Revision::new(latest.unwrap_or(0))
}

fn latest(file: &Metadata) -> u64 {
    let millis = |seconds: i64, nanos: i64| {
        seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000).max(0).unsigned_abs()
    };
    millis(file.mtime(), file.mtime_nsec()).max(millis(file.ctime(), file.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes};
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_file_that_is_put_back_with_its_old_time_is_newer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let file = File::create(&path).unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        file.set_times(FileTimes::new().set_modified(long_ago)).unwrap();
        // Times of files are those of the last clock tick, up to some milliseconds ago.
        assert!(u128::from(of(&path).number()) + 100 >= before.as_millis());
    }

    #[test]
    fn a_link_counts_with_its_own_time() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("v1"), dir.path().join("config.yaml"));
        File::create(&file).unwrap();
        symlink(&file, &link).unwrap();
        let own = latest(&std::fs::symlink_metadata(&link).unwrap());
        assert_eq!(of(&link).number(), own.max(of(&file).number()));
    }

    #[test]
    fn no_file_has_the_first_revision() {
        assert_eq!(of(Path::new("/nonexistent/config.yaml")).number(), 1);
    }
}
