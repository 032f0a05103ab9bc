//! Certificates of the server and authorities for those of clients. The files are read again when
//! they change, so a renewed certificate needs no restart.

use std::fs::{self, File, OpenOptions};
use std::io::BufReader;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use tiffany::wal::{SymbolicLink, open_regular};

use crate::auth::AuthError;

/// The paths of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, with its chain.
    pub certificate: PathBuf,
    /// The private key of the server's certificate.
    pub key: PathBuf,
    /// The authorities that sign client certificates. If set, clients without a certificate are
    /// refused.
    pub clients: Option<PathBuf>,
}

/// The TLS configuration.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Mutex<(Vec<Stamp>, Arc<ServerConfig>)>,
}

/// The state of a file: its inode, its size and when it was changed.
type Stamp = (u64, u64, i64, i64);

impl Tls {
    /// Reads the certificates and the key.
    pub fn new(files: TlsFiles) -> Result<Tls, AuthError> {
        let current = (stamps(&files), Arc::new(config(&files)?));
        Ok(Tls { files, current: Mutex::new(current) })
    }

    /// Returns the configuration for the next connection. If the files have changed and are not
    /// valid, the previous configuration stays in use.
    pub fn config(&self) -> Arc<ServerConfig> {
        let stamps = stamps(&self.files);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != stamps {
            current.0 = stamps;
            match config(&self.files) {
                Ok(config) => {
                    current.1 = Arc::new(config);
                    tracing::info!(target: "tiffany", "the certificates have changed and are used now");
                }
                Err(error) => tracing::warn!(
                    target: "tiffany", code = error.code(),
                    "the certificates have changed, and the old ones are used still: {error}",
                ),
            }
        }
        Arc::clone(&current.1)
    }
}

fn stamps(files: &TlsFiles) -> Vec<Stamp> {
    let all = [Some(&files.certificate), Some(&files.key), files.clients.as_ref()];
    let stamp = |path: &PathBuf| {
        let metadata = fs::metadata(path);
        metadata.map_or((0, 0, 0, 0), |it| (it.ino(), it.size(), it.mtime(), it.mtime_nsec()))
    };
    all.into_iter().flatten().map(stamp).collect()
}

const CERTIFICATE: &str = "the certificate";
const KEY: &str = "the key";
const CLIENTS: &str = "the certificates that vouch for clients";

fn config(files: &TlsFiles) -> Result<ServerConfig, AuthError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(CERTIFICATE, &files.certificate)?;
    let key = open(KEY, &files.key)?;
    let key = PrivateKeyDer::from_pem_reader(key);
    let key = key.map_err(|error| refused(KEY, &files.key, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(CERTIFICATE, &files.certificate, &error))?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(CLIENTS, path)? {
                roots.add(certificate).map_err(|error| refused(CLIENTS, path, &error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let verifier = verifier.map_err(|error| refused(CLIENTS, path, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| refused(CERTIFICATE, &files.certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, AuthError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(open(what, path)?).collect();
    match all {
        Ok(all) if all.is_empty() => Err(refused(what, path, &"there is none in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(refused(what, path, &error)),
    }
}

fn open(what: &'static str, path: &Path) -> Result<BufReader<File>, AuthError> {
    let opened = open_regular(OpenOptions::new().read(true), path, SymbolicLink::Followed);
    opened.map(BufReader::new).map_err(|error| refused(what, path, &error))
}

fn refused(what: &'static str, path: &Path, why: &dyn std::fmt::Display) -> AuthError {
    AuthError::Tls { what, file: path.into(), why: why.to_string() }
}

/// Returns the name that a certificate is for: its common name, or else its first alternative name.
pub fn name_in(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let common = certificate.subject().iter_common_name().next();
    if let Some(name) = common.and_then(|name| name.as_str().ok()).filter(|name| !name.is_empty()) {
        return Some(name.into());
    }
    let others = certificate.subject_alternative_name().ok()??;
    others.value.general_names.iter().find_map(|name| match name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) => Some((*name).to_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;
    use crate::scratch::Dir;

    fn file(dir: &Dir, name: &str, text: &str) -> PathBuf {
        let path = dir.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn pair(name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.into()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[test]
    fn files_that_do_not_fit_are_named() {
        let dir = Dir::new();
        let (certificate, key) = pair("localhost");
        let other = pair("localhost").1;
        let good = TlsFiles {
            certificate: file(&dir, "c.pem", &certificate),
            key: file(&dir, "k.pem", &key),
            clients: None,
        };
        Tls::new(good.clone()).unwrap();
        let garbage = file(&dir, "garbage", "-----BEGIN CERTIFICATE-----\n???\n");
        let empty = file(&dir, "empty", "");
        let cases = [
            (TlsFiles { key: file(&dir, "other.pem", &other), ..good.clone() }, CERTIFICATE),
            (TlsFiles { key: dir.0.join("missing"), ..good.clone() }, KEY),
            (TlsFiles { key: good.certificate.clone(), ..good.clone() }, KEY),
            (TlsFiles { certificate: garbage, ..good.clone() }, CERTIFICATE),
            (TlsFiles { certificate: empty.clone(), ..good.clone() }, CERTIFICATE),
            (TlsFiles { clients: Some(empty), ..good.clone() }, CLIENTS),
        ];
        for (files, named) in cases {
            let error = Tls::new(files.clone()).unwrap_err();
            assert_eq!(error.code(), "TFY0176");
            assert!(error.to_string().starts_with(named), "{error} for {files:?}");
        }
    }

    #[test]
    fn a_renewed_certificate_is_used_and_a_bad_one_is_not() {
        let dir = Dir::new();
        let write = |(certificate, key): (String, String)| TlsFiles {
            certificate: file(&dir, "c.pem", &certificate),
            key: file(&dir, "k.pem", &key),
            clients: None,
        };
        let tls = Tls::new(write(pair("localhost"))).unwrap();
        let first = tls.config();
        assert!(Arc::ptr_eq(&first, &tls.config()));
        write(pair("much-longer-name.localhost"));
        let second = tls.config();
        assert!(!Arc::ptr_eq(&first, &second));
        file(&dir, "k.pem", "no key at all");
        assert!(Arc::ptr_eq(&second, &tls.config()));
    }

    #[test]
    fn the_name_in_a_certificate_is_its_common_name_or_else_another() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["probe.example".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "probe");
        let named = params.self_signed(&key).unwrap();
        assert_eq!(name_in(named.der()).as_deref(), Some("probe"));
        let mut params = CertificateParams::new(vec!["probe.example".into()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let bare = params.self_signed(&key).unwrap();
        assert_eq!(name_in(bare.der()).as_deref(), Some("probe.example"));
        assert_eq!(name_in(&CertificateDer::from(vec![1, 2, 3])), None);
    }
}
