//! A user's own list of files, from which a volume is aged.

use varve_lab::ageing::parse;

/// Reads any text as a list; each line is an event, or none.
pub fn list(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(events) = parse(&text) {
        assert!(events.len() <= text.lines().count());
    }
}

/// Lists with lines of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let lists = [
        "4096 a/b\n+ 100 a/c\n> 17 a/b\n- a/c\n",
        "# nothing\n\n18446744073709551615 a\n",
        "+ 1 \n",
    ];
    lists.map(|list| list.as_bytes().to_vec()).into()
}
