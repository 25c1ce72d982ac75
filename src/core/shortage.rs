//! Which failures to open a connection are this process's or this machine's own.

use rustix::io::Errno;
use std::error::Error;
use std::io;

/// No descriptor in the process or the system, no memory, no free local port.
const OWN: [Errno; 5] =
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];

/// Whether `error` or what it was caused by is a shortage of our own. It says nothing about
/// whoever is at the other end.
pub fn is_own_shortage(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>()
            && Errno::from_io_error(io).is_some_and(|errno| OWN.contains(&errno))
        {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect")]
    struct Wrapped(#[source] io::Error);

    #[test]
    fn what_we_lack_is_told_from_what_the_other_end_did() {
        for errno in OWN {
            assert!(is_own_shortage(&io::Error::from(errno)), "{errno}");
            assert!(is_own_shortage(&Wrapped(errno.into())), "{errno}");
        }
        for errno in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::TIMEDOUT, Errno::HOSTUNREACH] {
            assert!(!is_own_shortage(&Wrapped(errno.into())), "{errno}");
        }
        assert!(!is_own_shortage(&io::Error::other("something else")));
    }
}
