//! Helpers that find words in code.

pub fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the word at the beginning of a text.
pub fn word(text: &str) -> String {
    text.chars().take_while(|c| is_part(*c)).collect()
}

/// Returns the positions at which a whole word occurs.
pub fn places<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let all = code.match_indices(word).map(|(at, _)| at);
    all.filter(|&at| {
        !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

/// Returns a line without a leading `pub` or `pub(..)`.
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

/// Returns the names of the items of these kinds that some code defines, without macros.
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
