//! A check of the sources: no modules of a crate import each other in a circle, nor do folders of modules.
//!
//! Imports are read as text: `use` declarations, and paths in code that begin with `crate`, `self`, `super` or a
//! module's own submodule. Names that a module hands on (`pub use`) lead to the module that defines them. Arrows
//! between a module and its own submodules do not count: a parent calls its children, and they use its types.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

type Module = Vec<String>;

/// A path in a module's source.
struct Mention {
    path: Vec<String>,
    /// The name that a `use` declaration gives it.
    name: Option<String>,
    /// Handed on, and not used.
    is_public: bool,
}

/// The modules of a crate with what they mention.
type Modules = BTreeMap<Module, Vec<Mention>>;

fn read(folder: &Path, module: &[String], modules: &mut Modules, tests: &mut Vec<Module>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if ["tests", "testing", "bin"].contains(&name.as_str()) {
            continue;
        }
        let of = |name: String| [module, &[name]].concat();
        if path.is_dir() {
            read(&path, &of(name), modules, tests)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let is_own = ["mod", "lib", "main"].contains(&name.as_str());
            let module = if is_own { module.to_vec() } else { of(name) };
            let source = fs::read_to_string(&path)?;
            tests.extend(test_modules(&source).map(|name| [&module[..], &[name.to_owned()]].concat()));
            modules.insert(module, mentions(&tokens(&source)));
        }
    }
    Ok(())
}

/// Reads the modules of the crate whose sources are in this folder, without those of tests.
fn modules_of(folder: &Path) -> io::Result<Modules> {
    let (mut modules, mut tests) = (Modules::new(), Vec::new());
    read(folder, &[], &mut modules, &mut tests)?;
    modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    Ok(modules)
}

/// Returns the names of the modules that a source declares for tests alone.
fn test_modules(source: &str) -> impl Iterator<Item = &str> {
    let is_of_tests = |line: &str| line.starts_with("#[cfg(test") || line.starts_with("#[cfg(all(test");
    let declared = source.lines().zip(source.lines().skip(1)).filter(move |(line, _)| is_of_tests(line));
    declared.filter_map(|(_, next)| next.strip_prefix("mod ")?.strip_suffix(';'))
}

/// Returns words, `::` and signs, without comments and unit tests.
fn tokens(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String =
        code.lines().flat_map(|line| [line.split("//").next().unwrap_or_default(), "\n"]).collect();
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for sign in code.chars() {
        let is_word = sign.is_alphanumeric() || sign == '_';
        match tokens.last_mut() {
            Some(last) if (is_word && in_word) || (sign == ':' && last == ":") => last.push(sign),
            _ if sign.is_whitespace() => {}
            _ => tokens.push(sign.into()),
        }
        in_word = is_word;
    }
    tokens
}

fn mentions(tokens: &[String]) -> Vec<Mention> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if tokens[at] == "use" {
            let is_public = at > 0 && ["pub", ")"].contains(&tokens[at - 1].as_str());
            let end = at + tokens[at..].iter().position(|token| token == ";").unwrap_or(tokens.len() - at);
            uses(&tokens[at + 1..end], &[], is_public, &mut found);
            at = end;
        } else if tokens.get(at + 1).is_some_and(|next| next == "::") {
            let mut path = vec![tokens[at].clone()];
            while tokens.get(at + 1).is_some_and(|next| next == "::") && at + 2 < tokens.len() {
                path.push(tokens[at + 2].clone());
                at += 2;
            }
            found.push(Mention { path, name: None, is_public: false });
        }
        at += 1;
    }
    found
}

