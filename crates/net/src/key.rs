//! Keys: who holds one belongs to the cluster, as what its key says.
//!
//! The cluster key is one file with one private key (ECDSA P-256, PEM), that of a certificate
//! authority which exists only in memory. A process that holds it makes itself certificates signed
//! by it, for some days each and again before they end, so there is one secret to copy to a new
//! machine, and nothing to renew by hand. Such a holder is an administrator. From the cluster key
//! others can be issued ([`ClusterKey::issue`]) that hold a certificate instead: for one role, and
//! for a time. Both sides of a connection accept only certificates of authorities that they trust.
//!
//! To change the cluster key, files may hold several: the first signs, all are trusted. With the
//! new one behind the old one everywhere, then before it, then alone, any two members agree at any
//! time.

mod issued;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io::Write, path::Path};

use kiln_store::names::{from_hex, hex};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, pki_types::pem::PemObject, version::TLS13,
};

pub use self::issued::IssuedKey;
use crate::agent::{PeerRole, Rights};
use crate::{NetError, NetOperation, Result, prefix};

/// All who may be served by, and so all but clients, have certificates for this name.
const NAME: &str = "member.kiln.internal";
/// The end of the name in certificates that tells a prefix, in hex, in labels of 62 digits.
const PREFIX: &str = ".prefix.kiln.internal";
/// A key file is a few hundred bytes for each key in it.
const FILE_MAX: u64 = 64 << 10;
/// Keys in a file, at most: the one that is used, and those before and after it.
const KEYS_MAX: usize = 4;
/// Lifetime of the certificates that holders of the cluster key make for themselves, and when they
/// are made anew. Connections that were made with one outlive it.
const LIFE: Duration = Duration::from_secs(7 * 86_400);
const RENEWAL: Duration = Duration::from_secs(86_400);
/// Clocks of members may differ by so much.
const SKEW: Duration = Duration::from_secs(86_400);
/// Before the end of an issued key in its file; the certificate itself says it too.
const ENDS: &str = "ends (seconds since 1970): ";

/// The key of a cluster, ready to make connections.
#[derive(Clone)]
pub struct ClusterKey {
    keys: Arc<Keys>,
}

struct Keys {
    /// The file, for messages.
    file: String,
    source: Source,
    trusted: Vec<CertificateDer<'static>>,
    made: Mutex<Made>,
}

/// The source of certificates.
enum Source {
    /// They are made as they are needed, signed by the first of these.
    Authorities(Vec<Authority>),
    /// There is one, issued by a holder of the cluster key.
    Issued(CertificateDer<'static>, Vec<u8>),
}

type Authority = CertifiedIssuer<'static, KeyPair>;

/// TLS settings of connections.
#[derive(Clone)]
struct Made {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    /// When it is made anew.
    until: SystemTime,
}

impl std::fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

impl ClusterKey {
    /// Makes a new key and writes it, readable for its owner only, to a file that must not exist.
    /// Errors: the file exists or cannot be written.
    pub fn create(path: &Path) -> Result<ClusterKey> {
        let pem = KeyPair::generate().map_err(|error| refused(path, error))?.serialize_pem();
        write_new(path, &pem)?;
        ClusterKey::from_pem(path, &pem)
    }

    /// Reads a key file. Others than its owner must not be able to read it.
    /// Errors: it cannot be read, others can read it, it holds no such key, or one that has ended.
    pub fn load(path: &Path) -> Result<ClusterKey> {
        let meta =
            fs::metadata(path).map_err(|source| io_error(NetOperation::OpenFile, path, source))?;
        if meta.permissions().mode() & 0o077 != 0 {
            return Err(refused(path, "others than its owner may read it; chmod 600 it"));
        }
        if meta.len() > FILE_MAX {
            return Err(refused(path, "it is too long for a cluster key"));
        }
        let pem = fs::read_to_string(path)
            .map_err(|source| io_error(NetOperation::ReadFile, path, source))?;
        ClusterKey::from_pem(path, &pem)
    }

