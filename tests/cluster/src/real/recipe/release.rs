//! The layers that exist once for each OpenStack release.

use std::collections::{BTreeMap, BTreeSet};

use super::Layer;

/// The text in the name of a requirements file or an image that stands for an OpenStack release.
pub(super) const PLACEHOLDER: &str = "{release}";

/// Returns the name of a layer for an OpenStack release.
pub(super) fn layer(recipe: &str, release: &str) -> String {
    format!("{recipe}-{release}")
}

/// Replaces each layer that depends on the OpenStack release by one layer per release.
pub(super) fn expand(recipes: BTreeMap<String, Layer>, releases: &[String]) -> BTreeMap<String, Layer> {
    let dependent = dependent(&recipes);
    let mut layers = BTreeMap::new();
    for (name, mut recipe) in recipes {
        recipe.recipe.clone_from(&name);
        if dependent.contains(&name) {
            let all = releases.iter().map(|release| (layer(&name, release), of_release(&recipe, release, &dependent)));
            layers.extend(all);
        } else {
            layers.insert(name, recipe);
        }
    }
    layers
}

/// Returns the names of the layers that depend on the OpenStack release: their requirements file has the placeholder in
/// its name, or they need such a layer.
fn dependent(recipes: &BTreeMap<String, Layer>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    loop {
        let depends = |recipe: &Layer| {
            let file = recipe.python.as_ref().is_some_and(|file| file.contains(PLACEHOLDER));
            file || recipe.needs().any(|name| found.contains(name))
        };
        let now: BTreeSet<String> =
            recipes.iter().filter(|(_, recipe)| depends(recipe)).map(|(name, _)| name.clone()).collect();
        if now.len() == found.len() {
            return found;
        }
        found = now;
    }
}

fn of_release(recipe: &Layer, release: &str, dependent: &BTreeSet<String>) -> Layer {
    let mut result = recipe.clone();
    result.python = recipe.python.as_ref().map(|file| file.replace(PLACEHOLDER, release));
    for name in result.needs_mut().filter(|name| dependent.contains(*name)) {
        *name = layer(name, release);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPES: &str = "
base: {debian: trixie}
venv: {from: base, python: 'openstack-{release}.txt', venv: /venv}
openstack: {from: base, copy: {layer: venv, path: /venv}}
nova: {from: openstack}
mariadb: {from: base, python: mariadb.txt, venv: system}
";

    fn layers() -> BTreeMap<String, Layer> {
        expand(serde_saphyr::from_str(RECIPES).unwrap(), &["2025.2".into(), "2026.1".into()])
    }

    #[test]
    fn layers_above_a_layer_of_a_release_exist_once_per_release() {
        let expected = [
            "base",
            "mariadb",
            "nova-2025.2",
            "nova-2026.1",
            "openstack-2025.2",
            "openstack-2026.1",
            "venv-2025.2",
            "venv-2026.1",
        ];
        assert_eq!(layers().into_keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn layers_of_a_release_refer_to_each_other() {
        let layers = layers();
        assert_eq!(layers["venv-2025.2"].python.as_deref(), Some("openstack-2025.2.txt"));
        assert_eq!(layers["openstack-2025.2"].needs().collect::<Vec<_>>(), ["base", "venv-2025.2"]);
        assert_eq!(layers["nova-2026.1"].from.as_deref(), Some("openstack-2026.1"));
        assert_eq!(layers["nova-2026.1"].recipe, "nova");
    }
}
