//! The modules of a crate, and which file each path leads to.

use super::graph::Arrow;
use super::paths::{Contents, read};
use crate::tidy::sources::{Source, without_tests};
use std::collections::BTreeMap;

/// Returns the imports between the files of a crate; `names` are their paths below `src`.
///
/// `pub use` is followed to the file that defines a name, so that what counts is who needs whom.
pub(crate) fn arrows(names: &[&str], sources: &[&Source<'_>]) -> Vec<Arrow> {
    let by_name = names.iter().enumerate().map(|(file, name)| (*name, file));
    let mut reader = Reader {
        sources,
        files: by_name.collect(),
        tree: Tree::default(),
    };
    // What no other file declares is the root of a library or of a program.
    for (file, name) in names.iter().enumerate() {
        let is_root = !name.contains('/') && !reader.declared(names, name);
        if is_root {
            reader.file(file, None, "");
        }
    }
    reader.tree.arrows()
}

/// A module: a file, or an inline module of one.
struct Module<'a> {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<&'a str, usize>,
    contents: Contents<'a>,
}

#[derive(Default)]
struct Tree<'a> {
    modules: Vec<Module<'a>>,
}

struct Reader<'b, 'a> {
    sources: &'b [&'b Source<'a>],
    files: BTreeMap<&'b str, usize>,
    tree: Tree<'a>,
}

impl<'a> Reader<'_, 'a> {
    /// Whether a file of the root declares this one as its module.
    fn declared(&self, names: &[&str], name: &str) -> bool {
        let module = name.strip_suffix(".rs").unwrap_or(name);
        let roots = names.iter().zip(self.sources);
        let mut roots = roots.filter(|(other, _)| !other.contains('/') && **other != name);
        roots.any(|(_, source)| {
            let mut threes = source.tokens.code.windows(3);
            threes.any(|it| it[0].text == "mod" && it[1].text == module && it[2].text == ";")
        })
    }

    /// Adds the module of a file, whose children are in `folder`.
    fn file(&mut self, file: usize, parent: Option<usize>, folder: &str) -> usize {
        let contents = read(&without_tests(&self.sources[file].tokens.code));
        self.module(file, contents, parent, folder)
    }

    fn module(
        &mut self,
        file: usize,
        mut contents: Contents<'a>,
        parent: Option<usize>,
        folder: &str,
    ) -> usize {
        let module = self.tree.modules.len();
        let inline = std::mem::take(&mut contents.inline);
        let declared = contents.declared.clone();
        self.tree.modules.push(Module {
            file,
            parent,
            children: BTreeMap::new(),
            contents,
        });
        for name in declared {
            let below = format!("{folder}{name}/");
            let places = [format!("{folder}{name}.rs"), format!("{below}mod.rs")];
            let found = places.iter().find_map(|it| self.files.get(&**it).copied());
            if let Some(found) = found {
                let child = self.file(found, Some(module), &below);
                self.tree.modules[module].children.insert(name, child);
            }
        }
        for (name, contents) in inline {
            let below = format!("{folder}{name}/");
            let child = self.module(file, contents, Some(module), &below);
            self.tree.modules[module].children.insert(name, child);
        }
        module
    }
}

/// How many re-exports of re-exports are followed.
const STEPS: usize = 8;

impl Tree<'_> {
    fn arrows(&self) -> Vec<Arrow> {
        let mut arrows = Vec::new();
        for (at, module) in self.modules.iter().enumerate() {
            let imports = module.contents.imports.iter().map(|import| &import.path);
            for path in imports.chain(&module.contents.paths) {
                let Some(found) = self.resolve(at, &path.segments, STEPS) else {
                    continue;
                };
                let to = self.modules[found].file;
                if to != module.file && !self.is_below(found, module.file) {
                    arrows.push(Arrow {
                        from: module.file,
                        to,
                        line: path.line,
                    });
                }
            }
        }
        arrows
    }

    /// Whether a module is a descendant of the module of a file.
    fn is_below(&self, module: usize, file: usize) -> bool {
        let mut above = self.modules[module].parent;
        while let Some(module) = above {
            if self.modules[module].file == file {
                return true;
            }
            above = self.modules[module].parent;
        }
        false
    }

    /// The module that defines what a path names; `None` for other crates and local names.
    fn resolve(&self, at: usize, path: &[&str], steps: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        match *first {
            "crate" => self.descend(self.root(at), rest, steps),
            "self" => self.descend(at, rest, steps),
            "super" => self.descend(self.modules[at].parent?, rest, steps),
            name if self.modules[at].children.contains_key(name) => self.descend(at, path, steps),
            // An import of the same name is another crate, such as `use log::log`.
            name => {
                let imports = &self.modules[at].contents.imports;
                let import = imports.iter().find(|it| it.name == name)?;
                if import.path.segments[0] == name {
                    return None;
                }
                let path = [&import.path.segments, rest].concat();
                self.resolve(at, &path, steps.checked_sub(1)?)
            }
        }
    }

    fn root(&self, at: usize) -> usize {
        self.modules[at].parent.map_or(at, |above| self.root(above))
    }

    fn descend(&self, mut at: usize, path: &[&str], steps: usize) -> Option<usize> {
        for (index, name) in path.iter().enumerate() {
            let module = &self.modules[at];
            if *name == "super" {
                at = module.parent?;
            } else if let Some(&child) = module.children.get(name) {
                at = child;
            } else {
                let through = self.follow(at, &path[index..], steps);
                return Some(through.unwrap_or(at));
            }
        }
        Some(at)
    }

    /// Follows the import that gives a module a name.
    fn follow(&self, at: usize, path: &[&str], steps: usize) -> Option<usize> {
        let steps = steps.checked_sub(1)?;
        let contents = &self.modules[at].contents;
        if contents.items.contains(path[0]) {
            return None;
        }
        if let Some(import) = contents.imports.iter().find(|it| it.name == path[0]) {
            let path = [&import.path.segments, &path[1..]].concat();
            return self.resolve(at, &path, steps);
        }
        let mut globs = contents.imports.iter().filter(|it| it.name == "*");
        globs.find_map(|glob| {
            let module = self.resolve(at, &glob.path.segments, steps)?;
            self.defined(module, path, steps)
        })
    }

    /// The module that defines what a path names, if this module has its first name.
    fn defined(&self, at: usize, path: &[&str], steps: usize) -> Option<usize> {
        let module = &self.modules[at];
        let has = module.children.contains_key(path[0]) || module.contents.items.contains(path[0]);
        if has {
            self.descend(at, path, steps)
        } else {
            self.follow(at, path, steps)
        }
    }
}
