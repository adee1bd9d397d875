//! Verdicts: claim, expectation, what was measured, and whether it passes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// See the module's head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is claimed.
    pub claim: String,
    /// What was expected.
    pub expected: String,
    /// What was measured.
    pub measured: String,
    /// Whether that agrees.
    pub pass: bool,
    /// It is no part of the claim, but belongs beside it.
    pub beside: bool,
    /// It was measured on a model of today's devices, beside the claim.
    #[serde(default)]
    pub today: bool,
}

impl Verdict {
    /// A verdict. Numbers that are none, where points are missing, are shown as `–`.
    pub fn of(
        claim: impl Into<String>,
        expected: impl Into<String>,
        measured: String,
        pass: bool,
    ) -> Self {
        Verdict {
            claim: claim.into(),
            expected: expected.into(),
            measured: measured.replace("NaN", "–"),
            pass,
            beside: false,
            today: false,
        }
    }

    /// Whether it only stands beside the claim.
    #[must_use]
    pub fn beside_the_claim(self, beside: bool) -> Self {
        Verdict { beside, ..self }
    }

    /// It answers what became of the claim on today's devices.
    #[must_use]
    pub fn on_todays_devices(self) -> Self {
        Verdict {
            beside: true,
            today: true,
            ..self
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.pass { "PASS" } else { "FAIL" };
        let beside = if self.beside { " (beside)" } else { "" };
        let Verdict {
            claim,
            expected,
            measured,
            ..
        } = self;
        write!(
            f,
            "{verdict}{beside} {claim}: {measured}; expected {expected}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_no_number() {
        let verdict = Verdict::of("a", "b", format!("{:.1} %", f64::NAN), false);
        assert_eq!(verdict.to_string(), "FAIL a: – %; expected b");
    }
}
