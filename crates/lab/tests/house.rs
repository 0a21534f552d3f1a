//! Architecture tests: dependencies between crates point down, and no crate has a module cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The layers of ARCHITECTURE.md, from the bottom. A crate may use lower layers only, not its own.
const LAYERS: [&[&str]; 9] = [
    &["core"],
    &["cm", "ring", "net", "media", "seal"],
    &["transport", "choice", "ipc"],
    &["dccp", "tcp"],
    &["stream"],
    &["kernel-tcp"],
    &["engine", "host", "kernel"],
    &["timeous", "daemon", "testbed"],
    &["cli", "lab", "demo", "peer-trials", "soak", "c", "preload"],
];

/// All crates of the workspace: `crates/*`, and the languages of `bindings`.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).expect("crates/lab is two down");
    let entries = ["crates", "bindings"].map(|dir| fs::read_dir(root.join(dir)).unwrap());
    entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

fn layer(name: &str) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&name))
        .unwrap_or_else(|| panic!("{name} is in no layer of the architecture"))
}

#[test]
fn crates_depend_on_lower_layers_only() {
    let mut seen = BTreeSet::new();
    for path in crates() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        for used in crate_dependencies(&manifest) {
            assert!(layer(&used) < layer(&name), "{name} depends on {used}, which is not in a lower layer");
        }
        seen.insert(name);
    }
    assert_eq!(
        seen.len(),
        LAYERS.iter().map(|layer| layer.len()).sum::<usize>(),
        "every crate is in a layer: {seen:?}"
    );
}

/// Crates of this workspace among the dependencies of a manifest, those for its tests included.
fn crate_dependencies(manifest: &str) -> BTreeSet<String> {
    let keys = manifest.lines().filter_map(|line| line.split(['.', '=', ' ']).next());
    keys.filter_map(|key| if key == "timeous" { Some("timeous") } else { key.strip_prefix("timeous-") })
        .filter(|name| LAYERS.iter().any(|layer| layer.contains(name)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_crate_has_a_module_cycle() {
    let mut cycles = Vec::new();
    for path in crates() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let graph = module_dependencies(&path.join("src"));
        cycles.extend(edges_in_cycles(&graph).iter().map(|(from, to)| format!("{name}: {from} -> {to}")));
    }
    assert!(cycles.is_empty(), "module dependencies that are part of a cycle:\n{}", cycles.join("\n"));
}

type DependencyGraph = BTreeMap<String, BTreeSet<String>>;

/// For each module (`a::b` for `src/a/b.rs`), the modules of the same crate that it uses.
fn module_dependencies(src: &Path) -> DependencyGraph {
    let mut files = BTreeMap::new();
    collect(src, "", &mut files);
    let modules: BTreeSet<String> = files.keys().cloned().collect();
    let roots = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().filter(|path| path.exists());
    let reexports = roots.flat_map(|path| reexports_of(&parse(&path))).collect();
    let used = |module: &String, file: &PathBuf| {
        let mut finder =
            UseFinder { module, modules: &modules, reexports: &reexports, depth: 0, found: BTreeSet::new() };
        finder.visit_file(&parse(file));
        finder.found
    };
    files.iter().map(|(module, file)| (module.clone(), used(module, file))).collect()
}

fn parse(file: &Path) -> syn::File {
    syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap_or_else(|e| panic!("{file:?}: {e}"))
}

/// Names that the crate root re-exports, with the module where each is defined.
type Reexports = BTreeMap<String, Vec<String>>;

fn reexports_of(code: &syn::File) -> Reexports {
    let mut reexports = Reexports::new();
    for item in &code.items {
        if let syn::Item::Use(item) = item {
            leaves(&item.tree, &mut Vec::new(), &mut |name, place| {
                let place = place.iter().filter(|s| !["self", "crate"].contains(&s.as_str())).cloned().collect();
                reexports.insert(name.to_owned(), place);
            });
        }
    }
    reexports
}

/// Calls `found` with each name that a `use` imports (`*` for all) and its path.
fn leaves(tree: &syn::UseTree, prefix: &mut Vec<String>, found: &mut dyn FnMut(&str, &[String])) {
    let mut leaf = |name: String, ident: String, prefix: &[String]| {
        let path = if ident == "self" { prefix.to_vec() } else { [prefix, &[ident]].concat() };
        found(if name == "self" { path.last().unwrap() } else { &name }, &path);
    };
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            leaves(&path.tree, prefix, found);
            prefix.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| leaves(item, prefix, found)),
        syn::UseTree::Name(name) => leaf(name.ident.to_string(), name.ident.to_string(), prefix),
        syn::UseTree::Rename(rename) => leaf(rename.rename.to_string(), rename.ident.to_string(), prefix),
        syn::UseTree::Glob(_) => found("*", prefix),
    }
}

fn collect(dir: &Path, prefix: &str, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module = if prefix.is_empty() { stem.clone() } else { format!("{prefix}::{stem}") };
        if path.is_dir() {
            collect(&path, &module, files);
        } else if path.extension().is_some_and(|e| e == "rs") && !["lib", "main", "tests"].contains(&&*stem) {
            files.insert(module, path);
        }
    }
}

