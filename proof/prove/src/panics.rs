//! Panics as answers: what must never happen is caught and reported.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// While something is caught on this thread: what it panicked with.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static DEPTH: RefCell<u32> = const { RefCell::new(0) };
}

static HOOK: Once = Once::new();

/// Keeps the message and the place of a panic that [`catch`] will see, and
/// leaves all others to the hook that was there.
fn install() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if DEPTH.with(|depth| *depth.borrow()) == 0 {
                return before(info);
            }
            CAUGHT.with(|caught| *caught.borrow_mut() = Some(info.to_string()));
        }));
    });
}

/// Runs `work`; a panic becomes an error with its message and place.
///
/// # Errors
/// The panic's message.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    install();
    DEPTH.with(|depth| *depth.borrow_mut() += 1);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    DEPTH.with(|depth| *depth.borrow_mut() -= 1);
    result.map_err(|_| {
        let caught = CAUGHT.with(|caught| caught.borrow_mut().take());
        caught.unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_messages() {
        assert_eq!(catch(|| 7), Ok(7));
        let message = catch(|| panic!("number {}", 5)).unwrap_err();
        assert!(
            message.contains("number 5") && message.contains("panics.rs"),
            "{message}"
        );
    }
}
