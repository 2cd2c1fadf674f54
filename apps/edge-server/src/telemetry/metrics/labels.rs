//! Labels that several metrics share.

use prometheus_client::encoding::EncodeLabelSet;

/// The worker that counted.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct WorkerLabels {
    pub worker: u8,
}
