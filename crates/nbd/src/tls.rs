//! Certificates from files.

use crate::{NbdError, Result};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{
    RootCertStore, ServerConfig, pki_types::pem::PemObject, server::WebPkiClientVerifier,
};
use std::{path::Path, sync::Arc};

/// Returns TLS settings of a server: its certificate and key, and where clients need certificates
/// too, those that these must be signed by; all as PEM files.
/// Errors: [`NbdError::Certificate`]: a file cannot be read or has something else;
/// [`NbdError::Tls`].
pub fn tls(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Arc<ServerConfig>> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
            config.with_client_cert_verifier(verifier)
        }
    };
    Ok(Arc::new(config.with_single_cert(chain, key)?))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| wrong(path, &error))?;
    if all.is_empty() {
        return Err(wrong(path, &pem::Error::NoItemsFound));
    }
    Ok(all)
}

fn wrong(path: &Path, error: &pem::Error) -> NbdError {
    NbdError::Certificate { path: path.to_owned(), what: error.to_string() }
}