    /// Writes a key for one role that ends after a time, to a file that must not exist; gives the
    /// date of its end. A reader's or writer's may be for objects of a prefix. Who holds it cannot
    /// issue others.
    /// Errors: this is no cluster key but was issued itself; the file exists or cannot be written;
    /// no such key is for a prefix, or for this one.
    pub fn issue(&self, path: &Path, rights: impl Into<Rights>, time: Duration) -> Result<String> {
        let rights = &rights.into();
        if let Some(prefix) = &rights.prefix {
            let limited = matches!(rights.role, PeerRole::Reader | PeerRole::Writer);
            let of_role = (!limited).then_some("only readers and writers are limited to a prefix");
            if let Some(why) = of_role.or(prefix::flaw(prefix)) {
                return Err(NetError::Setup { what: prefix.to_string(), why: why.to_owned() });
            }
        }
        let Source::Authorities(authorities) = &self.keys.source else {
            let why = "it was issued itself; only the cluster key issues others";
            return Err(NetError::Setup { what: self.keys.file.clone(), why: why.to_owned() });
        };
        let (own, end) = (KeyPair::generate().map_err(|e| refused(path, e))?, now() + time);
        let leaf = certificate(authorities, rights, &own, end).map_err(|why| refused(path, why))?;
        let seconds = since_1970(end).as_secs();
        let mut text =
            format!("kiln key, role: {rights}\n{ENDS}{seconds}\n{}", own.serialize_pem());
        text += &leaf.pem();
        text.extend(authorities.iter().map(Authority::pem));
        write_new(path, &text)?;
        let ends = (rcgen::date_time_ymd(1970, 1, 1) + since_1970(end)).date().to_string();
        let id = issued::id_of(leaf.der());
        let role = issued::word_of(rights);
        self.note("issued", &format!("{id} {role} {ends} {}", path.display()))?;
        Ok(ends)
    }

    fn from_pem(path: &Path, pem: &str) -> Result<ClusterKey> {
        let bad = |error: &dyn std::fmt::Display| refused(path, error.to_string());
        let keys: Result<Vec<_>, _> =
            PrivatePkcs8KeyDer::pem_slice_iter(pem.as_bytes()).take(KEYS_MAX + 1).collect();
        let keys = keys.map_err(|error| bad(&error))?;
        let certificates: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(pem.as_bytes()).take(KEYS_MAX + 2).collect();
        let mut certificates = certificates.map_err(|error| bad(&error))?;
        if keys.is_empty() || keys.len() > KEYS_MAX || certificates.len() > KEYS_MAX + 1 {
            return Err(bad(&format!("a key file holds 1 to {KEYS_MAX} private keys")));
        }
        let (source, trusted) = if certificates.is_empty() {
            let mut all = Vec::new();
            for key in &keys {
                let pair = KeyPair::try_from(key.secret_pkcs8_der()).map_err(|e| bad(&e))?;
                let made = CertifiedIssuer::self_signed(authority_params(), pair);
                all.push(made.map_err(|error| bad(&error))?);
            }
            let trusted = all.iter().map(|authority| authority.der().clone()).collect();
            (Source::Authorities(all), trusted)
        } else {
            if keys.len() > 1 || certificates.len() < 2 {
                return Err(bad(&"an issued key has one private key, its certificate, and those \
                                 of the cluster's keys"));
            }
            if ended(pem) {
                return Err(bad(&"this key has ended; have another one issued (kiln key)"));
            }
            let own = certificates.remove(0);
            (Source::Issued(own, keys[0].secret_pkcs8_der().to_vec()), certificates)
        };
        let made = source.make(&trusted).map_err(|why| bad(&why))?;
        let (file, made) = (path.display().to_string(), Mutex::new(made));
        Ok(ClusterKey { keys: Arc::new(Keys { file, source, trusted, made }) })
    }

    /// Returns the rights of its holder; `None`: those of a later release.
    pub fn holder(&self) -> Option<Rights> {
        match &self.keys.source {
            Source::Authorities(_) => Some(Rights::ALL),
            Source::Issued(leaf, _) => ClusterKey::rights(leaf),
        }
    }

    /// Returns the TLS settings of new connections.
    fn made(&self) -> Made {
        let mut made = self.keys.made.lock().unwrap_or_else(PoisonError::into_inner);
        if now() >= made.until {
            match self.keys.source.make(&self.keys.trusted) {
                Ok(new) => *made = new,
                // The old one lasts for some days yet.
                Err(why) => tracing::warn!(why, "cannot make a certificate"),
            }
        }
        made.clone()
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.made().server
    }

    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.made().client
    }

    /// Returns the TLS settings of a page for people: with a certificate of this key, and without
    /// one of its clients.
    pub fn page_server(&self) -> Result<Arc<ServerConfig>> {
        let failed = |why: String| NetError::Setup { what: self.keys.file.clone(), why };
        let (leaf, key) = self.keys.source.leaf().map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .and_then(|b| b.with_no_client_auth().with_single_cert(vec![leaf], key))
            .map_err(|error| failed(error.to_string()))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// The name in all members' certificates.
    pub(super) fn name() -> Result<ServerName<'static>> {
        ServerName::try_from(NAME).map_err(|error| NetError::protocol(error.to_string()))
    }

