//! Metrics of each layer.

use super::{Metric, counter, gauge};

pub const METRICS: [Metric; 97] = [
    counter(
        "layout.segments_vacated",
        "layout_segments_vacated_total",
        "Segments given back ahead of checkpoints.",
    ),
    counter(
        "layout.ahead_bytes",
        "layout_ahead_bytes_total",
        "Bytes of zeros written to holes of the device ahead of the log.",
    ),
    counter(
        "layout.user_log_bytes",
        "layout_user_log_bytes_total",
        "Bytes that users' partial segments took in the log, whole.",
    ),
    counter(
        "layout.bytes_read",
        "layout_read_bytes_total",
        "Bytes read from the device, but for those of verifications.",
    ),
    counter(
        "layout.window_hits",
        "layout_window_hits_total",
        "Misses served from a window read for a neighbour.",
    ),
    counter(
        "layout.windows_read",
        "layout_windows_read_total",
        "Windows read.",
    ),
    counter(
        "layout.windows_ahead",
        "layout_windows_ahead_total",
        "Windows that threads fetched before anybody asked.",
    ),
    counter(
        "layout.bytes_written",
        "layout_written_bytes_total",
        "Bytes written to the device.",
    ),
    counter("layout.groups", "layout_groups_total", "Groups appended."),
    counter(
        "layout.partials",
        "layout_partials_total",
        "Partial segments written.",
    ),
    counter(
        "layout.plugged_bytes",
        "layout_plugged_bytes_total",
        "Bytes of users' blocks that were written into holes.",
    ),
    counter(
        "layout.segments_plugged",
        "layout_segments_plugged_total",
        "Segments whose holes were written into.",
    ),
    counter(
        "layout.cleaner_log_bytes",
        "layout_cleaner_log_bytes_total",
        "All bytes of the cleaner's partial segments, those of coalescing included.",
    ),
    counter(
        "layout.checkpoint_log_bytes",
        "layout_checkpoint_log_bytes_total",
        "All bytes of checkpoints' partial segments.",
    ),
    counter(
        "layout.skipped_bytes",
        "layout_skipped_bytes_total",
        "Bytes at the ends of segments that were passed over.",
    ),
    counter(
        "layout.checkpoints",
        "layout_checkpoints_total",
        "Checkpoints completed.",
    ),
    counter(
        "layout.segments_cleaned",
        "layout_segments_cleaned_total",
        "Segments cleaned that held live blocks.",
    ),
    counter(
        "layout.segments_emptied",
        "layout_segments_emptied_total",
        "Segments found empty.",
    ),
    counter(
        "layout.segments_opened",
        "layout_segments_opened_total",
        "Segments opened for writing.",
    ),
    counter(
        "layout.stale_moves",
        "layout_stale_moves_total",
        "Moves dropped because the block had changed.",
    ),
    counter(
        "layout.cleaner_rest_ns",
        "layout_cleaner_rest_seconds_total",
        "Time that the cleaner's thread rested between segments.",
    ),
    counter(
        "layout.cleaner_way_ns",
        "layout_cleaner_way_seconds_total",
        "Time that the cleaner waited for users between two portions.",
    ),
    counter(
        "layout.toll_ns",
        "layout_toll_seconds_total",
        "Time that writers waited for the cleaner to keep pace.",
    ),
    counter("tree.hits", "tree_hits_total", "Blocks found in memory."),
    counter(
        "tree.misses",
        "tree_misses_total",
        "Blocks that had to be read.",
    ),
    counter(
        "tree.read_ahead_blocks",
        "tree_read_ahead_blocks_total",
        "Blocks read before anyone asked for them.",
    ),
    counter(
        "tree.layout_reads",
        "tree_layout_reads_total",
        "Read requests handed to the layout.",
    ),
    counter("tree.groups", "tree_groups_total", "Groups appended."),
    counter(
        "tree.group_blocks",
        "tree_group_blocks_total",
        "Data blocks in groups.",
    ),
    counter(
        "tree.group_bytes",
        "tree_group_bytes_total",
        "Bytes of data in groups.",
    ),
    counter(
        "tree.group_inodes",
        "tree_group_inodes_total",
        "Inode images in groups.",
    ),
    counter(
        "tree.small_groups",
        "tree_small_groups_total",
        "Groups kept small because small files were made durable at the same time.",
    ),
    counter(
        "tree.commits",
        "tree_commits_total",
        "Commits asked of the layout.",
    ),
    counter(
        "tree.shared_captures",
        "tree_shared_captures_total",
        "fsyncs that found their data captured by somebody else's group.",
    ),
    counter(
        "tree.stalls",
        "tree_stalls_total",
        "Writers that had to write back because too much was dirty.",
    ),
    counter(
        "tree.damaged_blocks",
        "tree_damaged_blocks_total",
        "Blocks whose stored bytes were not what was written.",
    ),
    counter("tree.lookups", "tree_lookups_total", "Look-ups."),
    counter(
        "tree.passages",
        "tree_passages_total",
        "Paths to directories that were remembered.",
    ),
    counter("tree.reads", "tree_reads_total", "Reads."),
    counter("tree.read_bytes", "tree_read_bytes_total", "Bytes read."),
    counter(
        "tree.writes",
        "tree_writes_total",
        "Writes, appends included.",
    ),
    counter(
        "tree.written_bytes",
        "tree_written_bytes_total",
        "Bytes written.",
    ),
    counter(
        "tree.creates",
        "tree_creates_total",
        "Files, directories and others made.",
    ),
    counter("tree.unlinks", "tree_unlinks_total", "Names removed."),
    counter("tree.renames", "tree_renames_total", "Renames."),
    counter("tree.setattrs", "tree_setattrs_total", "Attribute changes."),
    counter("tree.fsyncs", "tree_fsyncs_total", "fsync and fdatasync."),
    counter("tree.frees", "tree_frees_total", "Inodes freed."),
    gauge(
        "tree.dirty_bytes",
        "tree_dirty_bytes",
        "Bytes of changes that wait in memory.",
    ),
    gauge(
        "tree.cached_bytes",
        "tree_cached_bytes",
        "Bytes of clean blocks in the cache.",
    ),
    gauge("tree.vnodes", "tree_vnodes", "Vnodes in memory."),
    gauge(
        "transactions.open",
        "transactions_open",
        "Transactions under way, nested ones not included.",
    ),
    counter(
        "transactions.begun",
        "transactions_begun_total",
        "Transactions begun, nested ones included.",
    ),
    counter(
        "transactions.committed",
        "transactions_committed_total",
        "Transactions whose changes became part of another tree.",
    ),
    counter(
        "transactions.conflicts",
        "transactions_conflicts_total",
        "Transactions that met a conflict at their commit.",
    ),
    counter(
        "transactions.refused",
        "transactions_refused_total",
        "Transactions whose commit was refused for another reason.",
    ),
    counter(
        "transactions.spilled_blocks",
        "transactions_spilled_blocks_total",
        "Blocks of transactions that went to the log before their commit.",
    ),
    counter(
        "transactions.aborted",
        "transactions_aborted_total",
        "Transactions that ended without a commit.",
    ),
    counter(
        "transactions.locks.granted",
        "transactions_locks_granted_total",
        "Locks granted to transactions and to users of protected files.",
    ),
    gauge(
        "transactions.locks.waiting",
        "transactions_locks_waiting",
        "Requests for locks that wait.",
    ),
    counter(
        "transactions.locks.waits",
        "transactions_locks_waits_total",
        "Requests for locks that had to wait.",
    ),
    counter(
        "transactions.locks.deadlocks",
        "transactions_locks_deadlocks_total",
        "Requests for locks that failed to end a deadlock.",
    ),
    counter(
        "transactions.locks.timeouts",
        "transactions_locks_timeouts_total",
        "Requests for locks that waited too long.",
    ),
    gauge(
        "transactions.locks.longest_wait_ns",
        "transactions_locks_longest_wait_seconds",
        "The longest wait for a lock, whether it is over or not.",
    ),
    counter(
        "virtual_log.transactions",
        "virtual_log_transactions_total",
        "Transactions of the virtual log.",
    ),
    counter(
        "virtual_log.brief",
        "virtual_log_brief_total",
        "Brief transactions: data and a record of changes.",
    ),
    counter(
        "virtual_log.records",
        "virtual_log_records_total",
        "Records in transactions.",
    ),
    counter(
        "virtual_log.flushes",
        "virtual_log_flushes_total",
        "Flushes of the device.",
    ),
    counter(
        "virtual_log.checkpoints",
        "virtual_log_checkpoints_total",
        "Checkpoints.",
    ),
    counter(
        "virtual_log.reliefs",
        "virtual_log_reliefs_total",
        "Times that an append first had to take along what waited.",
    ),
    counter(
        "virtual_log.units_moved",
        "virtual_log_units_moved_total",
        "Units that the compactor has moved.",
    ),
    counter(
        "virtual_log.regions_emptied",
        "virtual_log_regions_emptied_total",
        "Regions that the compactor has moved everything off.",
    ),
    counter(
        "virtual_log.units_immovable",
        "virtual_log_units_immovable_total",
        "Units that the compactor could not move.",
    ),
    gauge(
        "virtual_log.blocks_free",
        "virtual_log_blocks_free",
        "Blocks with no used unit.",
    ),
    gauge(
        "virtual_log.blocks_live",
        "virtual_log_blocks_live",
        "Blocks of which the tree uses a unit.",
    ),
    gauge(
        "virtual_log.units_pinned",
        "virtual_log_units_pinned",
        "Units that the next checkpoint frees.",
    ),
    gauge(
        "virtual_log.units_waiting",
        "virtual_log_units_waiting",
        "Units that the next flush frees.",
    ),
    gauge(
        "virtual_log.records_waiting",
        "virtual_log_records_waiting",
        "Dead records kept because others hang on them.",
    ),
    gauge(
        "virtual_log.regions_empty",
        "virtual_log_regions_empty",
        "Regions with no used unit.",
    ),
    gauge(
        "virtual_log.owners_known",
        "virtual_log_owners_known",
        "Blocks and units whose owner is known.",
    ),
    counter(
        "in_place.groups",
        "in_place_groups_total",
        "Groups appended.",
    ),
    counter(
        "in_place.data_bytes",
        "in_place_data_bytes_total",
        "Bytes of data written in place.",
    ),
    counter(
        "in_place.records",
        "in_place_records_total",
        "Records of the journal.",
    ),
    counter(
        "in_place.record_bytes",
        "in_place_record_bytes_total",
        "Bytes of records.",
    ),
    counter(
        "in_place.flushes",
        "in_place_flushes_total",
        "Flushes of the device.",
    ),
    counter(
        "in_place.ordered_commits",
        "in_place_ordered_commits_total",
        "Commits that wrote metadata in place, in order or without.",
    ),
    counter(
        "in_place.checkpoints",
        "in_place_checkpoints_total",
        "Checkpoints.",
    ),
    counter(
        "in_place.sectors_placed",
        "in_place_sectors_placed_total",
        "Sectors of metadata that checkpoints wrote in place.",
    ),
    gauge(
        "in_place.journal_used_bytes",
        "in_place_journal_used_bytes",
        "Bytes of the journal in use.",
    ),
    gauge(
        "in_place.journal_bytes",
        "in_place_journal_bytes",
        "Bytes of the journal.",
    ),
    gauge(
        "in_place.sectors_newer",
        "in_place_sectors_newer",
        "Sectors of metadata that are not in place.",
    ),
    gauge(
        "in_place.blocks_free",
        "in_place_blocks_free",
        "Whole blocks that are free.",
    ),
    gauge(
        "in_place.fragments_free",
        "in_place_fragments_free",
        "Fragments that are free, those in whole blocks included.",
    ),
    gauge(
        "in_place.fragments_waiting",
        "in_place_fragments_waiting",
        "Fragments that the next record or checkpoint frees.",
    ),
    gauge(
        "in_place.inodes_free",
        "in_place_inodes_free",
        "Inodes that are free.",
    ),
    gauge(
        "in_place.groups_of_cylinders",
        "in_place_groups_of_cylinders",
        "Cylinder groups.",
    ),
    gauge(
        "in_place.fragments_kept",
        "in_place_fragments_kept",
        "Fragments that are free and kept for files that are being written.",
    ),
];
