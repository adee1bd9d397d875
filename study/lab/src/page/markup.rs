//! Text as HTML.

use std::borrow::Cow;

/// Text that may stand in an element or in a quoted attribute.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"']) {
        return text.into();
    }
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;").into()
}

/// A number in as many digits as one reads.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v == 0.0 || v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.001 => 4,
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
        assert_eq!(escaped("plain"), "plain");
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 4.5, 12.345, 0.052_34, 1234.5, 100.0, 0.000_012];
        let texts = all.map(number);
        assert_eq!(
            texts,
            ["0", "4.5", "12.35", "0.0523", "1234", "100", "1.20e-5"]
        );
    }
}
