//! Command-line arguments of a benchmark.

pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn read() -> Self {
        let all = std::env::args().skip(1);
        Arguments(all.filter(|argument| argument != "--bench").collect())
    }

    /// Returns the first argument.
    pub fn directory(&self) -> &str {
        self.0.first().expect("a directory")
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    /// Returns the number behind a name.
    pub fn value(&self, name: &str, default: u64) -> u64 {
        let at = self.0.iter().position(|argument| argument == name);
        let value = at.and_then(|at| self.0.get(at + 1));
        value.map_or(default, |value| value.parse().expect("a number"))
    }
}
