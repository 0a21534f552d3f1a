//! The house, drawn from the code: arrows between crates point down, and no crate has a circle of rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The floors of ARCHITECTURE.md, from the ground up. A crate may use those below its own floor, never one beside it.
const FLOORS: [&[&str]; 6] =
    [&["core"], &["cm", "ring", "net"], &["dccp", "choice"], &["engine"], &["timeous"], &["cli", "lab"]];

fn crates_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/lab has a parent").to_owned()
}

fn floor(name: &str) -> usize {
    FLOORS.iter().position(|floor| floor.contains(&name)).unwrap_or_else(|| panic!("{name} has no floor in the house"))
}

#[test]
fn arrows_between_crates_point_down() {
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(crates_dir()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        for used in dependencies(&manifest) {
            assert!(floor(&used) < floor(&name), "the arrow from {name} to {used} does not point down");
        }
        seen.insert(name);
    }
    assert_eq!(seen.len(), FLOORS.iter().map(|floor| floor.len()).sum::<usize>(), "every crate has a floor: {seen:?}");
}

/// Crates of this workspace among the dependencies of a manifest, those for its tests included.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let keys = manifest.lines().filter_map(|line| line.split(['.', '=', ' ']).next());
    keys.filter_map(|key| if key == "timeous" { Some("timeous") } else { key.strip_prefix("timeous-") })
        .filter(|name| FLOORS.iter().any(|floor| floor.contains(name)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn no_crate_has_a_circle_of_rooms() {
    let mut circles = Vec::new();
    for entry in fs::read_dir(crates_dir()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let arrows = arrows(&path.join("src"));
        if let Some(circle) = circle(&arrows) {
            circles.push(format!("{name}: {}", circle.join(" -> ")));
        }
    }
    assert!(circles.is_empty(), "circles of imports:\n{}", circles.join("\n"));
}

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// For each room (`a::b` for `src/a/b.rs`), the rooms of the same crate that it uses.
fn arrows(src: &Path) -> Arrows {
    let mut files = BTreeMap::new();
    collect(src, "", &mut files);
    let rooms: BTreeSet<String> = files.keys().cloned().collect();
    let used = |room: &String, file: &PathBuf| {
        let code = syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap_or_else(|e| panic!("{file:?}: {e}"));
        let mut finder = Finder { room, rooms: &rooms, depth: 0, found: BTreeSet::new() };
        finder.visit_file(&code);
        finder.found
    };
    files.iter().map(|(room, file)| (room.clone(), used(room, file))).collect()
}

fn collect(dir: &Path, prefix: &str, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let room = if prefix.is_empty() { stem.clone() } else { format!("{prefix}::{stem}") };
        if path.is_dir() {
            collect(&path, &room, files);
        } else if path.extension().is_some_and(|e| e == "rs") && !["lib", "main", "tests"].contains(&&*stem) {
            files.insert(room, path);
        }
    }
}

/// Finds the rooms that a file names in paths and imports, outside of its tests.
struct Finder<'a> {
    room: &'a str,
    rooms: &'a BTreeSet<String>,
    /// Inline modules around the place where it stands.
    depth: usize,
    found: BTreeSet<String>,
}

impl Finder<'_> {
    fn path(&mut self, segments: &[String]) {
        let own: Vec<String> = self.room.split("::").map(str::to_owned).collect();
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
        // The longest prefix that is a room; the crate's front door is none.
        let target = (1..=full.len()).rev().map(|n| full[..n].join("::")).find(|p| self.rooms.contains(p));
        if let Some(target) = target.filter(|target| target != self.room) {
            self.found.insert(target);
        }
    }

    fn tree(&mut self, tree: &syn::UseTree, prefix: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(&path.tree, prefix);
                prefix.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, prefix)),
            syn::UseTree::Name(name) => self.leaf(prefix, &name.ident),
            syn::UseTree::Rename(rename) => self.leaf(prefix, &rename.ident),
            syn::UseTree::Glob(_) => self.path(&prefix.clone()),
        }
    }

    fn leaf(&mut self, prefix: &[String], name: &syn::Ident) {
        let mut full = prefix.to_vec();
        full.push(name.to_string());
        self.path(&full);
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let test = item.attrs.iter().any(|a| a.path().is_ident("cfg") && quote_of(a).contains("test"));
        if !test && item.content.is_some() {
            self.depth += 1;
            visit::visit_item_mod(self, item);
            self.depth -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            self.path(&segments);
        }
        visit::visit_path(self, path);
    }
}

fn quote_of(attribute: &syn::Attribute) -> String {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    }
}

/// A circle among the arrows, if there is one.
fn circle(arrows: &Arrows) -> Option<Vec<String>> {
    fn walk(at: &str, arrows: &Arrows, way: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|room| room == at) {
            let mut circle = way[start..].to_vec();
            circle.push(at.to_owned());
            return Some(circle);
        }
        if done.contains(at) {
            return None;
        }
        way.push(at.to_owned());
        for next in arrows.get(at).into_iter().flatten() {
            if let Some(circle) = walk(next, arrows, way, done) {
                return Some(circle);
            }
        }
        way.pop();
        done.insert(at.to_owned());
        None
    }
    let mut done = BTreeSet::new();
    arrows.keys().find_map(|room| walk(room, arrows, &mut Vec::new(), &mut done))
}

#[test]
fn the_test_itself_sees_a_circle_and_an_arrow() {
    let arrow = |from: &str, to: &[&str]| (from.to_owned(), to.iter().map(|&t| t.to_owned()).collect());
    let tree: Arrows = [arrow("a", &["b", "c"]), arrow("b", &["c"]), arrow("c", &[])].into();
    assert_eq!(circle(&tree), None);
    let bent: Arrows = [arrow("a", &["b"]), arrow("b", &["c"]), arrow("c", &["b"])].into();
    assert_eq!(circle(&bent), Some(["b", "c", "b"].map(str::to_owned).to_vec()));
    assert_eq!(dependencies("[dependencies]\ntimeous-cm.workspace = true\nserde = \"1\"\n"), ["cm".to_owned()].into());
}
