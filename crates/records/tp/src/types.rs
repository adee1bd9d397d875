//! The types of a table, in the form of the catalog.

use std::borrow::Cow;

/// Parts of the text, so that comparing it needs no allocation.
#[derive(Clone, Debug)]
pub(crate) struct Types(pub [Cow<'static, str>; 3]);

impl Types {
    /// Returns the types that a text names.
    pub(crate) fn named(text: &str) -> Self {
        Types([text.to_owned().into(), "".into(), "".into()])
    }

    pub(crate) fn are(&self, text: &str) -> bool {
        let mut rest = Some(text);
        for part in &self.0 {
            rest = rest.and_then(|rest| rest.strip_prefix(&**part));
        }
        rest.is_some_and(str::is_empty)
    }

    pub(crate) fn text(&self) -> String {
        self.0.concat()
    }
}
