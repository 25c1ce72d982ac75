//! When a configuration came to its place. Replicas that share a quota store follow the newest one
//! they have heard of, so every file needs a number that grows with each change of it.
//!
//! Clocks of nodes may show anything. So the wall clock is read only here, once for each load, and
//! only to tell the age of the file: its times were taken from the same clock. From then on the
//! revision is a moment on a clock that nobody sets.

use super::boot_clock::since_boot;
use crate::core::policy::Revision;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The revision of the file at `path`: when this node was given it, and for a symbolic link the
/// later of that and when it was given the link. [`Revision::FIRST`] if there is no file.
///
/// That is the time of change, which only the kernel sets, and not that of modification: an older
/// file that is put back (a rollback that keeps times, a link moved to the previous version) is a
/// newer configuration, and a file that says it is from tomorrow is not.
pub(super) fn of(path: &Path) -> Revision {
    let files = [std::fs::metadata(path), std::fs::symlink_metadata(path)];
    // Read after the times of the file, so that on a clock that is not set these are not later.
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    at(files.into_iter().flatten(), wall, since_boot())
}

/// `wall` and `boot`: what both clocks show now.
fn at(files: impl Iterator<Item = Metadata>, wall: Duration, boot: Duration) -> Revision {
    let latest = files.map(|file| changed(&file, wall)).max();
    latest.map_or(Revision::FIRST, |latest| Revision::dated(boot, wall.saturating_sub(latest)))
}

/// A time of change that is still to come is from another clock, or the clock was set back since:
/// the file counts as new. A file system without such times has that of modification.
fn changed(file: &Metadata, wall: Duration) -> Duration {
    let time = |seconds: i64, nanos: i64| {
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
            + Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    };
    let changed = match file.ctime() {
        0 => time(file.mtime(), file.mtime_nsec()),
        seconds => time(seconds, file.ctime_nsec()),
    };
    changed.min(wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes};
    use std::os::unix::fs::symlink;

    const DAY: Duration = Duration::from_secs(86_400);

    fn now() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
    }

    /// The age that a revision says, for a machine that has run for 100 days.
    fn age(path: &Path, wall: Duration) -> Duration {
        let files = [std::fs::metadata(path), std::fs::symlink_metadata(path)];
        let revision = at(files.into_iter().flatten(), wall, 100 * DAY);
        // A store whose clock shows 1000 days at this moment.
        let number = revision.on_clock_of(1000 * DAY, 100 * DAY);
        1000 * DAY - Duration::from_millis(number)
    }

    fn file_of(modified: SystemTime) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let file = File::create(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(modified)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_file_that_is_put_back_with_its_old_time_is_newer() {
        let before = now();
        let (_dir, path) = file_of(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        let wall = now();
        // Times of files are those of the last clock tick, up to some milliseconds ago.
        assert!(age(&path, wall) <= wall - before + Duration::from_millis(100));
    }

    #[test]
    fn a_file_of_tomorrow_is_as_old_as_its_entry() {
        let before = now();
        let (_dir, path) = file_of(SystemTime::now() + DAY);
        let wall = now();
        assert!(age(&path, wall) <= wall - before + Duration::from_millis(100));
        let hour = Duration::from_secs(3600);
        assert!(age(&path, wall + hour) >= hour, "and it ages");
        assert!(age(&path, wall + DAY + hour) >= DAY + hour, "also when its time has come");
    }

    #[test]
    fn only_the_age_counts_whatever_the_clock_shows() {
        let (_dir, path) = file_of(SystemTime::now());
        let hour = Duration::from_secs(3600);
        let off = age(&path, now() + hour);
        assert!(off >= hour && off < 2 * hour);
        // The clock was set back since: nothing better is known than that it is there now.
        assert_eq!(age(&path, now() - DAY), Duration::ZERO);
    }

    #[test]
    fn a_link_counts_with_its_own_time() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("v1"), dir.path().join("config.yaml"));
        File::create(&file).unwrap();
        symlink(&file, &link).unwrap();
        let wall = now() + DAY;
        let own = changed(&std::fs::symlink_metadata(&link).unwrap(), wall);
        let of_file = changed(&std::fs::metadata(&file).unwrap(), wall);
        let expected = wall - own.max(of_file);
        let rounding = Duration::from_millis(1);
        let seen = age(&link, wall);
        assert!(
            seen <= expected + rounding && expected <= seen + rounding,
            "{seen:?} {expected:?}"
        );
    }

    #[test]
    fn each_load_of_a_changed_file_is_newer() {
        let (_dir, path) = file_of(SystemTime::UNIX_EPOCH);
        let first = of(&path);
        std::fs::write(&path, "changed").unwrap();
        assert!(of(&path).number() + 100 >= first.number());
    }

    #[test]
    fn no_file_has_the_first_revision() {
        assert_eq!(of(Path::new("/nonexistent/config.yaml")).number(), 1);
    }
}
