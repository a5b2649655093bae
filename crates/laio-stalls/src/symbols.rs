//! Names the functions of addresses: from the symbols and the debugging information of files, and from the
//! files in which runtimes list the code that they have made (`/tmp/perf-PID.map`).

use crate::stack::Frame;
use addr2line::Loader;
use object::{Object, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How many files are opened for one report.
const MAX_MODULES: usize = 32;

/// How many lists of made code are read for one report, of one process each.
const MAX_LISTS: usize = 16;

/// How many functions of a file are remembered.
const MAX_FUNCTIONS: usize = 1_000_000;

/// How much of the name of a function is kept, in characters: the arguments of templates can fill pages.
const MAX_NAME: usize = 100;

/// The largest file whose functions are read, in bytes: all of it is in memory meanwhile.
const MAX_FILE: u64 = 512 << 20;

/// The largest list of made code that is read, in bytes.
const MAX_LIST: u64 = 64 << 20;

/// The symbols of the files that a report names.
#[derive(Default)]
pub(crate) struct Symbols {
    modules: HashMap<String, Option<Module>>,
    lists: HashMap<u32, Vec<Function>>,
}

struct Module {
    functions: Vec<Function>,
    lines: Option<Loader>,
    /// Whether its addresses are fixed, and not relative to where it is mapped.
    is_fixed: bool,
}

/// A function of a file, or in a list of made code.
struct Function {
    start: u64,
    end: u64,
    name: String,
}

impl Symbols {
    /// Names the functions of a stack. Returns whether code that the program has made and listed is among
    /// them. Then this is what a reader looks for, so that only the innermost function of a file is kept, and
    /// no internal one of Node.js.
    pub(crate) fn name_stack(&mut self, stack: &mut Vec<Frame>) -> bool {
        let is_listed: Vec<bool> = stack.iter().map(|frame| self.is_listed(frame)).collect();
        stack.iter_mut().for_each(|frame| self.name(frame));
        if !is_listed.contains(&true) {
            return false;
        }
        let mut index = 0..;
        stack.retain(|_| {
            index
                .next()
                .is_some_and(|index| index == 0 || is_listed[index])
        });
        true
    }

    fn is_listed(&mut self, frame: &Frame) -> bool {
        frame.module.is_empty() && frame.name.is_empty() && self.made(frame).is_some()
    }

    /// Names the function of a frame, with its file and line where these are known.
    pub(crate) fn name(&mut self, frame: &mut Frame) {
        if !frame.name.is_empty() {
            return;
        }
        let name = if frame.module.is_empty() {
            self.made(frame)
        } else {
            self.compiled(frame)
        };
        let offset = frame.address - frame.base;
        let unknown = || match frame.module.rsplit('/').next() {
            None | Some("") => format!("{:#x}", frame.address),
            Some(module) => format!("{module}+{offset:#x}"),
        };
        frame.name = name.unwrap_or_else(unknown);
    }

    fn compiled(&mut self, frame: &Frame) -> Option<String> {
        let module = self.module(frame)?;
        let offset = if module.is_fixed { 0 } else { frame.base };
        // The call is the instruction before the return address.
        let address = (frame.address - offset).checked_sub(1)?;
        let name = containing(&module.functions, address)?;
        let name: String = addr2line::demangle_auto(name.into(), None)
            .chars()
            .take(MAX_NAME)
            .collect();
        let lines = module.lines.as_ref();
        let location = lines.and_then(|lines| lines.find_location(address).ok().flatten());
        let place = location.and_then(|location| Some((location.file?, location.line?)));
        Some(match place {
            Some((source, line)) => format!("{name} ({}:{line})", end_of(source)),
            None => format!(
                "{name} ({})",
                frame.module.rsplit('/').next().unwrap_or_default()
            ),
        })
    }

    fn module(&mut self, frame: &Frame) -> Option<&Module> {
        if !self.modules.contains_key(&frame.module) {
            let opened = (self.modules.len() < MAX_MODULES)
                .then(|| open(frame))
                .flatten();
            self.modules.insert(frame.module.clone(), opened);
        }
        self.modules.get(&frame.module)?.as_ref()
    }

    fn made(&mut self, frame: &Frame) -> Option<String> {
        if !self.lists.contains_key(&frame.pid) && self.lists.len() < MAX_LISTS {
            self.lists.insert(frame.pid, list_of(frame.pid));
        }
        let list = self.lists.get(&frame.pid)?;
        containing(list, frame.address.checked_sub(1)?).map(readable)
    }
}

/// The function that has this address. Between functions with a name are others without.
fn containing(functions: &[Function], address: u64) -> Option<&str> {
    let after = functions.partition_point(|function| function.start <= address);
    let function = functions.get(after.checked_sub(1)?)?;
    (address < function.end).then_some(function.name.as_str())
}

/// The function of a line in a list, as the runtimes write it: `JS:~name /file.js:3:14`,
/// `py::name:/file.py`.
fn readable(text: &str) -> String {
    if let Some((name, file)) = text
        .strip_prefix("py::")
        .and_then(|text| text.split_once(":/"))
    {
        return format!("{name} (/{file})");
    }
    let kinds = ["JS:", "Function:", "LazyCompile:", "Script:", "Eval:"];
    let function = kinds.into_iter().find_map(|kind| text.strip_prefix(kind));
    // The marks say how far it is optimised.
    let function = function.map(|function| function.trim_start_matches(['~', '^', '+', '*', '\'']));
    match function.and_then(|function| function.rsplit_once(' ')) {
        Some((name, place)) => {
            let place = place.rsplit_once(':').map_or(place, |(line, _column)| line);
            let name = match name {
                "" if text.starts_with("Script:") => "top level",
                "" => "a function without a name",
                name => name,
            };
            let is_internal = place.starts_with("node:");
            let place = if is_internal { place } else { end_of(place) };
            format!("{name} ({place})")
        }
        None => text.to_owned(),
    }
}

/// The file and its directory.
pub(crate) fn end_of(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/');
    slashes.nth(1).map_or(path, |(at, _)| &path[at + 1..])
}

/// The functions of an ELF file, in the order of their addresses.
fn functions(path: &str) -> Option<Vec<Function>> {
    if std::fs::metadata(path).ok()?.len() > MAX_FILE {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let named = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let named = named.filter_map(|symbol| {
        Some(Function {
            start: symbol.address(),
            end: symbol.address().checked_add(symbol.size())?,
            name: symbol.name().ok()?.to_owned(),
        })
    });
    let mut functions: Vec<Function> = named.take(MAX_FUNCTIONS).collect();
    functions.sort_by_key(|function| function.start);
    Some(functions)
}

/// Opens the file as the process sees it, or by its name if the process has ended.
fn open(frame: &Frame) -> Option<Module> {
    let inside = format!("/proc/{}/root{}", frame.pid, frame.module);
    let paths = [inside.as_str(), frame.module.as_str()];
    paths.into_iter().find_map(|path| {
        /// The kind of an ELF file, and the one with fixed addresses.
        const KIND: u64 = 16;
        const FIXED: u16 = 2;
        let mut kind = [0; 2];
        File::open(path).ok()?.read_exact_at(&mut kind, KIND).ok()?;
        Some(Module {
            functions: functions(path)?,
            lines: Loader::new(path).ok(),
            is_fixed: u16::from_le_bytes(kind) == FIXED,
        })
    })
}

fn list_of(pid: u32) -> Vec<Function> {
    let name = format!("/tmp/perf-{pid}.map");
    let inside = format!("/proc/{pid}/root{name}");
    let is_small = |path: &&String| {
        std::fs::metadata(path).is_ok_and(|status| status.is_file() && status.len() <= MAX_LIST)
    };
    let path = [&inside, &name].into_iter().find(is_small);
    let text = path
        .and_then(|path| std::fs::read(path).ok())
        .unwrap_or_default();
    parse(&String::from_utf8_lossy(&text))
}

/// Parses lines such as `7f00 40 py::function:/file.py`.
fn parse(text: &str) -> Vec<Function> {
    let line = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut number = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
        let (start, size) = (number()?, number()?);
        Some(Function {
            start,
            end: start.checked_add(size)?,
            name: words.next()?.to_owned(),
        })
    };
    let mut list: Vec<Function> = text.lines().filter_map(line).collect();
    list.sort_by_key(|made| made.start);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(address: u64, module: &str, base: u64) -> Frame {
        Frame {
            address,
            pid: std::process::id(),
            module: module.to_owned(),
            base,
            name: String::new(),
        }
    }

    #[test]
    fn a_function_of_this_program() {
        let here = list_of as *const () as u64;
        let own = crate::mappings::read(std::process::id());
        let mapping = own.iter().find(|mapping| mapping.contains(here)).unwrap();
        let first = own.iter().find(|other| other.name == mapping.name).unwrap();
        let mut frame = frame(here + 1, &mapping.name, first.start);
        Symbols::default().name(&mut frame);
        assert!(frame.name.contains("symbols::list_of"), "{}", frame.name);
    }

    #[test]
    fn functions_that_are_not_known() {
        let mut symbols = Symbols::default();
        let mut unknown = frame(0x1010, "/lib/none.so", 0x1000);
        symbols.name(&mut unknown);
        assert_eq!(unknown.name, "none.so+0x10");
        let mut made = frame(0x1010, "", 0);
        symbols.name(&mut made);
        assert_eq!(made.name, "0x1010");
    }

    #[test]
    fn the_limits_hold_for_many_files_and_processes() {
        let mut symbols = Symbols::default();
        let own = std::env::current_exe().unwrap();
        // The same program under many names.
        for number in 0..MAX_MODULES + 4 {
            let name = format!("{}{}", "/".repeat(number), own.display());
            symbols.name(&mut frame(0x1010, &name, 0x1000));
        }
        let open = symbols.modules.values().filter(|module| module.is_some());
        assert!(open.count() <= MAX_MODULES);
        for pid in 0..100 {
            let made = Frame {
                pid: u32::MAX - pid,
                ..frame(0x1010, "", 0)
            };
            symbols.name(&mut made.clone());
        }
        assert_eq!(symbols.lists.len(), MAX_LISTS);
    }

    #[test]
    fn lists_of_made_code() {
        let list = parse("20 10 py::b:/b.py\n0x10 8 LazyCompile:*a file.js:3\nbad\n");
        let names: Vec<&str> = list.iter().map(|made| made.name.as_str()).collect();
        assert_eq!(names, ["LazyCompile:*a file.js:3", "py::b:/b.py"]);
    }

    #[test]
    fn functions_of_lists_are_readable() {
        assert_eq!(readable("py::load:/srv/app/a.py"), "load (/srv/app/a.py)");
        assert_eq!(readable("JS:~load /srv/app/a.js:6:22"), "load (app/a.js:6)");
        assert_eq!(
            readable("JS:*get value node:fs:573:18"),
            "get value (node:fs:573)"
        );
        assert_eq!(
            readable("Script:~ /srv/app/a.js:1:1"),
            "top level (app/a.js:1)"
        );
        assert_eq!(readable("Builtin:Call"), "Builtin:Call");
    }
}
