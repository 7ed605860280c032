//! Fuzz target for chart archives, which come from a repository on the network.
//!
//! An input that begins with the first byte of gzip is an archive. The target packs any other input into an archive:
//! each part of the input becomes an entry of the archive. The name of the part is the entry's tar type and path, such
//! as `0 chart/Chart.yaml`. If the path ends with `.tgz`, the entry is a packed dependency. The entries of the
//! dependency are the following parts, up to a part with the name `end`.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use osdpl_decide::ChartRequest;
use osdpl_operator::charts::pull::NoPull;
use osdpl_operator::charts::{Chart, Lock, Source, Store, keys};
use tar::{EntryType, Header};
use tokio::runtime::{Builder, Runtime};

use crate::{catalogue, records, sections};

/// The name and the version of the chart that the target requests from the chart store.
const NAME: &str = "chart";
const VERSION: &str = "1.0.0";

/// The maximum depth of packed dependencies in an input. osdpl's limit is lower, so an input can exceed it.
const DEPTH: usize = 6;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().build().expect("a thread starts"));

pub fn run(input: &[u8]) {
    let archive = if input.first() == Some(&0x1f) {
        input.to_vec()
    } else {
        pack(&mut sections::parse(input).into_iter(), DEPTH)
    };
    let folder = tempfile::tempdir().expect("a folder can be created");
    let charts = folder.path().join("charts");
    let file = charts.join(format!("{NAME}-{VERSION}.tgz"));
    std::fs::create_dir(&charts).and_then(|()| std::fs::write(file, archive)).expect("a file can be written");
    let store = Store::new(folder.path().join("cache"), Source::Folder(charts), Lock::default(), Arc::new(NoPull));
    if let Ok(chart) = RUNTIME.block_on(store.obtain(&ChartRequest::locked(NAME))) {
        use_chart(&chart);
    }
}

/// Reads what the operator and `osdpl charts lock` read from a chart.
fn use_chart(chart: &Chart) {
    let _ = (chart.crds().is_ok(), chart.fingerprint().is_ok());
    if let (Ok(values), Ok(reads)) = (chart.default_values(), chart.reads()) {
        let _ = keys::to_json(&values, &reads);
    }
}

/// Packs parts into an archive, up to a part with the name `end`. `depth` limits how deep dependencies are nested.
fn pack<'a>(parts: &mut impl Iterator<Item = (&'a [u8], &'a [u8])>, depth: usize) -> Vec<u8> {
    let mut tar = Vec::new();
    while let Some((name, content)) = parts.next() {
        if name == b"end" {
            break;
        }
        let kind = name.first().copied().unwrap_or(b'0');
        let path = name.get(2..).unwrap_or_default();
        if path.ends_with(b".tgz") && depth > 0 {
            append(&mut tar, kind, path, &pack(parts, depth - 1));
        } else {
            append(&mut tar, kind, path, content);
        }
    }
    tar.extend_from_slice(&[0; 1024]);
    records::gzip(&tar)
}

/// Appends an entry to the archive. Does not check the path, which may be invalid or malicious.
fn append(tar: &mut Vec<u8>, kind: u8, path: &[u8], content: &[u8]) {
    let mut header = Header::new_ustar();
    let length = path.len().min(100);
    header.as_mut_bytes()[..length].copy_from_slice(&path[..length]);
    header.set_entry_type(EntryType::new(kind));
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let packed = |entries: &[u8]| pack(&mut sections::parse(entries).into_iter(), DEPTH);
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts");
    let mut names: Vec<_> = std::fs::read_dir(&charts).expect("the stand-in charts exist").flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    let mut seeds = Vec::new();
    for folder in names.into_iter().filter(|entry| entry.path().is_dir()) {
        let mut parts = Vec::new();
        collect(&folder.path(), "0 chart", &mut parts);
        seeds.push(sections::write(parts));
    }
    seeds.push(packed(&seeds[0]));
    seeds.push(sections::write(nested()));
    // Add a chart whose default values stand for 64 MiB of text.
    let metadata = format!("apiVersion: v2\nname: {NAME}\nversion: {VERSION}\n");
    let values = format!("a: {}\n", catalogue::aliases_of_text(4000));
    seeds.push(sections::write([("0 chart/Chart.yaml", metadata), ("0 chart/values.yaml", values)]));
    seeds.extend([b"".to_vec(), packed(&sections::write(nested()))]);
    // Add small archives that unpack to more bytes than osdpl allows for a chart.
    let blank = vec![b' '; 5 << 20];
    seeds.push(packed(&sections::write((0..5).map(|number| (format!("0 chart/files/{number}"), &blank)))));
    seeds.push(packed(&sections::write((0..10_001).map(|number| (format!("0 chart/files/{number}"), b"")))));
    seeds
}

/// Returns archive entries: a chart with a packed dependency, a CRD, and a template that reads values in many ways.
fn nested() -> [(&'static str, &'static str); 9] {
    let template = "{{- $x := .Values.a.b | default dict }}{{ if hasKey .Values.c \"d\" }}{{ index .Values.pod $component }}{{ dig \"e\" \"f\" 1 .Values.g }}{{ end }}{{/* x */}}{{ include \"lib.x\" (tuple \"a\" .) }}";
    [
        ("5 chart/", ""),
        (
            "0 chart/Chart.yaml",
            "apiVersion: v2\nname: chart\nversion: 1.0.0\nappVersion: \"1\"\ndependencies:\n- {name: inner, version: 1.0.0, alias: x}\n",
        ),
        ("0 chart/values.yaml", "a: {b: 1.5, c: null}\npod: &p {replicas: 2, token: hunter2}\nx: *p\n"),
        ("0 chart/templates/a.yaml", template),
        (
            "0 chart/crds/a.yaml",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\n",
        ),
        ("0 chart/charts/inner.tgz", ""),
        ("0 inner/Chart.yaml", "apiVersion: v2\nname: inner\nversion: 1.0.0\n"),
        ("0 inner/values.yaml", "z: 1\n"),
        ("end", ""),
    ]
}

/// Adds a part for each file below a folder. `entry` is the type and path of the folder in the archive, such as
/// `0 chart`. Replaces the chart's Chart.yaml, so that the chart has the name and version that the target requests.
fn collect(folder: &Path, entry: &str, parts: &mut Vec<(String, Vec<u8>)>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).expect("the folder exists").flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for file in entries {
        let (path, name) = (file.path(), format!("{entry}/{}", file.file_name().display()));
        if path.is_dir() {
            collect(&path, &name, parts);
        } else if name == "0 chart/Chart.yaml" {
            parts.push((name, format!("apiVersion: v2\nname: {NAME}\nversion: {VERSION}\n").into_bytes()));
        } else {
            parts.push((name, std::fs::read(&path).expect("the file can be read")));
        }
    }
}
