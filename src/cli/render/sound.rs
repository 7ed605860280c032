//! What the API server would refuse of a file. It may be anything, and here it becomes part of a script that people run.

use std::path::Path;

use anyhow::bail;
use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::cli::common::read;
use crate::desired::Finding;
use crate::rule::{Content, Kind, Schemas, is_ours, split};

/// Tells what the API server would refuse of the file's resource, and goes no further where there is anything.
pub fn judge(file: &Path, catalog: &Catalog) -> anyhow::Result<()> {
    let schemas = Schemas::new(catalog)?;
    let mut errors = 0;
    for document in split(&file.display().to_string(), &read(file)?) {
        let Content::Object(mut read) = document.content else { continue };
        let Some(object) = resource(&mut read.value) else { continue };
        for judged in schemas.judge(Kind::OpenStackDeployment, object) {
            eprintln!("{}: {}", judged.level.word(), Finding::from(judged));
            errors += 1;
        }
    }
    if errors > 0 {
        bail!("the resource is refused: {errors} error(s), each said above");
    }
    Ok(())
}

/// The object, where it is a cloud; with the name that it is given where it says none.
fn resource(object: &mut Value) -> Option<&Value> {
    if !is_ours(object) {
        return None;
    }
    let metadata = object.as_object_mut()?.entry("metadata").or_insert_with(|| Map::new().into());
    if let Some(metadata) = metadata.as_object_mut().filter(|metadata| metadata.get("name").is_none_or(Value::is_null))
    {
        metadata.insert("name".into(), "cloud".into());
    }
    Some(object)
}
