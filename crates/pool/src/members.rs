//! Changes of the cluster map: members come and go, keys are exchanged.

pub(crate) mod membership;
pub(crate) mod sealing;
pub(crate) mod rekeying;
