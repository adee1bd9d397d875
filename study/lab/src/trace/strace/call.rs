//! A line of strace in parts.

/// A line in parts.
pub struct Call<'a> {
    pub process: u64,
    pub name: &'a str,
    arguments: Vec<&'a str>,
    pub result: i64,
    /// What it returned, with the path that `-y` adds.
    pub returned: &'a str,
}

impl Call<'_> {
    /// An argument; nothing if there is none.
    pub fn argument(&self, at: usize) -> &str {
        self.arguments.get(at).copied().unwrap_or_default()
    }
}

/// Process, time and rest of a line.
pub fn prefix(line: &str) -> (u64, Option<u64>, &str) {
    let mut rest = line.trim();
    let mut process = 0;
    if let Some(after) = rest.strip_prefix("[pid") {
        let (number, after) = after.split_once(']').unwrap_or((after, ""));
        process = number.trim().parse().unwrap_or(0);
        rest = after.trim_start();
    } else if let Some((first, after)) = rest.split_once(' ')
        && let Ok(number) = first.parse()
    {
        process = number;
        rest = after.trim_start();
    }
    if let Some((first, after)) = rest.split_once(' ')
        && let Some(ns) = time_ns(first)
    {
        return (process, Some(ns), after.trim_start());
    }
    (process, None, rest)
}

/// `12:34:56.789` or `1700000000.123456` in nanoseconds.
fn time_ns(text: &str) -> Option<u64> {
    let mut seconds = 0.0;
    if !text.contains([':', '.']) {
        return None;
    }
    for part in text.split(':') {
        let value: f64 = part.parse().ok()?;
        seconds = seconds * 60.0 + value;
    }
    (0.0..1e12)
        .contains(&seconds)
        .then_some((seconds * 1e9) as u64)
}

/// A call with its result.
pub fn parsed(process: u64, text: &str) -> Option<Call<'_>> {
    let (name, rest) = text.split_once('(')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let (arguments, rest) = arguments(rest)?;
    let returned = rest.trim_start().strip_prefix('=')?.trim_start();
    // `= ?` is a call that never came back.
    let result = match returned.starts_with('?') {
        true => -1,
        false => number_in(returned)?,
    };
    Some(Call {
        process,
        name,
        arguments,
        result,
        returned,
    })
}

/// The arguments and what follows their bracket. Commas and brackets in strings,
/// structures, lists and the paths of `-y` part nothing.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let mut found = Vec::new();
    let (mut depth, mut from, mut quoted, mut escaped) = (0u32, 0, false, false);
    let mut in_path = false;
    for (at, byte) in text.bytes().enumerate() {
        if in_path {
            in_path = byte != b'>';
            continue;
        }
        if quoted {
            (escaped, quoted) = (byte == b'\\' && !escaped, byte != b'"' || escaped);
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'<' => in_path = text.as_bytes().get(at + 1) == Some(&b'/'),
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                found.push(text[from..at].trim());
                return Some((found, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// A quoted path, without what strace adds.
pub fn unquoted(argument: &str) -> &str {
    let text = argument.trim_end_matches("...");
    text.trim_matches('"')
}

/// The path that `-y` puts behind a descriptor.
pub fn shown(descriptor: &str) -> Option<&str> {
    let (_, path) = descriptor.split_once('<')?;
    path.split(['<', '>']).next()
}

/// The number of a descriptor, whatever `-y` put behind it.
pub fn number(descriptor: &str) -> i64 {
    number_in(descriptor).unwrap_or(-1)
}

/// The number that a text begins with, decimal or hexadecimal.
fn number_in(text: &str) -> Option<i64> {
    if let Some(digits) = text.strip_prefix("0x") {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit());
        return i64::from_str_radix(&digits[..end.unwrap_or(digits.len())], 16).ok();
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit());
    let value: i64 = digits[..end.unwrap_or(digits.len())].parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}
