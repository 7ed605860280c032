//! Certificates with every fault that one can have, each told with its place and what to do.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};

use super::*;
use osdpl_core::catalog::CertificateKeys;

const HOST: &str = "keystone-api.openstack.svc.cluster.local";

/// An authority of this name.
fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2040, 1, 1));
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// What is asked for, for these years.
fn wanted(years: (i32, i32)) -> CertificateParams {
    let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
    params
}

/// The Secret of a certificate that was signed so.
fn secret(params: &CertificateParams, by: &CertifiedIssuer<'static, KeyPair>) -> Held {
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
        brought: true,
    }
}

fn said(held: &Held) -> Vec<String> {
    examine(&certificate(), held).problems("2026-11-22T00:00:00Z".parse().unwrap())
}

/// The same with another text under a key; without the key where there is none.
fn with(held: &Held, key: &str, text: Option<&str>) -> Held {
    let mut held = held.clone();
    held.remove(key);
    held.extend(text.map(|text| (key.to_owned(), text.to_owned())));
    held
}

#[test]
fn a_sound_certificate_is_taken_without_a_word() {
    let root = authority("root");
    assert_eq!(said(&secret(&wanted((2026, 2030)), &root)), Vec::<String>::new());
    // By one between, which is shown with it.
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "between");
    let between = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
    let held = secret(&wanted((2026, 2030)), &between);
    let chain = format!("{}{}", held["tls.crt"], between.pem());
    let held = with(&with(&held, "ca.crt", Some(&root.pem())), "tls.crt", Some(&chain));
    assert_eq!(said(&held), Vec::<String>::new());
    // By itself, which who trusts it takes; by one of several authorities, of which another is spent.
    let key = KeyPair::generate().unwrap();
    let own = wanted((2026, 2030)).self_signed(&key).unwrap().pem();
    let held = with(&with(&held, "ca.crt", Some(&own)), "tls.crt", Some(&own));
    assert_eq!(said(&with(&held, "tls.key", Some(&key.serialize_pem()))), Vec::<String>::new());
    let held = secret(&wanted((2026, 2030)), &root);
    let both = format!("{}{}", secret(&wanted((2020, 2021)), &root)["tls.crt"], root.pem());
    assert_eq!(said(&with(&held, "ca.crt", Some(&both))), Vec::<String>::new());
}

#[test]
fn each_fault_is_told_alone_and_never_a_word_of_the_key() {
    let (root, other) = (authority("root"), authority("other"));
    let sound = secret(&wanted((2026, 2030)), &root);
    let namesake = authority("root").pem();
    let mut elsewhere = wanted((2026, 2030));
    elsewhere.subject_alt_names = CertificateParams::new(vec!["glance-api".to_owned()]).unwrap().subject_alt_names;
    let mut of_clients = wanted((2026, 2030));
    of_clients.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let strange = KeyPair::generate().unwrap().serialize_pem();
    let cases = [
        (with(&sound, "tls.crt", None), "there is no tls.crt in it; add it"),
        (with(&sound, "tls.key", None), "there is no tls.key in it; add it"),
        (with(&sound, "ca.crt", None), "there is no ca.crt in it; add it"),
        (with(&sound, "tls.crt", Some("nonsense")), "tls.crt holds no PEM certificate"),
        (with(&sound, "tls.key", Some("nonsense")), "tls.key holds no PEM key that TLS can use"),
        (with(&sound, "ca.crt", Some("nonsense")), "ca.crt holds no PEM certificate"),
        (with(&sound, "tls.key", Some(&strange)), "tls.crt and tls.key do not belong together"),
        (secret(&elsewhere, &root), "tls.crt does not speak for keystone-api.openstack.svc.cluster.local"),
        (with(&sound, "ca.crt", Some(&other.pem())), "no authority in ca.crt has signed tls.crt"),
        (with(&sound, "ca.crt", Some(&namesake)), "no authority in ca.crt has signed tls.crt"),
        (secret(&of_clients, &root), "tls.crt is not for servers, by its extended key usage"),
        (secret(&wanted((2020, 2025)), &root), "tls.crt ran out at 2025-01-01T00:00:00Z"),
        (secret(&wanted((2030, 2035)), &root), "tls.crt counts from 2030-01-01T00:00:00Z on"),
    ];
    for (held, expected) in cases {
        let found = said(&held);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}: {found:?}");
        assert!(!found[0].contains("PRIVATE"), "{found:?}");
    }
}

/// The Secret of a certificate with these names.
fn named(names: &[&str], by: &CertifiedIssuer<'static, KeyPair>) -> Held {
    let mut params = wanted((2026, 2030));
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    params.subject_alt_names = CertificateParams::new(names).unwrap().subject_alt_names;
    secret(&params, by)
}

