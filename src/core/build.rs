//! Cargo's build script. It generates a Rust table with all files of the catalogue, and the crate compiles the table
//! into the program.
//!
//! Each row of the table has a file's path and its text. For a YAML file, the row also has the content as JSON. Text
//! and JSON are compressed. At runtime, osdpl loads the catalogue from the JSON, because it parses JSON several times
//! as fast as YAML. The program stores the texts that the operator rarely reads in a separate block of bytes. So the
//! operating system need not keep this block in memory.

#[path = "../values/yaml/read.rs"]
mod read;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The folders of the repository that contain the catalogue.
const FOLDERS: [&str; 2] = ["values", "presets"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let output = PathBuf::from(env::var("OUT_DIR")?);
    let (mut list, mut often, mut rarely) = (String::from("&[\n"), Vec::new(), Vec::new());
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        for name in files(&root, folder)? {
            let text = fs::read_to_string(root.join(&name))?;
            let json = match json(&name, &text) {
                Ok(json) => json,
                Err(error) => {
                    println!("cargo::error={error}");
                    continue;
                }
            };
            let is_rare = json.is_some() || name.starts_with("values/options/");
            let text = if is_rare { add("RARELY", &mut rarely, &text)? } else { add("OFTEN", &mut often, &text)? };
            let json = match json {
                Some(json) => format!("Some({})", add("OFTEN", &mut often, &json)?),
                None => "None".to_owned(),
            };
            let _ = writeln!(list, "    ({name:?}, {text}, {json}),");
        }
    }
    list += "]\n";
    fs::write(output.join("often.deflate"), often)?;
    fs::write(output.join("rarely.deflate"), rarely)?;
    Ok(fs::write(output.join("catalogue.rs"), list)?)
}

/// Compresses `text`, and appends the result to `bytes`, the future content of the static variable `name`. Returns the
/// Rust expression for the appended bytes.
fn add(name: &str, bytes: &mut Vec<u8>, text: &str) -> std::io::Result<String> {
    let (start, text) = (bytes.len(), deflate(text)?);
    bytes.extend(&text);
    Ok(format!("part({name}, {start}, {})", text.len()))
}

/// Returns the paths of all files below a folder, sorted and relative to `root`, the root of the repository.
fn files(root: &Path, below: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(below))? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("{below}/{name}");
        if path.is_dir() {
            found.extend(files(root, &name)?);
        } else {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the content of a catalogue file as JSON; `None` if the file is already JSON.
fn json(name: &str, text: &str) -> Result<Option<String>, Box<dyn Error>> {
    if Path::new(name).extension().is_some_and(|extension| extension == "json") {
        return Ok(None);
    }
    let value: serde_json::Value = read::parse(name, text)?;
    Ok(Some(value.to_string()))
}

/// Compresses the text of a catalogue file with DEFLATE (RFC 1951).
fn deflate(text: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}
