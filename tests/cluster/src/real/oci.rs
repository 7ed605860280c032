//! Writes images in the layout of the Open Container Initiative (OCI image specification 1.1), without their layers
//! (module `snapshot`).

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::recipe::Image;
use super::reference::Reference;
use super::script::PATH;

/// The files of a layer. A file that the layer removes is a mark of overlayfs.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// A digest that identifies the files. It need not be that of an archive, because no program reads an archive.
    pub digest: String,
    pub folder: PathBuf,
    /// Whether no program changes the files, so that nodes can use the files themselves and need no copies.
    pub are_final: bool,
}

/// An image to load: its name, its layers with the lowest one first, and its settings.
#[derive(Clone, Debug)]
pub(super) struct Loadable {
    pub reference: Reference,
    pub layers: Vec<Files>,
    pub settings: Value,
}

/// Returns the settings of an image. If a pod names no command, it runs the image's command with the pod's arguments.
pub(super) fn settings(image: &Image) -> Value {
    let command = if image.command.is_empty() { &["/bin/bash".to_owned()][..] } else { &image.command };
    let mut settings = json!({"Env": [format!("PATH={PATH}"), "LANG=C.UTF-8"], "Entrypoint": command});
    if let Some(user) = image.user {
        settings["User"] = user.to_string().into();
    }
    settings
}

/// Returns the settings of the operator's image, the same as those in `Dockerfile`.
pub(super) fn settings_of_operator() -> Value {
    json!({
        "User": "65532:65532",
        "Env": ["PATH=/usr/local/bin"],
        "Entrypoint": ["/usr/local/bin/osdpl"],
        "Cmd": ["operator"],
    })
}

/// Returns the files of a layer in the cache. `layer` is the folder of the layer, whose name identifies its content.
pub(super) fn cached(layer: &Path) -> Files {
    let name = layer.file_name().unwrap_or_default();
    Files { digest: digest(name.as_encoded_bytes()), folder: layer.join("diff"), are_final: true }
}

/// Returns the files of any folder. The digest depends only on the files' content, names and permissions.
pub(super) fn of_folder(folder: &Path) -> anyhow::Result<Files> {
    let mut command = Command::new("tar");
    command.args(["--create", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]);
    command.arg("--directory").arg(folder).arg(".");
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot run tar")?;
    let mut hash = Sha256::new();
    let mut pipe = child.stdout.take().context("tar has no output")?;
    let mut buffer = vec![0; 1 << 20];
    while let count @ 1.. = pipe.read(&mut buffer).context("cannot read the output of tar")? {
        hash.update(&buffer[..count]);
    }
    let status = child.wait().context("cannot wait for tar")?;
    ensure!(status.success(), "tar failed: {status}");
    Ok(Files { digest: digest_of(&hash.finalize()), folder: folder.into(), are_final: false })
}

/// Returns the name of the snapshot that contains a layer and all layers below it (the `ChainID` of the OCI image
/// specification). `below` is the name of the snapshot below.
pub(super) fn chain(below: Option<&str>, layer: &str) -> String {
    below.map_or_else(|| layer.to_owned(), |below| digest(format!("{below} {layer}").as_bytes()))
}

/// Returns the digest of a blob, such as `sha256:0123…`.
fn digest(blob: &[u8]) -> String {
    digest_of(&Sha256::digest(blob))
}

