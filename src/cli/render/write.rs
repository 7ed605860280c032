//! Writes the files of `osdpl render --out`: the values of releases, their manifests if the user requested them, and
//! install.sh.

use anyhow::Context as _;

use super::folder::Folder;
use super::{Arguments, Cloud, chart, script};
use crate::manifests::{ReleaseToRender, Renderer, scrubber};
use crate::output;
use osdpl_core::desired::DesiredRelease;
use osdpl_core::difference;
use osdpl_values::yaml;

impl Arguments {
    /// Writes the values, the manifests and install.sh to `folder`. Prepares the charts and renders the manifests
    /// first: if one of these steps fails, the function has written no values with secrets.
    pub(super) async fn write(
        &self,
        folder: &Folder,
        cloud: &Cloud,
        selected: &[(&str, &DesiredRelease)],
        renderer: Option<&Renderer>,
    ) -> anyhow::Result<()> {
        let charts = chart::Charts::new(&self.chart_options, cloud).await?;
        let depths = cloud.desired.depths();
        let mut script = script::Script::new(cloud, self.secrets(), renderer.is_some());
        let mut prepared = Vec::new();
        for (name, release) in selected {
            let text = match renderer {
                Some(renderer) => Some(manifest(renderer, cloud, name, release).await?),
                None => None,
            };
            prepared.push((charts.of(name, folder).await?, text));
        }
        let names: Vec<&str> = selected.iter().map(|(name, _)| *name).collect();
        let removed = script::clear(folder, &names, renderer.is_some())?;
        for ((name, release), (chart, manifest)) in selected.iter().zip(&prepared) {
            let values = format!("{name}.yaml");
            folder.write(&values, yaml::write(&self.printed_values(cloud, name, release)).as_bytes(), false)?;
            if let Some(text) = manifest {
                folder.write(&script::manifest(name), text.as_bytes(), false)?;
            }
            script.add(name, release, depths[name], &values, chart);
        }
        folder.write(script::NAME, script.text().as_bytes(), true)?;
        let real =
            if self.credentials { ", with the real credentials; remove the folder when you are done" } else { "" };
        let count = if selected.len() == 1 { "1 release".to_owned() } else { format!("{} releases", selected.len()) };
        output::line(format_args!("osdpl wrote the values of {count} and {} to {folder}{real}", script::NAME));
        if !removed.is_empty() {
            output::line(format_args!(
                "osdpl removed the files that an earlier run wrote to {folder} for these releases: {}",
                removed.join(", ")
            ));
        }
        Ok(())
    }
}

/// Returns the rendered manifest of a release, with the objects in helm's order. The manifest contains the keys of
/// Secrets, but not their values.
pub(super) async fn manifest(
    renderer: &Renderer,
    cloud: &Cloud,
    name: &str,
    release: &DesiredRelease,
) -> anyhow::Result<String> {
    let scrubber = scrubber(release, &cloud.secrets, None);
    let target =
        ReleaseToRender { spec: &cloud.spec, catalog: &cloud.catalog, name, desired: release, is_upgrade: false };
    let objects = renderer.objects(target, &scrubber).await.with_context(|| format!("release {name}"))?;
    let texts = objects.iter().map(|object| yaml::write(&difference::shown(object, &scrubber)));
    Ok(texts.collect::<Vec<_>>().join("---\n"))
}
