//! Manifests on nodes: quorum reads, conditional commits, the log of changes.

pub(crate) mod store;
pub(crate) mod changes;
pub(crate) mod conditional_put;
pub(crate) mod quorum;
pub(crate) mod commit;
pub(crate) mod keep;
