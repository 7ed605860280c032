//! Masks the random parts in the manifests of two charts, so that `rendered.rs` can compare two manifests that helm
//! rendered with the same values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The beginnings of names with a random suffix. ceph-adapter-rook's templates append the suffix to the names of Roles
/// and `RoleBindings` in Rook's namespace, with `randAlphaNum 5 | lower`.
const DRAWN: [&str; 2] =
    ["name: ceph-adapter-rook-namespace-client-ceph-config-", "name: ceph-adapter-rook-namespace-client-key-"];

/// Masks the random output of a chart in its manifest. Returns an error if the test expects random output of this
/// chart, but the manifest has none.
pub(super) fn mask(chart: &str, manifest: &str) -> Result<String, String> {
    let masked = match chart {
        "ceph-adapter-rook" => manifest.lines().map(name).collect(),
        "nagios" => files(manifest),
        _ => return Ok(manifest.to_owned()),
    };
    let text = masked.join("\n");
    if text.contains(MASK) {
        return Ok(text);
    }
    Err(format!("{chart} no longer renders anything random; remove it from tests/deploy/upstream/random_output.rs"))
}

const MASK: &str = "<drawn>";

/// Returns the line, with the random suffix masked if the line has a name from [`DRAWN`].
fn name(line: &str) -> String {
    let masked = DRAWN.iter().find_map(|begin| {
        let (before, drawn) = line.split_once(begin)?;
        let is_drawn = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        (drawn.len() == 5 && drawn.chars().all(is_drawn)).then(|| format!("{before}{begin}{MASK}"))
    });
    masked.unwrap_or_else(|| line.to_owned())
}

/// Returns the lines of nagios' manifest in a stable order. Nagios' templates list the files of conf.nagios.objects in
/// nagios.cfg and in the pod's mounts, in the random order that the template function `keys` returns. This function
/// sorts only these two lists. It also masks the hash that depends on nagios.cfg.
fn files(manifest: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut mounts: Vec<String> = Vec::new();
    let mut rest = manifest.lines().peekable();
    while let Some(line) = rest.next() {
        let entry = line.trim();
        if entry == "- name: nagios-etc"
            && rest.peek().is_some_and(|next| next.trim().starts_with("mountPath: /opt/nagios/etc/"))
        {
            let mount: Vec<&str> = [line].into_iter().chain(rest.by_ref().take(3)).collect();
            mounts.push(mount.join("\n"));
            continue;
        }
        mounts.sort();
        lines.append(&mut mounts);
        lines.push(match entry.split_once(": ") {
            Some(("nagios.cfg", encoded)) => listed(encoded),
            Some(("configmap-etc-hash", _)) => format!("configmap-etc-hash: {MASK}"),
            _ => line.to_owned(),
        });
    }
    lines
}

/// Returns nagios.cfg with its list of files sorted.
fn listed(encoded: &str) -> String {
    let bytes = STANDARD.decode(encoded).unwrap();
    let mut lines: Vec<&str> = std::str::from_utf8(&bytes).unwrap().lines().collect();
    let is_file = |line: &&str| line.starts_with("cfg_file=");
    let first = lines.iter().position(&is_file).unwrap_or_default();
    let count = lines[first..].iter().take_while(|line| is_file(line)).count();
    lines[first..first + count].sort_unstable();
    lines.join("\n")
}

#[test]
fn masks_only_random_names() {
    let role = |end: &str, verb: &str| format!("kind: Role\nmetadata:\n  {}{end}\nverbs: [{verb}]", DRAWN[1]);
    let settle = |manifest: &str| mask("ceph-adapter-rook", manifest);
    assert_eq!(settle(&role("ek30r", "get")), settle(&role("kawmu", "get")));
    assert_ne!(settle(&role("ek30r", "get")), settle(&role("kawmu", "list")), "masking must not hide a changed verb");
    assert!(settle(&role("same", "get")).is_err_and(|error| error.contains("no longer renders anything random")));

    let pod = |files: [&str; 2], hash: &str, order: &str| {
        let config = STANDARD.encode(format!("a=1\ncfg_file={}\ncfg_file={}\nb={order}\n", files[0], files[1]));
        let mount = |file: &str| {
            format!("- name: nagios-etc\n  mountPath: /opt/nagios/etc/{file}\n  subPath: {file}\n  readOnly: true\n")
        };
        format!(
            "nagios.cfg: {config}\nconfigmap-etc-hash: {hash}\n{}{}- name: other\n",
            mount(files[0]),
            mount(files[1])
        )
    };
    let known = mask("nagios", &pod(["x", "y"], "1", "c"));
    assert_eq!(mask("nagios", &pod(["y", "x"], "2", "c")), known);
    assert_ne!(mask("nagios", &pod(["x", "z"], "1", "c")), known, "masking must not hide a different file");
    assert_ne!(mask("nagios", &pod(["x", "y"], "1", "d")), known, "masking must not hide a different setting");
    assert_eq!(mask("nova", "name: a").as_deref(), Ok("name: a"), "the manifests of other charts must not change");
}