/// Takes the tree of a `use` declaration apart.
fn uses(tree: &[String], prefix: &[String], is_public: bool, found: &mut Vec<Mention>) {
    let open = tree.iter().position(|token| token == "{").unwrap_or(tree.len());
    let words = tree[..open].iter().filter(|token| *token != "::").cloned();
    let mut path: Vec<String> = prefix.iter().cloned().chain(words).collect();
    if open == tree.len() {
        let renamed = path.iter().position(|word| word == "as").map(|at| path.split_off(at));
        path.pop_if(|last| last == "self");
        let name = renamed.and_then(|words| words.last().cloned()).or_else(|| path.last().cloned());
        found.push(Mention { path, name, is_public });
        return;
    }
    let (mut depth, mut start) = (0, open + 1);
    for at in open + 1..tree.len() {
        match tree[at].as_str() {
            "{" => depth += 1,
            "}" if depth > 0 => depth -= 1,
            "," | "}" if depth == 0 => {
                if at > start {
                    uses(&tree[start..at], &path, is_public, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Returns the module that defines what `path` means in `module`; `None` for what is outside of the crate.
fn resolve(modules: &Modules, module: &[String], path: &[String], steps: usize) -> Option<Module> {
    let (mut at, mut rest) = (module.to_vec(), path);
    let named = |module: &[String], name: &String| {
        let is_named =
            |mention: &&Mention| mention.name.as_ref() == Some(name) && mention.path != [name.clone()];
        modules.get(module)?.iter().find(is_named).map(|mention| mention.path.clone())
    };
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Module::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|word| word == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        _ => {}
    }
    let is_relative = rest.len() < path.len();
    while let Some((first, after)) = rest.split_first() {
        let child = [&at[..], std::slice::from_ref(first)].concat();
        if modules.contains_key(&child) {
            (at, rest) = (child, after);
            continue;
        }
        if steps > 0
            && let Some(path) = named(&at, first)
        {
            return resolve(modules, &at, &[&path, after].concat(), steps - 1);
        }
        break;
    }
    (is_relative || at != module).then_some(at).filter(|at| modules.contains_key(at))
}

/// Returns the arrows that lie in circles, each between two modules or folders of one folder: where
/// `a::x` imports `b::y`, `a` imports `b`. A circle of modules is one of the folders that hold them, too.
fn circles(modules: &Modules) -> BTreeSet<(Module, Module)> {
    let mut arrows = BTreeSet::new();
    for (module, mentions) in modules {
        for mention in mentions.iter().filter(|mention| !mention.is_public) {
            let Some(to) = resolve(modules, module, &mention.path, 8) else { continue };
            if !to.starts_with(module) && !module.starts_with(&to) {
                let shared = module.iter().zip(&to).take_while(|(from, to)| from == to).count();
                arrows.insert((module[..=shared].to_vec(), to[..=shared].to_vec()));
            }
        }
    }
    let leads_back = |(from, to): &(Module, Module)| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![to]);
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(arrows.iter().filter(|(from, _)| from == module).map(|(_, to)| to));
            }
        }
        reached.contains(from)
    };
    arrows.iter().filter(|arrow| leads_back(arrow)).cloned().collect()
}

#[test]
fn no_modules_of_a_crate_import_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let members = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = members.split("members = [").nth(1).and_then(|text| text.split(']').next()).unwrap();
    let (mut read_modules, mut found) = (0, String::new());
    for member in members.split('"').skip(1).step_by(2) {
        let source = root.join(member).join("src");
        let modules = if source.is_dir() { modules_of(&source).unwrap() } else { Modules::new() };
        read_modules += modules.len();
        for (from, to) in circles(&modules) {
            found += &format!("{member}: {} uses {}\n", from.join("::"), to.join("::"));
        }
    }
    assert!(read_modules > 500, "only {read_modules} modules were read");
    assert!(found.is_empty(), "put what both need into a module of its own:\n{found}");
}

#[test]
fn a_circle_is_found_through_names_that_are_handed_on_and_through_paths_in_code() {
    let lib = ("", "mod a;\nmod b;\npub use a::{inner::Thing, other as renamed};");
    let (child, plain) = (("a::inner", "pub struct Thing; // crate::b"), ("b", "use crate::Thing;"));
    assert_eq!(of(&[lib, ("a", "mod inner;\nfn f() { inner::g() }"), child, plain]), [""; 0]);
    let circle =
        of(&[lib, ("a", "use super::b::X;\npub(crate) fn other() {}"), child, ("b", "use crate::renamed;")]);
    assert_eq!(circle, ["a b", "b a"]);
}

#[test]
fn a_circle_of_folders_is_found_where_no_two_modules_make_one() {
    let sources = [
        ("", "mod a;\nmod b;"),
        ("a", "mod x;\nmod z;"),
        ("a::x", "use crate::b::y::Y;\npub struct X;"),
        ("a::z", "pub struct Z;"),
        ("b", "mod y;"),
        ("b::y", "use crate::a::z::Z;\npub struct Y;"),
    ];
    assert_eq!(of(&sources), ["a b", "b a"]);
    // A module of tests may use what it tests.
    let source = "#[cfg(all(test, feature = \"sparse\"))]\nmod parity;\n#[cfg(test)]\nmod tests;\n#[cfg(not(test))]\nmod own;";
    assert_eq!(test_modules(source).collect::<Vec<_>>(), ["parity", "tests"]);
}

/// Returns the arrows in circles of a crate of these modules.
fn of(sources: &[(&str, &str)]) -> Vec<String> {
    let modules = sources.iter().map(|(name, source)| {
        let module = name.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect();
        (module, mentions(&tokens(source)))
    });
    let arrows = circles(&modules.collect());
    arrows.iter().map(|(from, to)| format!("{} {}", from.join("::"), to.join("::"))).collect()
}