fn digest_of(hash: &[u8]) -> String {
    use std::fmt::Write;
    hash.iter().fold(String::from("sha256:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The configurations and manifests of images, as pairs of digest and text, and the entries of the index that names the
/// images.
#[derive(Debug, Default)]
struct Blobs {
    blobs: Vec<(String, String)>,
    manifests: Vec<Value>,
}

/// Returns the configuration and the manifest of each image, and the entries of the index.
fn describe(images: &[Loadable]) -> Blobs {
    let mut all = Blobs::default();
    for image in images {
        let digests: Vec<&str> = image.layers.iter().map(|layer| layer.digest.as_str()).collect();
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": image.settings,
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        let config = config.to_string();
        let layers: Vec<Value> = image.layers.iter().map(|layer| blob(LAYER, &layer.digest, 0)).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blob(CONFIG, &digest(config.as_bytes()), config.len() as u64),
            "layers": layers,
        });
        let manifest = manifest.to_string();
        let mut entry = blob(MANIFEST, &digest(manifest.as_bytes()), manifest.len() as u64);
        entry["platform"] = json!({"architecture": "amd64", "os": "linux"});
        // containerd names the image by the first annotation.
        entry["annotations"] = json!({
            "io.containerd.image.name": image.reference.to_string(),
            "org.opencontainers.image.ref.name": image.reference.tag,
        });
        all.manifests.push(entry);
        all.blobs.extend([config, manifest].map(|text| (digest(text.as_bytes()), text)));
    }
    all
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

fn blob(kind: &str, digest: &str, size: u64) -> Value {
    json!({"mediaType": kind, "digest": digest, "size": size})
}

/// Returns the digest of an image's manifest, which identifies all of its content.
pub(super) fn manifest_digest(image: &Loadable) -> String {
    let described = describe(std::slice::from_ref(image));
    described.manifests[0]["digest"].as_str().unwrap_or_default().to_owned()
}

/// Writes images as the archive of an OCI image layout, without the archives of the layers.
pub(super) fn write_archive(images: &[Loadable], to: impl Write) -> anyhow::Result<()> {
    let described = describe(images);
    let index = json!({"schemaVersion": 2, "manifests": described.manifests}).to_string();
    let mut archive = Archive(to);
    archive.add("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    archive.add("index.json", index.as_bytes())?;
    let mut written = BTreeSet::new();
    for (digest, text) in &described.blobs {
        if written.insert(digest.as_str()) {
            archive.add(&path(digest), text.as_bytes())?;
        }
    }
    archive.write(&[0; 1024])
}

fn path(digest: &str) -> String {
    format!("blobs/sha256/{}", digest.trim_start_matches("sha256:"))
}

/// A tar archive in the format ustar (POSIX.1-1988) with short names.
struct Archive<W>(W);

impl<W: Write> Archive<W> {
    /// Adds a file. Fills its last block with zeros.
    fn add(&mut self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        self.write(&header(name, content.len()))?;
        self.write(content)?;
        self.write(&[0; 512][..content.len().next_multiple_of(512) - content.len()])
    }

    fn write(&mut self, part: &[u8]) -> anyhow::Result<()> {
        self.0.write_all(part).context("cannot write the archive of images")
    }
}

/// Returns the header of a file in a tar archive.
fn header(name: &str, size: usize) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, "00000000000");
    // The checksum is the sum of all bytes of the header, computed while the field of the checksum contains spaces.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\u{0}00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::super::run::output;
    use super::*;

    fn image(name: &str) -> Loadable {
        let layers = ["debian-1", "base-2"].map(|layer| cached(Path::new(layer))).into();
        Loadable { reference: Reference::parse(name).unwrap(), layers, settings: settings(&Image::default()) }
    }

    #[test]
    fn index_refers_to_every_blob() {
        let folder = tempfile::tempdir().unwrap();
        let images = [image("quay.io/a/b:1"), image("quay.io/a/b:2")];
        let mut archive = Vec::new();
        write_archive(&images, &mut archive).unwrap();
        let at = folder.path().join("layout");
        std::fs::create_dir(&at).unwrap();
        std::fs::write(folder.path().join("layout.tar"), archive).unwrap();
        let mut tar = Command::new("tar");
        output(tar.arg("--extract").arg("-C").arg(&at).arg("-f").arg(folder.path().join("layout.tar")), "").unwrap();
        let read = |digest: &Value| {
            let bytes = std::fs::read(at.join(path(digest.as_str().unwrap()))).unwrap();
            assert_eq!(super::digest(&bytes), digest.as_str().unwrap());
            bytes
        };
        let index: Value = serde_json::from_slice(&std::fs::read(at.join("index.json")).unwrap()).unwrap();
        let entries = index["manifests"].as_array().unwrap();
        let names: Vec<_> =
            entries.iter().map(|entry| entry["annotations"]["io.containerd.image.name"].clone()).collect();
        assert_eq!(names, ["quay.io/a/b:1", "quay.io/a/b:2"]);
        for entry in entries {
            let manifest: Value = serde_json::from_slice(&read(&entry["digest"])).unwrap();
            let config: Value = serde_json::from_slice(&read(&manifest["config"]["digest"])).unwrap();
            let layers: Vec<Value> = images[0].layers.iter().map(|layer| layer.digest.clone().into()).collect();
            assert_eq!(config["rootfs"]["diff_ids"], Value::from(layers));
        }
        assert_eq!(manifest_digest(&images[0]), entries[0]["digest"].as_str().unwrap());
    }

    #[test]
    fn name_of_a_snapshot_depends_on_all_layers() {
        let [a, b] = ["a", "b"].map(|letter| digest(letter.as_bytes()));
        assert_eq!(chain(None, &a), a);
        assert_eq!(chain(Some(&a), &b), digest(format!("{a} {b}").as_bytes()));
        assert_ne!(chain(Some(&a), &b), chain(Some(&b), &a));
    }

    #[test]
    fn digest_of_a_folder_depends_on_content_only() {
        let folders = ["1", "1", "2"].map(|content| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("file"), content).unwrap();
            of_folder(folder.path()).unwrap().digest
        });
        assert_eq!(folders[0], folders[1]);
        assert_ne!(folders[0], folders[2]);
    }
}
