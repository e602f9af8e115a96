//! The packages that a product is linked of, as `cargo tree` resolves its features.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::Product;
use crate::failure::{Failure, Outcome};
use crate::process::{cargo, output};

/// A package of other people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// SPDX expression, as its manifest has it.
    pub(super) licence: String,
    /// The address of its sources, or nothing.
    pub(super) repository: String,
}

/// Everything that `product` with these features is linked of on any of its targets, in order; without tools that only
/// its build needs.
pub(super) fn of(product: &Product, features: &[&str]) -> Outcome<Vec<Package>> {
    let mut packages = BTreeSet::new();
    for target in product.targets {
        let selection = ["tree", "--locked", "--package", product.package, "--target", target];
        let form = ["--edges", "normal", "--prefix", "none", "--format", "{p}\t{l}\t{r}"];
        let tree = output(cargo(&selection).args(features).args(form))?;
        packages.extend(tree.lines().filter_map(parse));
    }
    match packages.is_empty() {
        true => Err(Failure::new(format!("cargo tree named no packages of {}", product.package))),
        false => Ok(packages.into_iter().collect()),
    }
}

/// Reads a line as `serde v1.0.2 (proc-macro)<TAB>MIT<TAB>https://… (*)`; nothing for a package of this repository.
fn parse(line: &str) -> Option<Package> {
    let mut columns = line.trim_end_matches(" (*)").split('\t');
    let (package, licence, repository) =
        (columns.next()?, columns.next()?, columns.next().unwrap_or_default());
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let is_own = words.any(|word| word.starts_with("(/") || word.contains(":\\"));
    let text = |text: &str| text.trim().to_owned();
    (!is_own).then(|| Package {
        name: text(name),
        version: text(version),
        licence: licence.replace('/', " OR ").split_whitespace().collect::<Vec<_>>().join(" "),
        repository: text(repository),
    })
}

impl Package {
    /// The folder that cargo has unpacked it to.
    pub(super) fn folder(&self) -> Outcome<PathBuf> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let registries = home.unwrap_or_default().join("registry/src");
        let name = format!("{}-{}", self.name, self.version);
        let folders = std::fs::read_dir(&registries).into_iter().flatten().flatten();
        folders.map(|entry| entry.path().join(&name)).find(|folder| Path::new(folder).is_dir()).ok_or_else(
            || {
                Failure::new(format!("the sources of {name} are not in {}", registries.display()))
                    .fix("run `cargo fetch`, then this again")
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_tree_are_packages_of_others() {
        let line =
            "serde_derive v1.0.229 (proc-macro)\tMIT OR Apache-2.0\thttps://github.com/serde-rs/serde (*)";
        let package = parse(line).unwrap();
        assert_eq!((package.name.as_str(), package.version.as_str()), ("serde_derive", "1.0.229"));
        assert_eq!(package.repository, "https://github.com/serde-rs/serde");
        assert_eq!(parse("half v2.7.1\tMIT / Apache-2.0\t").unwrap().licence, "MIT OR Apache-2.0");
        assert_eq!(parse("dpr-core v0.1.0 (/home/me/dpr/core)\tMIT OR Apache-2.0\t"), None);
        assert_eq!(parse(""), None);
    }
}
