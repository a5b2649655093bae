//! The C library's binary interface: header, symbols and sources agree, and no other symbol is
//! visible.

#[path = "abi/header.rs"]
mod header;
mod tree;

use header::{Function, declared, exported, header, sources};
use laio_capi::{
    laio_aio_counts, laio_call, laio_completion, laio_counts, laio_info, laio_options, laio_range,
    laio_range_stats, laio_ranges, laio_stats,
};
use laio_testing::INAPPLICABLE;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::{Kind, Tree, target};
use xtask::library::{file_name, soname};
use xtask::programs::{output_of, run};

/// One node of symbol versions for each minor release.
const NODE: &str = "LAIO_0.1";

fn tree() -> &'static Tree {
    tree::tree().unwrap_or_else(|failure| panic!("{failure}"))
}

/// The shared library. musl has none on a machine with another C library; the test is skipped then.
fn shared() -> Option<PathBuf> {
    if !target().expect("the compiler's target").can_be_shared() {
        laio_testing::skip(INAPPLICABLE, "liblaio.so is not built for this target");
        return None;
    }
    Some(tree().libdir().join(file_name()))
}

fn archive() -> PathBuf {
    tree().prefix(Kind::Archive).join("lib/liblaio.a")
}

/// The output of a program of the binutils for a file.
fn said_by(tool: &str, arguments: &[&str], file: &Path) -> String {
    let mut command = tree().compiler.tool(tool).expect("the binutils");
    output_of(command.args(arguments).arg(file)).expect("a file that it understands")
}

/// The names in the output of nm, whose other columns come before them.
fn names(said: &str) -> BTreeSet<String> {
    let lines = said.lines().filter(|line| line.contains(' '));
    let names = lines.filter_map(|line| line.split_whitespace().last());
    names.map(str::to_owned).collect()
}

fn declared_names() -> BTreeSet<String> {
    declared(&header()).into_keys().collect()
}

#[test]
fn functions_are_in_rust_as_in_the_header() {
    let mut exported = exported(&sources());
    // Variadic in C; the source explains why this is the same.
    let syscall = exported.get_mut("laio_syscall").expect("it is exported");
    assert_eq!(syscall.parameters.len(), 7);
    syscall.parameters = vec!["long".to_owned(), "...".to_owned()];
    let declared = declared(&header());
    assert!(declared.len() > 20, "{declared:?}");
    let differ = |name: &&String| declared.get(*name) != exported.get(*name);
    let all: BTreeSet<_> = declared.keys().chain(exported.keys()).collect();
    let differences: BTreeMap<_, [Option<&Function>; 2]> = all
        .into_iter()
        .filter(differ)
        .map(|name| (name, [declared.get(name), exported.get(name)]))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn symbols_are_those_of_the_header() {
    let declared = declared_names();

    let map = std::fs::read_to_string(xtask::capi().join("laio.map")).expect("the map");
    assert!(map.starts_with(NODE));
    let listed = map.split([';', ':', '{']).map(str::trim);
    let listed = listed.filter(|word| word.starts_with("laio_"));
    assert_eq!(
        listed.map(str::to_owned).collect::<BTreeSet<_>>(),
        declared,
        "laio.map"
    );

    let visible = names(&said_by(
        "nm",
        &["--extern-only", "--defined-only"],
        &archive(),
    ));
    assert_eq!(visible, declared, "liblaio.a");

    let Some(shared) = shared() else {
        return;
    };
    let arguments = ["--dynamic", "--defined-only", "--with-symbol-versions"];
    let mut visible = names(&said_by("nm", &arguments, &shared));
    // GNU ld makes a symbol of the node's name.
    visible.remove(NODE);
    let versioned = declared.iter().map(|name| format!("{name}@@{NODE}"));
    assert_eq!(visible, versioned.collect(), "liblaio.so");
}

#[test]
fn the_shared_library_is_hardened_and_stays_loaded() {
    let Some(shared) = shared() else {
        return;
    };
    let dynamic = said_by("readelf", &["--dynamic", "--wide"], &shared);
    assert!(
        dynamic.contains(&format!("soname: [{}]", soname())),
        "{dynamic}"
    );
    assert!(!dynamic.contains("TEXTREL"), "{dynamic}");
    assert!(
        !dynamic.contains("RPATH") && !dynamic.contains("RUNPATH"),
        "{dynamic}"
    );
    assert!(
        dynamic.contains("BIND_NOW") || dynamic.contains("NOW"),
        "{dynamic}"
    );
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .collect();
    let known = ["[libc.", "[libgcc_s.", "[libunwind.", "[ld-"];
    let is_known = |line: &&str| known.iter().any(|name| line.contains(name));
    assert!(needed.iter().all(is_known), "{needed:?}");

    let segments = said_by("readelf", &["--program-headers", "--wide"], &shared);
    let segments = segments.lines().map(str::trim);
    let stack = segments.clone().find(|line| line.starts_with("GNU_STACK"));
    assert!(stack.is_some_and(|line| line.contains(" RW ")), "{stack:?}");
    assert!(segments.clone().any(|line| line.starts_with("GNU_RELRO")));
    assert!(
        !segments
            .clone()
            .any(|line| line.starts_with("LOAD") && line.contains(" RWE "))
    );

    let sections = said_by("readelf", &["--section-headers", "--wide"], &shared);
    assert!(
        !sections.contains(".debug_info"),
        "the library contains debugging information"
    );
}

/// The fields of a struct: name, offset, size. Does not compile if one is missing.
macro_rules! layout {
    ($name:ident { $($field:ident),* $(,)? }) => {{
        fn all_of_them(value: $name) {
            let $name { $($field: _),* } = value;
        }
        let _ = all_of_them;
        fn size<T, F>(_: fn(&T) -> &F) -> usize {
            size_of::<F>()
        }
        Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            align: align_of::<$name>(),
            fields: vec![$((
                stringify!($field),
                offset_of!($name, $field),
                size(|value: &$name| &value.$field),
            )),*],
        }
    }};
}

