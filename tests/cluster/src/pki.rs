//! Creates the keys and certificates of a cluster in the cluster's folder. Each start of a cluster creates new keys and
//! certificates.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::Error;
use crate::folder::{Folder, write_private};

/// The host names and addresses in the API server's certificate. Pods and local clients connect to these names.
pub(crate) const API_SERVER_NAMES: [&str; 7] = [
    "127.0.0.1",
    "10.96.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// The file name, user name and group of a client certificate.
pub(crate) type Client<'a> = (&'a str, &'a str, Option<&'a str>);

/// The file name of a server certificate, and the host names and addresses in the certificate.
pub(crate) type Server<'a> = (&'a str, &'a [&'a str]);

/// The server certificates of a simulated cluster.
pub(crate) const SERVERS: [Server<'_>; 2] =
    [("apiserver", &API_SERVER_NAMES), ("kubelet", &["127.0.0.1", "localhost"])];

/// The client certificates of a simulated cluster. The group of kwok gives it all rights, because kwok
/// writes objects of many kinds, as kubelets and controllers do.
pub(crate) const CLIENTS: [Client<'_>; 6] = [
    ("admin", "admin", Some("system:masters")),
    ("kube-controller-manager", "system:kube-controller-manager", None),
    ("kube-scheduler", "system:kube-scheduler", None),
    ("kwok", "kwok", Some("system:masters")),
    ("waits", "waits", Some("system:masters")),
    ("seed", "seed", Some("system:masters")),
];

/// Creates the CA, the certificates, and the key pair that signs the tokens of service accounts.
pub(crate) fn write(folder: &Folder, servers: &[Server<'_>], clients: &[Client<'_>]) -> Result<(), Error> {
    let key = key_pair("ca")?;
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "local-control-plane");
    let certificate = params.self_signed(&key).map_err(failed("ca"))?;
    write_private(&folder.pki("ca.crt"), certificate.pem())?;
    write_private(&folder.pki("ca.key"), key.serialize_pem())?;
    let authority = Issuer::new(params, key);

    for (name, names) in servers {
        server(folder, &authority, name, names)?;
    }
    for (name, user, group) in clients {
        client(folder, &authority, name, user, *group)?;
    }
    let accounts = key_pair("service-accounts")?;
    write_private(&folder.pki("service-accounts.key"), accounts.serialize_pem())?;
    write_private(&folder.pki("service-accounts.pub"), accounts.public_key_pem())
}

fn server(folder: &Folder, authority: &Issuer<'_, KeyPair>, name: &str, names: &[&str]) -> Result<(), Error> {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).map_err(failed(name))?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    sign(folder, authority, name, &params)
}

fn client(
    folder: &Folder,
    authority: &Issuer<'_, KeyPair>,
    name: &str,
    user: &str,
    group: Option<&str>,
) -> Result<(), Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(folder, authority, name, &params)
}

fn sign(folder: &Folder, authority: &Issuer<'_, KeyPair>, name: &str, params: &CertificateParams) -> Result<(), Error> {
    let key = key_pair(name)?;
    // Python 3.13 and newer accept only certificates that name the key of their issuer (RFC 5280, section 4.2.1.1).
    let mut params = params.clone();
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, authority).map_err(failed(name))?;
    write_private(&folder.pki(&format!("{name}.crt")), certificate.pem())?;
    write_private(&folder.pki(&format!("{name}.key")), key.serialize_pem())
}

fn key_pair(name: &str) -> Result<KeyPair, Error> {
    KeyPair::generate().map_err(failed(name))
}

fn failed(name: &str) -> impl FnOnce(rcgen::Error) -> Error {
    let name = name.to_string();
    move |error| Error::Certificate { name, reason: error.to_string() }
}
