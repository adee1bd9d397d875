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
    /// The paper's line and the input it does not give, if the measurement depends
    /// on that input. Such a verdict is *underdetermined*: whatever was measured, it
    /// is counted neither as reproduced nor as not reproduced.
    #[serde(default)]
    pub needs: Option<String>,
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
            needs: None,
        }
    }

    /// Marks the verdict as underdetermined: the paper does not give `input`, which
    /// the text at `line` would have to state.
    #[must_use]
    pub fn underdetermined(self, line: &str, input: &str) -> Self {
        Verdict {
            pass: false,
            needs: Some(format!("{line}: {input}")),
            ..self
        }
    }

    /// True if the verdict is a part of the claim and the paper gives its inputs.
    pub fn counts(&self) -> bool {
        !self.beside && self.needs.is_none()
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
        let verdict = match (&self.needs, self.pass) {
            (Some(_), _) => "OPEN",
            (None, true) => "PASS",
            (None, false) => "FAIL",
        };
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
        )?;
        match &self.needs {
            Some(needs) => write!(f, "; underdetermined, {needs}"),
            None => Ok(()),
        }
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

    #[test]
    fn an_underdetermined_verdict_neither_holds_nor_counts() {
        let verdict = Verdict::of("a", "b", "1".into(), true);
        assert!(verdict.counts() && verdict.pass);
        let verdict = verdict.underdetermined("T793", "the stripe unit");
        assert!(!verdict.counts() && !verdict.pass);
        let told = "OPEN a: 1; expected b; underdetermined, T793: the stripe unit";
        assert_eq!(verdict.to_string(), told);
    }
}
