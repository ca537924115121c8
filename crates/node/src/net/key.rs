//! The cluster key: who holds it belongs to the cluster.
//!
//! It is one file with one private key (ECDSA P-256, PEM). The key is that of a certificate
//! authority which exists only in memory: every process makes itself a certificate signed by it
//! when it starts, and both sides of a connection accept only such certificates. So there is one
//! secret to copy to a new machine, and nothing expires or has to be renewed. In return whoever
//! steals the file is a member: give the cluster a new key then.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::client::Resumption;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::{NodeError, NodeOperation, Result};

/// All members have certificates for this name; who is who is said by `Hello`.
const NAME: &str = "member.kiln.internal";
/// A key file is a few hundred bytes.
const FILE_MAX: u64 = 64 << 10;

/// The key of a cluster, ready to make connections.
///
/// ```
/// use kiln_node::net::ClusterKey;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("cluster.key");
/// ClusterKey::create(&path)?;
/// assert!(ClusterKey::create(&path).is_err()); // never overwritten
/// let key = ClusterKey::load(&path)?;
/// # let _ = key;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ClusterKey {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl std::fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

impl ClusterKey {
    /// Makes a new key and writes it, readable for its owner only, to a file that must not exist.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn create(path: &Path) -> Result<ClusterKey> {
        let pem = KeyPair::generate().map_err(|error| refused(path, error))?.serialize_pem();
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let written = options.and_then(|mut file| {
            file.write_all(pem.as_bytes())?;
            file.sync_all()
        });
        written.map_err(|source| io_error(NodeOperation::CreateFile, path, source))?;
        ClusterKey::from_pem(path, &pem)
    }

    /// Reads a key file. Others than its owner must not be able to read it.
    ///
    /// # Errors
    /// It cannot be read, others can read it, or it holds no such key.
    pub fn load(path: &Path) -> Result<ClusterKey> {
        let meta =
            fs::metadata(path).map_err(|source| io_error(NodeOperation::OpenFile, path, source))?;
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(refused(path, "others than its owner may read it; chmod 600 it"));
        }
        if meta.len() > FILE_MAX {
            return Err(refused(path, "it is too long for a cluster key"));
        }
        let pem = fs::read_to_string(path)
            .map_err(|source| io_error(NodeOperation::ReadFile, path, source))?;
        ClusterKey::from_pem(path, &pem)
    }

    fn from_pem(path: &Path, pem: &str) -> Result<ClusterKey> {
        let pair = KeyPair::from_pem(pem).map_err(|error| refused(path, error))?;
        let failed = |error: &dyn std::fmt::Display| refused(path, error.to_string());
        let authority = CertifiedIssuer::self_signed(authority_params(), pair);
        let authority = authority.map_err(|error| failed(&error))?;
        let own = KeyPair::generate().map_err(|error| failed(&error))?;
        let mut params = CertificateParams::new([NAME.to_owned()]).map_err(|e| failed(&e))?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = params.signed_by(&own, &authority).map_err(|error| failed(&error))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).map_err(|error| failed(&error))?;
        let roots = Arc::new(roots);
        let chain = vec![leaf.der().clone()];
        let key = || PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| failed(&error))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .and_then(|b| {
                b.with_client_cert_verifier(verifier).with_single_cert(chain.clone(), key())
            })
            .map_err(|error| failed(&error))?;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .and_then(|b| b.with_root_certificates(roots).with_client_auth_cert(chain, key()))
            .map_err(|error| failed(&error))?;
        // All members have one name, so a ticket of one would be offered to another.
        client.resumption = Resumption::disabled();
        Ok(ClusterKey { server: Arc::new(server), client: Arc::new(client) })
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.client)
    }

    /// The name in all members' certificates.
    pub(super) fn name() -> Result<ServerName<'static>> {
        ServerName::try_from(NAME).map_err(|error| NodeError::protocol(error.to_string()))
    }
}

/// The same for every key, so that only the key tells clusters apart.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "kiln cluster");
    params
}

fn refused(path: &Path, why: impl std::fmt::Display) -> NodeError {
    NodeError::Setup { what: path.display().to_string(), why: why.to_string() }
}

fn io_error(op: NodeOperation, path: &Path, source: std::io::Error) -> NodeError {
    NodeError::Io { op, place: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_files_that_others_can_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        ClusterKey::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = ClusterKey::load(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn files_that_are_no_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(ClusterKey::load(&path).is_err());
        for text in ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            assert!(ClusterKey::load(&path).is_err(), "{text:?}");
        }
    }
}
