//! One wake-up for the answers of a whole run.
//!
//! An event loop that is woken by the first of many answers begins at once to collect them, on
//! another core, and quarrels over the lock with the thread that puts the others there: that costs both
//! more than a wake-up that comes when all are there.

use std::cell::RefCell;

type Wake = Box<dyn FnOnce()>;

thread_local! {
    /// What waits until this thread has handed out its answers, while it does so.
    static AFTERWARDS: RefCell<Option<Vec<Wake>>> = const { RefCell::new(None) };
}

/// Wakes an event loop: at once, or, on a thread that is handing out several answers, after the
/// last of them.
///
/// For a binding's own queue of answers, where its first is put into it.
pub fn after_answers(wake: impl FnOnce() + 'static) {
    let now = AFTERWARDS.with_borrow_mut(|afterwards| match afterwards {
        Some(afterwards) => {
            afterwards.push(Box::new(wake));
            None
        }
        None => Some(wake),
    });
    if let Some(wake) = now {
        wake();
    }
}

/// Hands out several answers.
pub(crate) fn together<T>(hand_out: impl FnOnce() -> T) -> T {
    let _end = End;
    AFTERWARDS.with_borrow_mut(|afterwards| {
        afterwards.get_or_insert_default();
    });
    hand_out()
}

/// Also where a callback of the user's panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        let afterwards = AFTERWARDS.take();
        afterwards.into_iter().flatten().for_each(|wake| wake());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    use super::*;

    #[test]
    fn wakes_after_the_last_answer_and_at_once_elsewhere() {
        let woken = Rc::new(Cell::new(0));
        let wake = || {
            let woken = Rc::clone(&woken);
            after_answers(move || woken.set(woken.get() + 1));
        };
        wake();
        assert_eq!(woken.get(), 1);
        together(|| {
            wake();
            wake();
            assert_eq!(woken.get(), 1);
        });
        assert_eq!(woken.get(), 3);
        let panics = catch_unwind(AssertUnwindSafe(|| {
            together(|| {
                wake();
                panic!("a callback's");
            });
        }));
        assert!(panics.is_err());
        assert_eq!(woken.get(), 4);
        wake();
        assert_eq!(woken.get(), 5);
    }
}
