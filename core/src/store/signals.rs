//! Keeps signals away from a thread for a moment.

use std::mem::MaybeUninit;

/// While it lives, signals of other causes than the thread's own faults wait, or go to another
/// thread. A handler that ran in the middle of a read would make it fail (`EINTR`), and the Redis
/// client takes that for the end of the connection. Two system calls, well below a microsecond.
pub(crate) struct SignalsHeld {
    before: libc::sigset_t,
}

impl SignalsHeld {
    pub(crate) fn new() -> Option<SignalsHeld> {
        let mut held = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are on this stack; `sigfillset` initialises the first before it is
        // changed and read, and `pthread_sigmask` the second where it returns 0.
        unsafe {
            libc::sigfillset(held.as_mut_ptr());
            for fault in
                [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT]
            {
                libc::sigdelset(held.as_mut_ptr(), fault);
            }
            if libc::pthread_sigmask(libc::SIG_SETMASK, held.as_ptr(), before.as_mut_ptr()) != 0 {
                return None;
            }
            Some(SignalsHeld { before: before.assume_init() })
        }
    }
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by `pthread_sigmask`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
