//! Requests to the S3 server: signatures, framing of payloads, documents.

pub use kiln_gate::hostile::read as run;

/// All that it begins with is kept in the corpus.
pub fn seeds() -> Vec<Vec<u8>> {
    Vec::new()
}
