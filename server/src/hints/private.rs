//! Advice on private tables and static sites.

use std::error::Error;
use std::path::Path;

use dpr_core::private::encrypted::ManifestError;
use dpr_index::{FileError, PRIVATE_PREFIX};
use dpr_private::site::{SITE_MANIFEST, SiteError, SiteReadError};
use dpr_private::{BuildError, OpenError};

pub(super) fn of(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref() {
        return of_tables(error);
    }
    let advice = None
        .or_else(|| error.downcast_ref().and_then(of_building))
        .or_else(|| error.downcast_ref().and_then(of_reading))
        .or_else(|| error.downcast_ref().and_then(of_site));
    advice.map(str::to_owned)
}

pub(super) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(BuildError::Index(error)), ..) => Some(error),
        (Some(BuildError::File(error)), ..)
        | (_, Some(OpenError::File(error)), ..)
        | (_, _, Some(SiteError::File(error)), _)
        | (_, _, _, Some(SiteReadError::File(error))) => Some(error),
        (_, _, Some(SiteError::Model(error)), _) => Some(error),
        _ => None,
    }
}

fn of_tables(error: &OpenError) -> Option<String> {
    match error {
        OpenError::Missing { path } => {
            Some(format!("make them with `dpr index private --index {}`", path.display()))
        }
        OpenError::Manifest { source: ManifestError::Newer { .. }, .. } => Some("update dpr".to_owned()),
        OpenError::File(
            FileError::Missing { path }
            | FileError::Size { path, .. }
            | FileError::Checksum { path }
            | FileError::Corrupt { path, .. },
        )
        | OpenError::Manifest { path, .. }
        | OpenError::OtherIndex { path } => made_again(path),
        _ => None,
    }
}

/// Returns the command that makes the private tables anew of which a file is at `path`.
fn made_again(path: &Path) -> Option<String> {
    let tables = path.parent()?;
    let is_of_an_index = tables.file_name()?.to_str()?.starts_with(PRIVATE_PREFIX);
    let index = tables.parent().filter(|_| is_of_an_index)?;
    Some(format!("make the private tables again with `dpr index private --index {}`", index.display()))
}

fn of_building(error: &BuildError) -> Option<&'static str> {
    matches!(error, BuildError::File(FileError::Busy { .. })).then_some("wait for it, or stop it")
}

fn of_reading(error: &SiteReadError) -> Option<&'static str> {
    Some(match error {
        SiteReadError::Damaged { .. } => "`dpr index export-static` exports it",
        SiteReadError::File(FileError::Missing { path }) if path.ends_with(SITE_MANIFEST) => {
            "`dpr index export-static --index INDEX --model MODEL --out SITE` exports a static site, which --index then \
             names"
        }
        SiteReadError::File(FileError::Corrupt { path, .. }) if path.ends_with(SITE_MANIFEST) => {
            "copy the site again, or export it with `dpr index export-static` to another folder"
        }
        SiteReadError::File(
            FileError::Missing { .. }
            | FileError::Size { .. }
            | FileError::Checksum { .. }
            | FileError::Corrupt { .. },
        ) => "copy the site again, or export it again with `dpr index export-static`",
        SiteReadError::NoBuckets { .. } => "`dpr index export-static --buckets` exports them",
        _ => return None,
    })
}

fn of_site(error: &SiteError) -> Option<&'static str> {
    Some(match error {
        SiteError::File(FileError::Corrupt { path, .. }) if path.ends_with(SITE_MANIFEST) => {
            "give another --out"
        }
        SiteError::File(FileError::Busy { .. }) => "wait for it or give another --out",
        SiteError::NoWeights => "`dpr export-web --model MODEL` exports them",
        SiteError::Dims { .. } => "--dims takes it",
        SiteError::PackBytes { .. } => "--pack-bytes takes it",
        SiteError::Manifest { .. } => "give a larger --pack-bytes",
        SiteError::BucketSize { least, most, .. } if most < least => "leave --buckets out",
        SiteError::BucketSize { .. } => "--bucket-size takes it",
        SiteError::TooMany { .. } => "`dpr serve` searches them",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::hint;
    use super::*;

    #[test]
    fn the_errors_of_private_search_have_the_advice_of_what_they_are_of() {
        let missing = |path: &str| FileError::Missing { path: path.into() };
        let corrupt = |path: &str| FileError::corrupt(path.as_ref(), "it is short");
        let foreign = || FileError::Foreign { path: "out".into(), name: "notes.txt".into() };
        let busy = || FileError::Busy { path: "index".into(), holder: "a server".into() };
        let newer = || FileError::NewerFormat { path: "private.json".into(), found: 9, supported: 2 };
        let no_index = || dpr_index::OpenError::NotAnIndex { path: "nope".into() };
        let manifest = |source| OpenError::Manifest { path: "index/private-3/private.json".into(), source };
        let again = "make the private tables again with `dpr index private --index index`";
        let cases: [(Box<dyn Error>, &str); 18] = [
            (Box::new(BuildError::from(no_index())), "`dpr index --vectors VECTORS --out nope`"),
            (Box::new(BuildError::from(busy())), "wait for it, or stop it"),
            (Box::new(BuildError::from(corrupt("index/v-1/vectors.f32"))), "rebuild it with `dpr index`"),
            (Box::new(OpenError::Missing { path: "index".into() }), "make them with `dpr index private"),
            (Box::new(OpenError::from(missing("index/private-3/rank.i8"))), again),
            (Box::new(OpenError::from(corrupt("index/private-3/text.i8"))), again),
            (Box::new(OpenError::OtherIndex { path: "index/private-3/private.json".into() }), again),
            (Box::new(manifest(ManifestError::Older { found: 1 })), again),
            (Box::new(manifest(ManifestError::Newer { found: 9 })), "update dpr"),
            (Box::new(OpenError::from(newer())), "update dpr"),
            (Box::new(SiteError::from(foreign())), "give another --out"),
            (Box::new(SiteError::from(busy())), "wait for it or give another --out"),
            (Box::new(SiteError::from(corrupt("out/dpr-static.json"))), "give another --out"),
            (Box::new(SiteError::from(corrupt("index/v-1/passages.jsonl"))), "rebuild it with `dpr index`"),
            (Box::new(SiteReadError::from(missing("site/dpr-static.json"))), "exports a static site"),
            (Box::new(SiteReadError::from(corrupt("site/dpr-static.json"))), "to another folder"),
            (Box::new(SiteReadError::from(missing("site/part.bin"))), "export it again with `dpr index"),
            (Box::new(SiteReadError::from(newer())), "update dpr"),
        ];
        for (error, expected) in cases {
            let advice = hint(error.as_ref()).unwrap_or_default();
            assert!(advice.contains(expected), "{error}: {advice:?} does not say {expected:?}");
        }
    }
}
