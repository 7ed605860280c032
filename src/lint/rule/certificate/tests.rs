//! Tests each problem that a certificate can have.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};

use super::*;
use osdpl_core::catalog::CertificateKeys;

const HOST: &str = "keystone-api.openstack.svc.cluster.local";

/// Returns a new CA with this name.
fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2040, 1, 1));
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns the parameters of a certificate that is valid from the first to the second of the given years.
fn params_for(years: (i32, i32)) -> CertificateParams {
    let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    params
}

/// Returns the Secret of a new certificate with these parameters, signed by the CA `by`.
fn secret(params: &CertificateParams, by: &CertifiedIssuer<'static, KeyPair>) -> SecretTexts {
    let key = KeyPair::generate().unwrap();
    let signed = params.signed_by(&key, by).unwrap();
    let texts = [("tls.crt", signed.pem()), ("tls.key", key.serialize_pem()), ("ca.crt", by.pem())];
    texts.into_iter().map(|(key, text)| (key.to_owned(), text)).collect()
}

fn certificate() -> Certificate {
    let key = |name: &str| Some(name.to_owned());
    Certificate {
        field: "spec.features.tls.internal.given".into(),
        namespace: "openstack".into(),
        name: "keystone-api-tls".into(),
        hosts: vec![HOST.to_owned()],
        keys: CertificateKeys { certificate: key("tls.crt"), key: key("tls.key"), authority: key("ca.crt") },
        user_provided: true,
    }
}

fn problems(texts: &SecretTexts) -> Vec<String> {
    check_certificate(&certificate(), texts).problems("2026-11-22T00:00:00Z".parse().unwrap())
}

/// Returns a copy of the Secret in which `text` replaces the value of `key`; without `key` if `text` is `None`.
fn with(texts: &SecretTexts, key: &str, text: Option<&str>) -> SecretTexts {
    let mut texts = texts.clone();
    texts.remove(key);
    texts.extend(text.map(|text| (key.to_owned(), text.to_owned())));
    texts
}

#[test]
fn accepts_valid_certificates() {
    let root = authority("root");
    assert_eq!(problems(&secret(&params_for((2026, 2030)), &root)), Vec::<String>::new());
    // `tls.crt` may also contain the certificate of an intermediate CA, which has signed the server's certificate.
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "between");
    let intermediate = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
    let texts = secret(&params_for((2026, 2030)), &intermediate);
    let chain = format!("{}{}", texts["tls.crt"], intermediate.pem());
    let texts = with(&with(&texts, "ca.crt", Some(&root.pem())), "tls.crt", Some(&chain));
    assert_eq!(problems(&texts), Vec::<String>::new());
    // The certificate in `ca.crt` can also be the server's self-signed certificate itself.
    let key = KeyPair::generate().unwrap();
    let own = params_for((2026, 2030)).self_signed(&key).unwrap().pem();
    let texts = with(&with(&texts, "ca.crt", Some(&own)), "tls.crt", Some(&own));
    assert_eq!(problems(&with(&texts, "tls.key", Some(&key.serialize_pem()))), Vec::<String>::new());
    let texts = secret(&params_for((2026, 2030)), &root);
    // It is enough that one of the two certificates in `ca.crt` has not expired.
    let both = format!("{}{}", secret(&params_for((2020, 2021)), &root)["tls.crt"], root.pem());
    assert_eq!(problems(&with(&texts, "ca.crt", Some(&both))), Vec::<String>::new());
}

#[test]
fn reports_each_problem_without_the_private_key() {
    let (root, other) = (authority("root"), authority("other"));
    let valid = secret(&params_for((2026, 2030)), &root);
    let namesake = authority("root").pem();
    let mut of_other_host = params_for((2026, 2030));
    of_other_host.subject_alt_names = CertificateParams::new(vec!["glance-api".to_owned()]).unwrap().subject_alt_names;
    let mut of_clients = params_for((2026, 2030));
    of_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let other_key = KeyPair::generate().unwrap().serialize_pem();
    let cut_off = format!("{}-----BEGIN CERTIFICATE-----\nMIIB\n", root.pem());
    let cases = [
        (with(&valid, "tls.crt", None), "the entry tls.crt is missing; add it"),
        (with(&valid, "tls.key", None), "the entry tls.key is missing; add it"),
        (with(&valid, "ca.crt", None), "the entry ca.crt is missing; add it"),
        (with(&valid, "tls.crt", Some("nonsense")), "tls.crt contains no PEM certificate"),
        (with(&valid, "tls.key", Some("nonsense")), "tls.key contains no PEM key that TLS can use"),
        (with(&valid, "ca.crt", Some("nonsense")), "ca.crt contains no PEM certificate"),
        (with(&valid, "ca.crt", Some(&cut_off)), "ca.crt contains a PEM block that is damaged or cut off"),
        (with(&valid, "tls.key", Some(&other_key)), "tls.crt and tls.key do not match"),
        (secret(&of_other_host, &root), "tls.crt is not valid for keystone-api.openstack.svc.cluster.local"),
        (with(&valid, "ca.crt", Some(&other.pem())), "no CA in ca.crt has signed tls.crt"),
        (with(&valid, "ca.crt", Some(&namesake)), "no CA in ca.crt has signed tls.crt"),
        (
            secret(&of_clients, &root),
            "tls.crt can't be used by servers, because its extended key usage lacks serverAuth",
        ),
        (secret(&params_for((2020, 2025)), &root), "tls.crt expired at 2025-01-01T00:00:00Z"),
        (secret(&params_for((2030, 2035)), &root), "tls.crt is not valid before 2030-01-01T00:00:00Z"),
    ];
    for (texts, expected) in cases {
        let found = problems(&texts);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
        assert!(!found[0].contains("PRIVATE"), "{found:?}");
    }
}