/// Finds the modules that a file uses in paths and imports, outside of its tests.
struct UseFinder<'a> {
    module: &'a str,
    modules: &'a BTreeSet<String>,
    reexports: &'a Reexports,
    /// Depth of inline modules at the current position.
    depth: usize,
    found: BTreeSet<String>,
}

impl UseFinder<'_> {
    fn path(&mut self, segments: &[String]) {
        let own: Vec<String> = self.module.split("::").map(str::to_owned).collect();
        let supers = segments.iter().take_while(|s| *s == "super").count();
        let full: Vec<String> = match segments.first().map(String::as_str) {
            Some("crate") => segments[1..].to_vec(),
            Some("self") => [&own, &segments[1..]].concat(),
            Some("super") if supers > self.depth => {
                [&own[..own.len() - (supers - self.depth).min(own.len())], &segments[supers..]].concat()
            }
            Some("super") => own,
            _ => [&own, segments].concat(),
        };
        // A name at the crate root is a dependency on the module that defines it.
        let reexported = full.first().and_then(|name| self.reexports.get(name));
        let full = reexported.map_or(full.clone(), |place| [place, &full[1..]].concat());
        // The longest prefix that is a module; the crate root itself is none.
        let target = (1..=full.len()).rev().map(|n| full[..n].join("::")).find(|p| self.modules.contains(p));
        if let Some(target) = target.filter(|target| target != self.module) {
            self.found.insert(target);
        }
    }
}

impl<'ast> Visit<'ast> for UseFinder<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !attributes.iter().any(only_in_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_some() {
            self.depth += 1;
            visit::visit_item_mod(self, item);
            self.depth -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        leaves(&item.tree, &mut Vec::new(), &mut |_, path| self.path(path));
    }

    /// Visibility is no dependency: `pub(in crate::connection)` uses nothing of it.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            self.path(&segments);
        }
        visit::visit_path(self, path);
    }

    /// Macros that take expressions, such as `format!` and `matches!`, are searched, too.
    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        let list = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        if let Ok(expressions) = item.parse_body_with(list) {
            let mut inside = UseFinder { found: BTreeSet::new(), ..*self };
            expressions.iter().for_each(|expression| inside.visit_expr(expression));
            self.found.append(&mut inside.found);
        }
    }
}

fn only_in_tests(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let condition = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
}

/// Dependencies that are part of a cycle.
fn edges_in_cycles(graph: &DependencyGraph) -> Vec<(&str, &str)> {
    let leads_back = |(from, to): &(&str, &str)| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![*to]);
        while let Some(module) = open.pop() {
            if seen.insert(module) {
                open.extend(graph.get(module).into_iter().flatten().map(String::as_str));
            }
        }
        seen.contains(from)
    };
    let all = graph.iter().flat_map(|(from, to)| to.iter().map(move |to| (from.as_str(), to.as_str())));
    all.filter(leads_back).collect()
}

#[test]
fn cycles_and_crate_dependencies_are_found() {
    let edge = |from: &str, to: &[&str]| (from.to_owned(), to.iter().map(|&t| t.to_owned()).collect());
    let tree: DependencyGraph = [edge("a", &["b", "c"]), edge("b", &["c"]), edge("c", &[])].into();
    assert_eq!(edges_in_cycles(&tree), []);
    let cycle: DependencyGraph = [edge("a", &["b"]), edge("b", &["c"]), edge("c", &["b"])].into();
    assert_eq!(edges_in_cycles(&cycle), [("b", "c"), ("c", "b")]);
    assert_eq!(
        crate_dependencies("[dependencies]\ntimeous-cm.workspace = true\nserde = \"1\"\n"),
        ["cm".to_owned()].into()
    );
}

#[test]
fn used_modules_are_found() {
    let modules: BTreeSet<String> = ["a", "a::b", "a::c", "d"].map(str::to_owned).into();
    let reexports = reexports_of(&syn::parse_str("pub use d::Item;\npub use a::b::{self, Inner as Outer};").unwrap());
    let found = |module: &str, code: &str| {
        let mut finder =
            UseFinder { module, modules: &modules, reexports: &reexports, depth: 0, found: BTreeSet::new() };
        finder.visit_file(&syn::parse_str(code).unwrap());
        finder.found.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(found("a", "mod b;"), [""; 0], "declaring a child module is no dependency");
    assert_eq!(found("a", "mod b; use b::Thing;"), ["a::b"]);
    assert_eq!(found("a::b", "use super::Parent;"), ["a"]);
    assert_eq!(found("a::b", "use super::c::Sibling;"), ["a::c"]);
    assert_eq!(found("a::b", "mod inner { use super::Own; use super::super::c; }"), ["a::c"]);
    assert_eq!(found("a", "use crate::Item;"), ["d"], "through a re-export");
    assert_eq!(found("d", "fn f(_: crate::Outer) {}"), ["a::b"]);
    assert_eq!(found("d", "fn f() { let _ = format!(\"{}\", crate::a::c::NAME); }"), ["a::c"]);
    assert_eq!(found("a::b", "pub(in crate::a) fn f() {}"), [""; 0]);
    assert_eq!(found("a", "#[cfg(test)] mod tests { use super::b::X; } #[cfg(test)] use b::Y;"), [""; 0]);
}
