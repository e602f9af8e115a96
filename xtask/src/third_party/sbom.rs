//! Bills of materials in CycloneDX 1.5.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::lock::{self, Locked};
use super::packages::Package;
use crate::failure::{Failure, Outcome};

const OWN_LICENCE: &str = "MIT OR Apache-2.0";

/// Writes the document of `product`: its packages with licences and checksums, and which needs which. The same lock
/// file gives the same document.
pub(super) fn document(product: &str, packages: &[Package], locked: &[Locked]) -> Outcome<String> {
    let root = locked
        .iter()
        .find(|package| package.name == product && package.checksum.is_none())
        .ok_or_else(|| Failure::new(format!("Cargo.lock does not have {product}")))?;
    let own = own(locked, root);
    let components = own.iter().skip(1).map(|package| own_component(package));
    let components: Vec<_> =
        components.chain(packages.iter().map(|package| component(package, locked))).collect();
    let held = packages.iter().map(|package| purl(&package.name, &package.version));
    let held: BTreeSet<_> =
        held.chain(own.iter().map(|package| purl(&package.name, &package.version))).collect();
    let dependencies = locked.iter().filter_map(|package| {
        let reference = purl(&package.name, &package.version);
        let needs: BTreeSet<_> = package
            .dependencies
            .iter()
            .filter_map(|dependency| lock::find(locked, dependency))
            .map(|package| purl(&package.name, &package.version))
            .filter(|reference| held.contains(reference))
            .collect();
        held.contains(&reference).then(|| json!({ "ref": reference, "dependsOn": needs }))
    });
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl(product, &root.version),
                "name": product,
                "version": root.version,
                "licenses": [{ "expression": OWN_LICENCE }],
            },
        },
        "components": components,
        "dependencies": dependencies.collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .map_err(|e| Failure::new(format!("the bill of materials is not JSON: {e}")))
}

/// Returns `root` and the crates of this repository that it needs.
fn own<'a>(locked: &'a [Locked], root: &'a Locked) -> Vec<&'a Locked> {
    let mut own = vec![root];
    let mut next = 0;
    while let Some(package) = own.get(next) {
        let needs = package.dependencies.iter().filter_map(|dependency| lock::find(locked, dependency));
        let more: Vec<_> =
            needs.filter(|package| package.checksum.is_none() && !own.contains(package)).collect();
        own.extend(more);
        next += 1;
    }
    own
}

fn own_component(package: &Locked) -> Value {
    json!({
        "type": "library",
        "bom-ref": purl(&package.name, &package.version),
        "name": package.name,
        "version": package.version,
        "licenses": [{ "expression": OWN_LICENCE }],
    })
}

fn component(package: &Package, locked: &[Locked]) -> Value {
    let Package { name, version, licence, repository } = package;
    let purl = purl(name, version);
    let mut component = json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{ "expression": licence }],
    });
    let of_lock = locked.iter().find(|locked| locked.name == *name && locked.version == *version);
    if let Some(checksum) = of_lock.and_then(|locked| locked.checksum.as_ref()) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    if !repository.is_empty() {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

fn purl(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_the_packages_with_their_checksums_and_what_needs_them() {
        let locked = |name: &str, checksum: Option<&str>, dependencies: &[&str]| Locked {
            name: name.into(),
            version: "1.0.0".into(),
            checksum: checksum.map(str::to_owned),
            dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
        };
        let all = [
            locked("dpr", None, &["dpr-core", "windows"]),
            locked("dpr-core", None, &["serde"]),
            locked("serde", Some("ab"), &[]),
            locked("windows", Some("cd"), &[]),
            locked("xtask", None, &["serde"]),
        ];
        let serde = Package {
            name: "serde".into(),
            version: "1.0.0".into(),
            licence: "MIT OR Apache-2.0".into(),
            repository: "https://serde.rs".into(),
        };
        let text = document("dpr", &[serde], &all).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["bomFormat"], "CycloneDX");
        let components = value["components"].as_array().unwrap();
        assert_eq!(components.len(), 2);
        assert_eq!(components[0]["name"], "dpr-core");
        assert_eq!(components[1]["purl"], "pkg:cargo/serde@1.0.0");
        assert_eq!(components[1]["hashes"][0]["content"], "ab");
        let dependencies = value["dependencies"].as_array().unwrap();
        assert_eq!(dependencies.len(), 3);
        assert_eq!(dependencies[0]["dependsOn"], json!(["pkg:cargo/dpr-core@1.0.0"]));
        assert_eq!(dependencies[1]["dependsOn"], json!(["pkg:cargo/serde@1.0.0"]));
        assert!(!text.contains("windows") && !text.contains("xtask"));
        assert!(document("absent", &[], &all).is_err());
    }
}