#[test]
fn all_names_below_another_are_spoken_for_by_a_wildcard_and_all_that_are_missing_are_told_at_once() {
    let root = authority("root");
    let hosts =
        |hosts: &[&str]| Certificate { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..certificate() };
    let said = |names: &[&str], asked: &[&str]| {
        examine(&hosts(asked), &named(names, &root)).problems("2026-11-22T00:00:00Z".parse().unwrap())
    };
    assert_eq!(said(&["*.cloud.example.org"], &["*.cloud.example.org"]), Vec::<String>::new());
    assert_eq!(
        said(&["keystone.example.org"], &["*.cloud.example.org", "a.example.org"]),
        [
            "tls.crt does not speak for *.cloud.example.org, a.example.org: clients refuse it; make one with those names among its subjectAltNames"
        ]
    );
}

#[test]
fn a_key_that_others_can_compute_with_is_taken() {
    // What says of itself that it is on P-521 (DER: a sequence of the curve's identifier), and what says nothing.
    let key = |text: &str| format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let sound = secret(&wanted((2026, 2030)), &authority("root"));
    assert_eq!(said(&with(&sound, "tls.key", Some(&key("MAcGBSuBBAAj")))), Vec::<String>::new());
    let found = said(&with(&sound, "tls.key", Some(&key("MAA="))));
    assert!(found.len() == 1 && found[0].starts_with("tls.key holds no PEM key that TLS can use"), "{found:?}");
}

#[test]
fn of_several_certificates_only_those_that_lead_to_the_authority_have_to_count() {
    let root = authority("root");
    let held = secret(&wanted((2026, 2030)), &root);
    let spent = secret(&wanted((2020, 2021)), &root);
    let with_spent = format!("{}{}", held["tls.crt"], spent["tls.crt"]);
    assert_eq!(said(&with(&held, "tls.crt", Some(&with_spent))), Vec::<String>::new());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "between");
    (params.not_before, params.not_after) = (date_time_ymd(2025, 1, 1), date_time_ymd(2026, 6, 1));
    let between = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
    let held = with(&secret(&wanted((2026, 2030)), &between), "ca.crt", Some(&root.pem()));
    let chain = format!("{}{}", held["tls.crt"], between.pem());
    let found = said(&with(&held, "tls.crt", Some(&chain)));
    assert!(found.len() == 1 && found[0].starts_with("tls.crt ran out at 2026-06-01T00:00:00Z"), "{found:?}");
}

#[test]
fn what_does_not_count_yet_is_told_in_the_same_words_until_it_does() {
    let held = secret(&wanted((2030, 2035)), &authority("root"));
    let examined = examine(&certificate(), &held);
    let said = |time: &str| examined.problems(time.parse().unwrap());
    let told = said("2026-11-22T00:00:00Z");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(said("2026-11-22T00:00:00.000000001Z"), told);
    assert_eq!(said("2030-01-01T00:00:00Z"), [""; 0]);
}

#[test]
fn an_authority_that_has_run_out_is_told_as_such() {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2026, 6, 1));
    let spent = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let found = said(&secret(&wanted((2026, 2030)), &spent));
    assert!(found.len() == 1 && found[0].starts_with("ca.crt ran out at 2026-06-01T00:00:00Z"), "{found:?}");
}

#[test]
fn the_time_of_the_next_look_is_when_something_changes() {
    let examined = examine(&certificate(), &secret(&wanted((2027, 2028)), &authority("root")));
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let next = |now| examined.next(time(now));
    assert_eq!(next("2026-11-22T00:00:00Z"), Some(time("2027-01-01T00:00:00Z")));
    assert_eq!(next("2027-01-01T00:00:00Z"), Some(time("2028-01-01T00:00:01Z")));
    assert_eq!(examined.problems(time("2027-01-01T00:00:00Z")), Vec::<String>::new());
    assert_eq!(examined.problems(time("2028-01-01T00:00:01Z")).len(), 1);
    assert_eq!(next("2040-01-01T00:00:01Z"), None);
}

#[test]
fn what_is_not_looked_at_is_not_missed() {
    let keys = CertificateKeys { authority: Some("ca.crt".into()), ..CertificateKeys::default() };
    let only = Certificate { hosts: Vec::new(), keys, ..certificate() };
    let held = Held::from([("ca.crt".to_owned(), authority("root").pem())]);
    assert_eq!(examine(&only, &held).problems("2026-11-22T00:00:00Z".parse().unwrap()), Vec::<String>::new());
}
