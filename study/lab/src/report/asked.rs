//! For tests: which means verdicts ask for, so that rows can be made that have them.

use std::cell::RefCell;

/// A curve, where on it, and which value.
pub(crate) type Asked = (String, f64, String);

thread_local! {
    static ASKED: RefCell<Option<Vec<Asked>>> = const { RefCell::new(None) };
}

/// Somebody asks.
pub(crate) fn note(series: &str, x: f64, name: &str) {
    ASKED.with_borrow_mut(|asked| {
        if let Some(asked) = asked {
            asked.push((series.to_owned(), x, name.to_owned()));
        }
    });
}

/// What is asked for meanwhile, on this thread.
pub(crate) fn by(work: impl FnOnce()) -> Vec<Asked> {
    ASKED.set(Some(Vec::new()));
    work();
    ASKED.take().unwrap_or_default()
}