/// Returns the Secret of a certificate that is valid for these host names, signed by the CA `by`.
fn secret_for_names(names: &[&str], by: &CertifiedIssuer<'static, KeyPair>) -> SecretTexts {
    let mut params = params_for((2026, 2030));
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    params.subject_alt_names = CertificateParams::new(names).unwrap().subject_alt_names;
    secret(&params, by)
}

#[test]
fn matches_wildcards_and_reports_all_missing_names() {
    let root = authority("root");
    let hosts =
        |hosts: &[&str]| Certificate { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..certificate() };
    let problems = |names: &[&str], expected: &[&str]| {
        check_certificate(&hosts(expected), &secret_for_names(names, &root))
            .problems("2026-11-22T00:00:00Z".parse().unwrap())
    };
    assert_eq!(problems(&["*.cloud.example.org"], &["*.cloud.example.org"]), Vec::<String>::new());
    assert_eq!(
        problems(&["keystone.example.org"], &["*.cloud.example.org", "a.example.org"]),
        [
            "tls.crt is not valid for *.cloud.example.org, a.example.org: clients refuse it; issue a certificate with those names among its subjectAltNames"
        ]
    );
}

#[test]
fn accepts_keys_on_unsupported_curves() {
    // The first private key is a DER sequence that contains only the identifier of the curve P-521. osdpl accepts every
    // key on this curve without reading the key. The second key is an empty sequence, which osdpl reports.
    let key = |text: &str| format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let valid = secret(&params_for((2026, 2030)), &authority("root"));
    assert_eq!(problems(&with(&valid, "tls.key", Some(&key("MAcGBSuBBAAj")))), Vec::<String>::new());
    let found = problems(&with(&valid, "tls.key", Some(&key("MAA="))));
    assert!(found.len() == 1 && found[0].starts_with("tls.key contains no PEM key that TLS can use"), "{found:?}");
}

#[test]
fn only_needed_intermediates_must_be_valid() {
    let root = authority("root");
    let texts = secret(&params_for((2026, 2030)), &root);
    let expired = secret(&params_for((2020, 2021)), &root);
    let with_expired = format!("{}{}", texts["tls.crt"], expired["tls.crt"]);
    assert_eq!(problems(&with(&texts, "tls.crt", Some(&with_expired))), Vec::<String>::new());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "between");
    (params.not_before, params.not_after) = (date_time_ymd(2025, 1, 1), date_time_ymd(2026, 6, 1));
    let intermediate = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
    let texts = with(&secret(&params_for((2026, 2030)), &intermediate), "ca.crt", Some(&root.pem()));
    let chain = format!("{}{}", texts["tls.crt"], intermediate.pem());
    let found = problems(&with(&texts, "tls.crt", Some(&chain)));
    assert!(found.len() == 1 && found[0].starts_with("tls.crt expired at 2026-06-01T00:00:00Z"), "{found:?}");
}

#[test]
fn message_does_not_change_until_a_certificate_is_valid() {
    let texts = secret(&params_for((2030, 2035)), &authority("root"));
    let check = check_certificate(&certificate(), &texts);
    let problems = |time: &str| check.problems(time.parse().unwrap());
    let early = problems("2026-11-22T00:00:00Z");
    assert_eq!(early.len(), 1, "{early:?}");
    assert_eq!(problems("2026-11-22T00:00:00.000000001Z"), early);
    assert_eq!(problems("2030-01-01T00:00:00Z"), [""; 0]);
}

#[test]
fn reports_an_expired_ca() {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2026, 6, 1));
    let expired = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let found = problems(&secret(&params_for((2026, 2030)), &expired));
    assert!(found.len() == 1 && found[0].starts_with("ca.crt expired at 2026-06-01T00:00:00Z"), "{found:?}");
}

#[test]
fn next_check_is_when_the_result_changes() {
    let check = check_certificate(&certificate(), &secret(&params_for((2027, 2028)), &authority("root")));
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let next = |now| check.next_change(time(now));
    assert_eq!(next("2026-11-22T00:00:00Z"), Some(time("2027-01-01T00:00:00Z")));
    assert_eq!(next("2027-01-01T00:00:00Z"), Some(time("2028-01-01T00:00:01Z")));
    assert_eq!(check.problems(time("2027-01-01T00:00:00Z")), Vec::<String>::new());
    assert_eq!(check.problems(time("2028-01-01T00:00:01Z")).len(), 1);
    assert_eq!(next("2040-01-01T00:00:01Z"), None);
}

#[test]
fn ignores_keys_that_are_not_used() {
    let keys = CertificateKeys { authority: Some("ca.crt".into()), ..CertificateKeys::default() };
    let only = Certificate { hosts: Vec::new(), keys, ..certificate() };
    let texts = SecretTexts::from([("ca.crt".to_owned(), authority("root").pem())]);
    assert_eq!(
        check_certificate(&only, &texts).problems("2026-11-22T00:00:00Z".parse().unwrap()),
        Vec::<String>::new()
    );
}
