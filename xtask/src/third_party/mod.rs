//! Components of `dpr` and the npm package besides this repository: notices of licences, and bills of materials.
//!
//! `cargo xtask licenses` writes the notices, which are committed: the binary prints its own (`dpr --licenses`), the
//! package carries its own. A test holds them against Cargo.lock. `cargo xtask sbom` writes CycloneDX documents.

mod licence_files;
mod lock;
mod notices;
mod packages;
mod sbom;

use std::collections::BTreeSet;
use std::fs;

use crate::failure::{Failure, Outcome};
use lock::Locked;
use packages::Package;

/// Something that is given to people with other people's code in it.
struct Product {
    /// The crate that it is built of.
    package: &'static str,
    /// Arguments of cargo that select its features.
    features: &'static [&'static str],
    /// Arguments that select every feature, so that the notices hold for each build.
    all_features: &'static [&'static str],
    /// The targets that it runs on. A package that any of these needs is listed.
    targets: &'static [&'static str],
    /// Its notices.
    notices: &'static str,
    /// Its bill of materials.
    sbom: &'static str,
}

const PRODUCTS: [Product; 2] = [
    Product {
        package: "dpr",
        features: &[],
        all_features: &["--features", "otel"],
        targets: &["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"],
        notices: "server/THIRD_PARTY.txt",
        sbom: "target/sbom/dpr.cdx.json",
    },
    Product {
        package: "dpr-wasm",
        features: &["--features", "webgpu"],
        all_features: &["--features", "webgpu"],
        targets: &["wasm32-unknown-unknown"],
        notices: "wasm/npm/THIRD_PARTY.txt",
        sbom: "target/sbom/dpr-web.cdx.json",
    },
];

/// Writes the notices of both products anew.
pub(crate) fn write_notices() -> Outcome {
    let locked = lock::read()?;
    for product in &PRODUCTS {
        let packages = packages::of(product, product.all_features)?;
        let text = notices::text(product.package, &packages, &left_out(&locked, &packages))?;
        write(product.notices, &text)?;
        println!("{}: {} packages, {} KB", product.notices, packages.len(), text.len() / 1000);
    }
    Ok(())
}

/// Writes the bills of materials of both products.
pub(crate) fn write_sboms() -> Outcome {
    let locked = lock::read()?;
    for product in &PRODUCTS {
        let packages = packages::of(product, product.features)?;
        write(product.sbom, &sbom::document(product.package, &packages, &locked)?)?;
        println!("{}: {} packages", product.sbom, packages.len());
    }
    Ok(())
}

/// Packages of the lock file that a product does not hold: those of tests, tools and other platforms.
fn left_out<'a>(locked: &'a [Locked], packages: &[Package]) -> Vec<&'a Locked> {
    let held: BTreeSet<_> =
        packages.iter().map(|package| (package.name.as_str(), package.version.as_str())).collect();
    locked
        .iter()
        .filter(|locked| locked.checksum.is_some())
        .filter(|locked| !held.contains(&(locked.name.as_str(), locked.version.as_str())))
        .collect()
}

fn write(path: &str, text: &str) -> Outcome {
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {path}: {e}"));
    if let Some((folder, _)) = path.rsplit_once('/') {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::root;

    #[test]
    fn notices_hold_what_an_optional_feature_links() {
        let [dpr, _] = &PRODUCTS;
        let notices = fs::read_to_string(root().join(dpr.notices)).unwrap();
        let listed = |name: &str| notices.lines().find(|line| line.starts_with(&format!("  {name} ")));
        for name in ["opentelemetry", "opentelemetry-otlp", "opentelemetry_sdk", "tracing-opentelemetry"] {
            // Packages that are not in it have no address.
            let is_held = listed(name).is_some_and(|line| line.contains("https://"));
            assert!(is_held, "{name} is not among the packages: {:?}", listed(name));
        }
    }

    #[test]
    fn notices_name_every_package_of_the_lock_file() {
        let text = fs::read_to_string(root().join("Cargo.lock")).unwrap();
        let others = lock::parse(&text).into_iter().filter(|locked| locked.checksum.is_some());
        let locked: BTreeSet<_> =
            others.map(|locked| format!("{} {}", locked.name, locked.version)).collect();
        for product in &PRODUCTS {
            let notices = fs::read_to_string(root().join(product.notices)).unwrap();
            let named: BTreeSet<_> = notices::named(&notices).collect();
            let wrong: Vec<_> = locked.symmetric_difference(&named).collect();
            assert!(
                wrong.is_empty(),
                "{} is not that of Cargo.lock, run `cargo xtask licenses`: {wrong:?}",
                product.notices
            );
        }
    }
}
