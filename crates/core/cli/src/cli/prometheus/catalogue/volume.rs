//! Metrics of interest to the operator of a volume.

use super::{Kind, Metric, by, counter, gauge};

pub const METRICS: [Metric; 48] = [
    by(
        "kind",
        counter(
            "requests.*",
            "requests_total",
            "Requests of the kernel, by kind.",
        ),
    ),
    counter(
        "requests_failed",
        "requests_failed_total",
        "Requests of the kernel that were answered with an error.",
    ),
    counter(
        "requests_malformed",
        "requests_malformed_total",
        "Requests of the kernel that could not be understood.",
    ),
    counter(
        "read_bytes",
        "requests_read_bytes_total",
        "Bytes that read requests were answered with.",
    ),
    counter(
        "written_bytes",
        "requests_written_bytes_total",
        "Bytes that write requests brought.",
    ),
    Metric {
        path: "latency.*",
        name: "request_duration_seconds",
        kind: Kind::Histogram,
        label: "kind",
        help: "How long requests of the kernel took: reads, writes, syncs and all else (name).",
    },
    gauge(
        "space.bytes",
        "space_size_bytes",
        "Bytes that users could ever fill; the reserve is left out.",
    ),
    gauge(
        "space.bytes_free",
        "space_free_bytes",
        "Bytes of these that are free.",
    ),
    gauge("space.files", "space_files", "Inodes in use."),
    gauge(
        "space.files_free",
        "space_files_free",
        "Inodes that could still be made.",
    ),
    gauge(
        "snapshots.named",
        "snapshots_named",
        "Snapshots with a name.",
    ),
    gauge(
        "snapshots.automatic",
        "snapshots_automatic",
        "Snapshots without one, which are deleted when space is needed.",
    ),
    gauge(
        "snapshots.kept_bytes",
        "snapshots_kept_bytes",
        "Bytes that only snapshots have.",
    ),
    gauge(
        "snapshots.reserved_bytes",
        "snapshots_reserved_bytes",
        "Bytes that the history of the snapshots may still take.",
    ),
    gauge(
        "state.read_only",
        "read_only",
        "1 if the volume takes no more changes.",
    ),
    by(
        "operation",
        counter(
            "device.*.requests",
            "device_requests_total",
            "Requests to the device.",
        ),
    ),
    by(
        "operation",
        counter(
            "device.*.retries",
            "device_retries_total",
            "Requests tried again after an error or a wrong checksum.",
        ),
    ),
    by(
        "operation",
        counter(
            "device.*.cured",
            "device_cured_total",
            "Requests that trying again cured.",
        ),
    ),
    by(
        "operation",
        counter(
            "device.*.failed",
            "device_failed_total",
            "Requests that failed for good; of checksums, blocks that stayed wrong.",
        ),
    ),
    by(
        "operation",
        counter(
            "device.*.relocated",
            "device_relocated_total",
            "Writes whose content was stored elsewhere, as the device refused the place.",
        ),
    ),
    by(
        "cause",
        counter(
            "transactions.aborted_by.*",
            "transactions_of_programs_aborted_total",
            "Transactions of other programs that ended without a commit, by what ended them.",
        ),
    ),
    by(
        "cause",
        counter(
            "written_by_cause.*",
            "written_bytes_total",
            "Bytes written to the device, by cause.",
        ),
    ),
    by(
        "cause",
        counter(
            "read_by_cause.*",
            "read_bytes_total",
            "Bytes read from the device, by cause.",
        ),
    ),
    gauge(
        "write_cost",
        "write_cost_ratio",
        "Bytes that new data and the cleaner moved, per byte of new data.",
    ),
    gauge(
        "overall_write_cost",
        "overall_write_cost_ratio",
        "The same times what positioning adds on a mechanical disk.",
    ),
    gauge(
        "write_amplification",
        "write_amplification_ratio",
        "Bytes written, of any cause, per byte of new data.",
    ),
    gauge(
        "segments.clean",
        "segments_clean",
        "Segments that can be written.",
    ),
    gauge(
        "segments.open",
        "segments_open",
        "Segments that are being written.",
    ),
    gauge(
        "segments.empty",
        "segments_empty",
        "Segments without live bytes that wait for a checkpoint.",
    ),
    by(
        "utilisation",
        gauge(
            "segments.by_utilisation.*",
            "segments_by_utilisation",
            "Segments in use, by utilisation: 0.3 counts those from 0.2 up to 0.3.",
        ),
    ),
    gauge(
        "segments.utilisation",
        "segments_utilisation_ratio",
        "Live bytes per byte of the segments in use.",
    ),
    by(
        "utilisation",
        counter(
            "cleaned_by_utilisation.*",
            "cleaned_segments_total",
            "Segments cleaned, by their utilisation then.",
        ),
    ),
    gauge(
        "cleaner.clean_segments",
        "cleaner_clean_segments",
        "Clean segments, as the cleaner counts them.",
    ),
    gauge(
        "cleaner.begins_below",
        "cleaner_begins_below_segments",
        "Clean segments below which the cleaner begins.",
    ),
    gauge(
        "cleaner.ends_at",
        "cleaner_ends_at_segments",
        "Clean segments at which the cleaner stops.",
    ),
    gauge(
        "cleaner.debt_segments",
        "cleaner_debt_segments",
        "Segments that the cleaner is behind.",
    ),
    gauge(
        "verification.inodes",
        "verification_inodes",
        "Inodes that the verification after a roll-forward looked at.",
    ),
    gauge(
        "verification.directories",
        "verification_directories",
        "Directories that the verification after a roll-forward looked at.",
    ),
    gauge(
        "verification.data_bytes",
        "verification_data_bytes",
        "Bytes of data that the verification after a roll-forward looked at.",
    ),
    gauge(
        "verification.read_bytes",
        "verification_read_bytes",
        "Bytes that the verification after a roll-forward read.",
    ),
    gauge(
        "verification.errors",
        "verification_errors",
        "What the verification after a roll-forward found wrong.",
    ),
    gauge(
        "verification.elapsed_ns",
        "verification_elapsed_seconds",
        "How long the verification after a roll-forward has run.",
    ),
    gauge(
        "scrub.inodes",
        "scrub_inodes",
        "Inodes that the scrub looked at.",
    ),
    gauge(
        "scrub.directories",
        "scrub_directories",
        "Directories that the scrub looked at.",
    ),
    gauge(
        "scrub.data_bytes",
        "scrub_data_bytes",
        "Bytes of data that the scrub looked at.",
    ),
    gauge(
        "scrub.read_bytes",
        "scrub_read_bytes",
        "Bytes that the scrub read.",
    ),
    gauge(
        "scrub.errors",
        "scrub_errors",
        "What the scrub found wrong.",
    ),
    gauge(
        "scrub.elapsed_ns",
        "scrub_elapsed_seconds",
        "How long the scrub has run.",
    ),
];
