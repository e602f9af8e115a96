//! Links of built pages: files that are there, and anchors that their pages have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{is_external, relative, resolve};
use crate::failure::{Failure, Outcome};

/// Checks every page under `root` and returns their number. Links from the folders `trusted` are not looked at, because
/// the program that wrote them has checked them; links into them are.
pub(super) fn check(root: &Path, trusted: &[&str]) -> Outcome<usize> {
    let mut files = BTreeSet::new();
    collect(root, root, &mut files)
        .map_err(|e| Failure::new(format!("cannot read {}: {e}", root.display())))?;
    let is_trusted = |path: &str| trusted.iter().any(|folder| path.starts_with(&format!("{folder}/")));
    let pages: Vec<&String> =
        files.iter().filter(|path| path.ends_with(".html") && !is_trusted(path)).collect();
    let mut texts = BTreeMap::new();
    let mut problems = Vec::new();
    for page in &pages {
        for target in attributes(load(root, page, &mut texts)?, &["href", "src"]) {
            if is_external(&target) || target.is_empty() {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = decode(file.split('?').next().unwrap_or_default());
            let path = if file.is_empty() { Some((*page).clone()) } else { resolve(page, &file) };
            let path = path.map(|path| match root.join(&path).is_dir() {
                true => Path::new(&path).join("index.html").to_string_lossy().into_owned(),
                false => path,
            });
            let Some(path) = path.filter(|path| files.contains(path)) else {
                problems.push(format!("{page}: {target}: there is no such file"));
                continue;
            };
            if anchor.is_empty() || !path.ends_with(".html") {
                continue;
            }
            let ids = attributes(load(root, &path, &mut texts)?, &["id", "name"]);
            if !ids.contains(&decode(anchor)) {
                problems.push(format!("{page}: {target}: {} has no such anchor", relative(page, &path)));
            }
        }
    }
    match problems.is_empty() {
        true => Ok(pages.len()),
        false => Err(Failure::new(format!("dead links:\n    {}", problems.join("\n    ")))),
    }
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeSet<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            let path = path.strip_prefix(root).unwrap_or(&path);
            files.insert(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

fn load<'a>(root: &Path, page: &str, texts: &'a mut BTreeMap<String, String>) -> Outcome<&'a str> {
    if !texts.contains_key(page) {
        texts.insert(page.to_owned(), super::read(root.join(page))?);
    }
    Ok(texts.get(page).map(String::as_str).unwrap_or_default())
}

/// The values of these attributes, in tags alone.
fn attributes(html: &str, names: &[&str]) -> BTreeSet<String> {
    let mut values = BTreeSet::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        // A script's text is no markup.
        if let Some(script) = rest.strip_prefix("script").filter(|script| script.starts_with([' ', '>'])) {
            let end = script.find("</script").unwrap_or(script.len());
            let tag = script.find('>').map_or("", |end| &script[..end]);
            collect_values(tag, names, &mut values);
            rest = &script[end..];
            continue;
        }
        let end = rest.find('>').unwrap_or(rest.len());
        collect_values(&rest[..end], names, &mut values);
        rest = &rest[end..];
    }
    values
}

fn collect_values(tag: &str, names: &[&str], values: &mut BTreeSet<String>) {
    for name in names {
        let start = format!(" {name}=\"");
        for (at, _) in tag.match_indices(&start) {
            let value = &tag[at + start.len()..];
            values.extend(value.find('"').map(|end| value[..end].replace("&amp;", "&")));
        }
    }
}

/// Undoes percent-encoding.
fn decode(text: &str) -> String {
    let (bytes, mut decoded, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_in_tags_alone() {
        let html = "<a class=\"x\" href=\"b.html?x=1&amp;y#c\">href=\"no\"</a><script src=\"s.js\">\"<a href='no' href=\\\"no\\\"\"</script>";
        let found: Vec<_> = attributes(html, &["href", "src"]).into_iter().collect();
        assert_eq!(found, ["b.html?x=1&y#c", "s.js"]);
    }

    #[test]
    fn dead_links_and_anchors_are_named() {
        let root = std::env::temp_dir().join(format!("dpr-docs-{}", std::process::id()));
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(
            root.join("index.html"),
            "<h1 id=\"top\"></h1><a href=\"sub/\"></a><a href=\"sub/index.html#there\"></a>",
        )
        .unwrap();
        fs::write(root.join("sub/index.html"), "<p id=\"there\"></p><a href=\"../index.html#top\"></a>")
            .unwrap();
        assert_eq!(check(&root, &[]), Ok(2));
        fs::write(root.join("sub/index.html"), "<a href=\"../gone.html\"></a><a href=\"#gone\"></a>")
            .unwrap();
        let told = check(&root, &[]).unwrap_err().to_string();
        assert!(told.contains("sub/index.html: ../gone.html: there is no such file"), "{told}");
        assert!(
            told.contains("sub/index.html: #gone:") && told.contains("index.html: sub/index.html#there"),
            "{told}"
        );
        assert_eq!(check(&root, &["sub"]).unwrap_err().to_string().matches("gone").count(), 0);
        fs::remove_dir_all(root).unwrap();
    }
}
