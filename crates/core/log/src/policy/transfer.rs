//! The cost of a transfer to or from a disk.

/// Parameters of a transfer's cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransferModel {
    /// Seek, rotation and overhead of a request, in seconds.
    pub access_s: f64,
    /// Bytes per second once the transfer runs.
    pub bandwidth: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
}

impl TransferModel {
    /// Quantum Atlas 10K: 6 ms on average, 60 MB/s at the channel (WOLF §3.1).
    pub const ATLAS_10K: TransferModel = TransferModel {
        access_s: 6e-3,
        bandwidth: 60e6,
        block_bytes: 4096.0,
    };

    /// Time of one request of `bytes`, in seconds.
    pub fn request_s(&self, bytes: f64) -> f64 {
        self.access_s + bytes / self.bandwidth
    }
}