struct Layout {
    name: &'static str,
    size: usize,
    align: usize,
    fields: Vec<(&'static str, usize, usize)>,
}

fn layouts() -> Vec<Layout> {
    vec![
        layout!(laio_completion {
            laio_handle,
            laio_return_value,
            laio_errno,
            laio_reserved,
            laio_user,
        }),
        layout!(laio_options {
            size,
            flags,
            backend,
            operations,
            helpers,
            ring_entries,
            inline_budget,
            cancel_signal,
            short_transfer,
            carriers,
            detector,
            waiting_helpers,
            spin_us,
        }),
        // These structs of the engine have private fields; the programs in tests/c check them.
        Layout {
            name: "laio_status",
            size: size_of::<laio::StatusWord>(),
            align: align_of::<laio::StatusWord>(),
            fields: vec![
                ("laio_state", 0, 4),
                ("laio_reserved", 4, 4),
                ("laio_return_value", 8, size_of::<libc::c_long>()),
            ],
        },
        layout!(laio_call {
            size,
            flags,
            number,
            args,
            user,
            timeout,
            status,
        }),
        layout!(laio_range {
            offset,
            buffer,
            length,
            laio_return_value,
            laio_errno,
            laio_reserved,
        }),
        layout!(laio_range_stats {
            size,
            direct,
            reason,
            reads,
            direct_reads,
            direct_bytes,
            cached_reads,
            cached_bytes,
            found_in_cache,
            read_before,
            file_ends,
            repeated,
        }),
        layout!(laio_ranges {
            size,
            flags,
            fd,
            depth,
            ranges,
            count,
            user,
            timeout,
            stats,
        }),
        layout!(laio_counts {
            inline_done,
            background,
            fallback,
            latched,
        }),
        layout!(laio_aio_counts {
            requests,
            declined,
            refused,
            bounced,
            submissions,
            blocked,
            blocked_ns,
        }),
        layout!(laio_stats {
            size,
            operations_max,
            calls,
            operations,
            completions,
            cancelled,
            timed_out,
            limited,
            over_budget,
            sleeps,
            submissions,
            aio,
            handoffs,
            false_wakeups,
            spins,
            helper_wakeups,
            unanswered,
            hung_mounts,
        }),
        layout!(laio_info {
            size,
            flags,
            backend,
            operations,
            helpers,
            ring_entries,
            inline_budget,
            pending,
            helper_threads,
            memory,
            carriers,
            carrier_threads,
            waiting_helpers,
            spin_us,
        }),
    ]
}

#[test]
fn structs_are_in_rust_as_in_the_header() {
    let header = header();
    let layouts = layouts();
    let names: Vec<&str> = layouts.iter().map(|layout| layout.name).collect();
    assert_eq!(header::structs(&header), names);

    let mut program = String::from(
        "#include <laio.h>\n#include <stddef.h>\n\
         #define IS(what, value) _Static_assert((what) == (value), #what \" is not \" #value)\n",
    );
    for Layout {
        name,
        size,
        align,
        fields,
    } in layouts
    {
        let in_rust: Vec<&str> = fields.iter().map(|field| field.0).collect();
        assert_eq!(header::fields(&header, name), in_rust, "struct {name}");
        program += &format!("IS(sizeof(struct {name}), {size});\n");
        program += &format!("IS(_Alignof(struct {name}), {align});\n");
        for (field, offset, size) in fields {
            program += &format!("IS(offsetof(struct {name}, {field}), {offset});\n");
            program += &format!("IS(sizeof(((struct {name} *)0)->{field}), {size});\n");
        }
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("layouts.c");
    std::fs::write(&source, program).expect("a file");
    let mut compile = tree().compiler.command();
    compile.args(["-std=c11", "-fsyntax-only", "-I"]);
    compile.arg(xtask::capi().join("include")).arg(source);
    run(&mut compile).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn flags_are_in_rust_as_in_the_header() {
    let defined = header::defined_flags(&header());
    assert!(defined.len() > 5, "{defined:?}");
    assert_eq!(header::constant_flags(&sources()), defined);
}

#[test]
fn the_version_is_everywhere_the_same() {
    let header = header();
    let part = |name: &str| header::macro_value(&header, &format!("LAIO_VERSION_{name}"));
    let version = [part("MAJOR"), part("MINOR"), part("PATCH")].join(".");
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(xtask::VERSION, version);
    assert_eq!(NODE, format!("LAIO_{}.{}", part("MAJOR"), part("MINOR")));
}

#[test]
fn laio_pc_names_what_the_archive_needs() {
    let file = tree().packages(Kind::Archive).join("laio.pc");
    let text = std::fs::read_to_string(file).expect("laio.pc");
    assert!(!text.contains('@'), "{text}");
    let private = text
        .lines()
        .find_map(|line| line.strip_prefix("Libs.private: "));
    let mut named: Vec<&str> = private.expect("the line").split(' ').collect();
    // The compiler adds it.
    named.push("-lgcc_s");
    let mut needed: Vec<&str> = tree().library.needed.iter().map(String::as_str).collect();
    named.sort_unstable();
    needed.sort_unstable();
    assert_eq!(named, needed);
}

/// Each archive contains a whole Rust library, and one of them unwinds.
#[test]
fn another_rust_archive_fits_in_the_same_program() {
    const OTHER: &str = "#[unsafe(no_mangle)]
        pub extern \"C\" fn other() -> i32 {
            std::panic::catch_unwind(|| panic!(\"caught\")).is_err() as i32
        }";
    const PROGRAM: &str = "#include <laio.h>
        #include <unistd.h>
        #include <sys/syscall.h>
        int other(void);
        int main(void)
        {
            return other() == 1 && laio_syscall(SYS_getpid) == getpid() ? 0 : 1;
        }";
    let target = target().expect("the compiler's target");
    if !target.can_be_shared() {
        // liblaio.a contains an unwinder, which is hidden; the other archive would need one of its own.
        return laio_testing::skip(INAPPLICABLE, "musl-gcc has no unwinder for Rust");
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    std::fs::write(path("other.rs"), OTHER).expect("a file");
    std::fs::write(path("program.c"), PROGRAM).expect("a file");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile.args(["--edition=2024", "--crate-type=staticlib"]);
    compile.args(target.option()).args(target.static_option());
    compile.arg("-o");
    compile.arg(path("libother.a")).arg(path("other.rs"));
    run(&mut compile).unwrap_or_else(|failure| panic!("{failure}"));

    let private = tree().library.private();
    for archives in [
        [archive(), path("libother.a")],
        [path("libother.a"), archive()],
    ] {
        let mut link = tree().compiler.command();
        link.arg("-I")
            .arg(xtask::capi().join("include"))
            .arg(path("program.c"));
        link.args(archives)
            .args(&private)
            .arg("-o")
            .arg(path("program"));
        run(&mut link).unwrap_or_else(|failure| panic!("{failure}"));
        run(&mut Command::new(path("program"))).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
