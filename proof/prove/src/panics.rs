//! Catches panics and reports them as errors.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// While `catch` runs on this thread: the message of the panic.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
    static DEPTH: RefCell<u32> = const { RefCell::new(0) };
}

static HOOK: Once = Once::new();

/// Installs a hook that keeps the message and the place of a panic inside [`catch`], and
/// forwards all others to the former hook.
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

/// Runs `work` and converts a panic into an error with its message and place.
///
/// # Errors
/// The message of the panic.
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
