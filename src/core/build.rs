//! Build script: writes the catalogue's files as a Rust table, each with its text and, as JSON, its parsed content.
//!
//! JSON is parsed several times as fast as YAML, and parsing takes most of the time to load the catalogue.

#[path = "../values/yaml/read.rs"]
mod read;

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The folders of the catalogue.
const FOLDERS: [&str; 2] = ["values", "presets"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let output = PathBuf::from(env::var("OUT_DIR")?);
    let mut list = String::from("&[\n");
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
            let _ = writeln!(list, "    ({name:?}, {text:?}, {json:?}),");
        }
    }
    list += "]\n";
    Ok(fs::write(output.join("catalogue.rs"), list)?)
}

/// Returns the files below a folder, sorted, as paths relative to the root.
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

/// Converts YAML to JSON. JSON files are kept as they are.
fn json(name: &str, text: &str) -> Result<String, Box<dyn Error>> {
    if Path::new(name).extension().is_some_and(|extension| extension == "json") {
        return Ok(text.to_owned());
    }
    let value: serde_json::Value = read::parse(name, text)?;
    Ok(value.to_string())
}
