//! `varve stats`: what a mount has done.

use serde_json::{Map, Value, json};
use varve::Statistics;

/// The counters of a volume, layer by layer.
pub fn describe(statistics: &Statistics) -> Value {
    let layout: Map<String, Value> = statistics
        .layout
        .named()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    let t = &statistics.tree;
    json!({
        "layout": layout,
        "tree": {
            "hits": t.hits,
            "misses": t.misses,
            "read_ahead_blocks": t.read_ahead_blocks,
            "layout_reads": t.layout_reads,
            "groups": t.groups,
            "group_blocks": t.group_blocks,
            "group_bytes": t.group_bytes,
            "group_inodes": t.group_inodes,
            "commits": t.commits,
            "shared_captures": t.shared_captures,
            "stalls": t.stalls,
            "damaged_blocks": t.damaged_blocks,
            "lookups": t.lookups,
            "reads": t.reads,
            "read_bytes": t.read_bytes,
            "writes": t.writes,
            "written_bytes": t.written_bytes,
            "creates": t.creates,
            "unlinks": t.unlinks,
            "renames": t.renames,
            "setattrs": t.setattrs,
            "fsyncs": t.fsyncs,
            "frees": t.frees,
            "dirty_bytes": t.dirty_bytes,
            "cached_bytes": t.cached_bytes,
            "vnodes": t.vnodes,
        },
        "space": {
            "blocks": statistics.space.blocks,
            "free": statistics.space.free,
            "files": statistics.space.files,
            "files_free": statistics.space.files_free,
        },
        "write_cost": statistics.write_cost(),
        "write_amplification": statistics.write_amplification(),
    })
}
