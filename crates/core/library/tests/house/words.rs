//! Words of code.

pub fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The word with which a text begins.
pub fn word(text: &str) -> String {
    text.chars().take_while(|c| is_part(*c)).collect()
}

/// Where a word stands.
pub fn places<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let all = code.match_indices(word).map(|(at, _)| at);
    all.filter(|&at| {
        !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

/// A line without `pub` and `pub(..)`.
pub fn bare(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else {
        return line;
    };
    let rest = match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(')').map_or(rest, |(_, rest)| rest),
        None => rest,
    };
    rest.strip_prefix(' ').unwrap_or(line)
}

/// What some code defines of these kinds, macros left out.
pub fn defined(code: &str, kinds: &[&str]) -> Vec<String> {
    let name = |line: &str| {
        let line = bare(line);
        kinds
            .iter()
            .find_map(|kind| line.strip_prefix(kind))
            .map(word)
    };
    code.lines().filter_map(name).collect()
}