    /// The rights that a peer's certificate, which was verified, gives it; `None`: none that are
    /// known here.
    pub(super) fn rights(certificate: &CertificateDer<'_>) -> Option<Rights> {
        let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
        let names: Vec<&str> = parsed.valid_dns_names().collect();
        let of = |limited| {
            let has = |role: &PeerRole| names.contains(&&role_name(*role, limited)[..]);
            PeerRole::ALL.into_iter().find(has)
        };
        if let Some(role) = of(true) {
            let digits = names.iter().find_map(|name| name.strip_suffix(PREFIX))?.replace('.', "");
            let prefix = String::from_utf8(from_hex(&digits)?).ok()?;
            return Some(Rights { role, prefix: Some(prefix.into()) });
        }
        // Programs from before there were roles make certificates of the cluster key without one.
        let before = || names.contains(&NAME).then_some(PeerRole::Administrator);
        Some(Rights { role: of(false).or_else(before)?, prefix: None })
    }
}

impl Source {
    /// A certificate and its key, which are made where they can be.
    fn leaf(&self) -> Result<(CertificateDer<'static>, Vec<u8>), String> {
        Ok(match self {
            Source::Issued(leaf, key) => (leaf.clone(), key.clone()),
            Source::Authorities(all) => {
                let own = KeyPair::generate().map_err(|error| error.to_string())?;
                let leaf = certificate(all, &Rights::ALL, &own, now() + LIFE)?;
                (leaf.der().clone(), own.serialize_der())
            }
        })
    }

    /// Certificates and what goes with them, for connections from now on.
    fn make(&self, trusted: &[CertificateDer<'static>]) -> Result<Made, String> {
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        let (leaf, key) = self.leaf()?;
        let mut roots = RootCertStore::empty();
        for authority in trusted {
            roots.add(authority.clone()).map_err(|error| failed(&error))?;
        }
        let (roots, chain) = (Arc::new(roots), vec![leaf]);
        let key = || PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.clone()));
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
        let until = now() + RENEWAL;
        Ok(Made { server: Arc::new(server), client: Arc::new(client), until })
    }
}

/// A certificate of these rights for a key, until `end`, signed by the first of these.
fn certificate(
    authorities: &[Authority],
    rights: &Rights,
    own: &KeyPair,
    end: SystemTime,
) -> Result<rcgen::Certificate, String> {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let role = role_name(rights.role, rights.prefix.is_some());
    let (names, usages) = match (rights.role, &rights.prefix) {
        (PeerRole::Agent | PeerRole::Administrator, _) => {
            (vec![NAME.to_owned(), role], vec![ServerAuth, ClientAuth])
        }
        // One that cannot be taken for a node, nor by an earlier release for more than it is.
        (_, Some(prefix)) => {
            let labels: Vec<String> = prefix.as_bytes().chunks(31).map(hex).collect();
            (vec![role, labels.join(".") + PREFIX], vec![ClientAuth])
        }
        (_, None) => (vec![role], vec![ClientAuth]),
    };
    let mut params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_1970(now()).saturating_sub(SKEW);
    params.not_after = epoch + since_1970(end);
    let authority = authorities.first().ok_or("there is no cluster key")?;
    params.signed_by(own, authority).map_err(|error| error.to_string())
}

/// The name that stands for a role in certificates, another one where it is limited to a prefix.
fn role_name(role: PeerRole, limited: bool) -> String {
    format!("{}{role}.kiln.internal", if limited { "limited-" } else { "" })
}

/// The same for every key, so that only the key tells clusters apart.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "kiln cluster");
    params
}

fn now() -> SystemTime {
    SystemTime::now()
}

/// A time as certificates count it.
fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns whether an issued key says that it has ended.
fn ended(pem: &str) -> bool {
    let said = pem.lines().find_map(|line| line.strip_prefix(ENDS)?.trim().parse().ok());
    said.is_some_and(|seconds| now() >= UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Writes a new file for its owner only.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = options.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|source| io_error(NetOperation::CreateFile, path, source))
}

fn refused(path: &Path, why: impl std::fmt::Display) -> NetError {
    NetError::Setup { what: path.display().to_string(), why: why.to_string() }
}

fn io_error(op: NetOperation, path: &Path, source: std::io::Error) -> NetError {
    NetError::Io { op, place: path.display().to_string(), source }
}

#[cfg(test)]
mod tests;
