//! A certificate authority for the tests' own servers and clients.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// An authority that was made a moment ago.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// The files of one certificate, in PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl Authority {
    /// Makes one.
    ///
    /// # Panics
    /// When no key can be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Its own certificate, in PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Writes its own certificate.
    ///
    /// # Panics
    /// When the file can not be written.
    #[must_use]
    pub fn write(&self, path: &Path) -> PathBuf {
        std::fs::write(path, &self.certificate).unwrap();
        path.to_owned()
    }

    /// Writes a certificate for a server at these names and addresses, as `{name}.crt` and `{name}.key`.
    #[must_use]
    pub fn server(&self, folder: &Path, name: &str, hosts: &[&str]) -> Files {
        self.issue(folder, name, hosts, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Writes a certificate for a client of this common name.
    #[must_use]
    pub fn client(&self, folder: &Path, name: &str) -> Files {
        self.issue(folder, name, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(&self, folder: &Path, name: &str, hosts: &[&str], usage: ExtendedKeyUsagePurpose) -> Files {
        let mut params = params(name, hosts);
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = Files { certificate: folder.join(format!("{name}.crt")), key: folder.join(format!("{name}.key")) };
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
