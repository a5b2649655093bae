//! Random programs of calls on files and names, with `tokio::fs` and with `laio_tokio::fs` in a directory each:
//! all results and the trees that are left are the same.

use crate::support::{Seen, directory, each_runtime, show};
use laio_testing::{Random, extent};
use std::fmt::Write as _;
use std::io::SeekFrom;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

/// The name of the variable with the number of programs; they have a new seed each time then, or that of
/// `LAIO_TEST_SEED`.
const PROGRAMS: &str = "LAIO_TEST_PROGRAMS";

#[test]
fn random_programs_see_the_same() {
    let (mut random, programs) = match std::env::var(PROGRAMS) {
        Ok(count) => (Random::for_test(), count.parse().expect("a number")),
        Err(_) => (Random::new(1), extent::cases(60, 20)),
    };
    let runtimes = each_runtime();
    for number in 0..programs {
        let program: Vec<_> = (0..random.between(5..60))
            .map(|_| Step::random(&mut random))
            .collect();
        let ((_kept, one), (_kept_too, other)) = (directory(), directory());
        let runtime = &runtimes[number as usize % 2];
        let expected = runtime.block_on(with_tokio::run(&program, &one));
        let found = runtime.block_on(with_laio::run(&program, &other));
        for (number, step) in program.iter().enumerate() {
            assert_eq!(
                expected[number], found[number],
                "step {number}, {step:?}, of {program:#?}"
            );
        }
        let (mut expected, mut found) = (String::new(), String::new());
        list(&one, &mut expected);
        list(&other, &mut found);
        assert_eq!(expected, found, "the trees after {program:#?}");
    }
}

/// A call. Names are numbers of [`NAMES`], files numbers of open files.
#[derive(Clone, Debug)]
enum Step {
    Open(usize, usize, u32),
    Close(usize),
    Read(usize, usize),
    ReadAll(usize),
    Write(usize, usize, u64),
    Seek(usize, SeekFrom),
    SetLength(usize, u64),
    Sync(usize, bool),
    FileMetadata(usize),
    FileMode(usize, u32),
    TryClone(usize, usize),
    ReadName(usize),
    WriteName(usize, usize),
    Copy(usize, usize),
    Rename(usize, usize),
    Link(usize, usize),
    Symlink(&'static str, usize),
    ReadLink(usize),
    RemoveFile(usize),
    RemoveDir(usize),
    RemoveAll(usize),
    CreateDir(usize),
    CreateAll(usize),
    Metadata(usize),
    SymlinkMetadata(usize),
    Exists(usize),
    Mode(usize, u32),
    List(usize),
    Canonicalize(usize),
}

const NAMES: [&str; 10] = [
    "a", "b", "d", "d/a", "d/b", "d/e", "d/e/f", "l", "none/x", "a/b",
];
const FILES: usize = 4;
const LENGTHS: [usize; 6] = [0, 1, 100, 4096, 10_000, 150_000];

impl Step {
    fn random(random: &mut Random) -> Step {
        let name = |random: &mut Random| random.below(NAMES.len());
        let file = |random: &mut Random| random.below(FILES);
        let length = |random: &mut Random| *random.pick(&LENGTHS);
        let mode = |random: &mut Random| *random.pick(&[0o600, 0o644, 0o755, 0o700]);
        match random.below(40) {
            0..=3 => Step::Open(file(random), name(random), random.below(64) as u32),
            4 => Step::Close(file(random)),
            5..=7 => Step::Read(file(random), length(random)),
            8 => Step::ReadAll(file(random)),
            9..=12 => Step::Write(file(random), length(random), random.bits()),
            13 | 14 => {
                let offset = random.below(12_000) as i64 - 2000;
                Step::Seek(
                    file(random),
                    match random.below(3) {
                        0 => SeekFrom::Start(offset.unsigned_abs()),
                        1 => SeekFrom::End(offset),
                        _ => SeekFrom::Current(offset),
                    },
                )
            }
            15 => Step::SetLength(file(random), random.below(20_000) as u64),
            16 => Step::Sync(file(random), random.chance(1, 2)),
            17 => Step::FileMetadata(file(random)),
            18 => Step::FileMode(file(random), mode(random)),
            19 => Step::TryClone(file(random), file(random)),
            20 | 21 => Step::ReadName(name(random)),
            22 | 23 => Step::WriteName(name(random), length(random)),
            24 => Step::Copy(name(random), name(random)),
            25 => Step::Rename(name(random), name(random)),
            26 => Step::Link(name(random), name(random)),
            27 => {
                let target = *random.pick(&["a", "d", "e", "nowhere", "l"]);
                Step::Symlink(target, name(random))
            }
            28 => Step::ReadLink(name(random)),
            29 => Step::RemoveFile(name(random)),
            30 => Step::RemoveDir(name(random)),
            31 => Step::RemoveAll(name(random)),
            32 => Step::CreateDir(name(random)),
            33 => Step::CreateAll(name(random)),
            34 => Step::Metadata(name(random)),
            35 => Step::SymlinkMetadata(name(random)),
            36 => Step::Exists(name(random)),
            37 => Step::Mode(name(random), mode(random)),
            38 => Step::List(name(random)),
            _ => Step::Canonicalize(name(random)),
        }
    }
}

/// What metadata must be the same: not times, inodes and devices, nor the size of a directory.
fn show_metadata(found: std::io::Result<std::fs::Metadata>) -> String {
    show(found.map(|found| {
        let length = if found.is_dir() { 0 } else { found.len() };
        (
            found.file_type().is_symlink(),
            format!("{:o}", found.mode()),
            length,
            found.nlink(),
        )
    }))
}

/// A tree as text.
fn list(at: &Path, text: &mut String) {
    let mut entries: Vec<_> = std::fs::read_dir(at)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap();
        let found = std::fs::symlink_metadata(&path).unwrap();
        let file_type = found.file_type();
        writeln!(text, "{name:?} {}", show_metadata(Ok(found))).unwrap();
        if file_type.is_symlink() {
            writeln!(text, "-> {:?}", std::fs::read_link(&path)).unwrap();
        } else if file_type.is_dir() {
            list(&path, text);
            writeln!(text, "end of {name:?}").unwrap();
        } else {
            writeln!(text, "{}", sum(&std::fs::read(&path).unwrap())).unwrap();
        }
    }
}

/// Length and sum of bytes.
fn sum(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(7u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("{} bytes, {sum:x}", bytes.len())
}

/// The interpreter, once for each crate.
macro_rules! interpreter {
    ($module:ident, $fs:path) => {
        mod $module {
            use super::*;
            use $fs as fs;

            pub(super) async fn run(program: &[Step], at: &Path) -> Seen {
                let mut files: [Option<fs::File>; FILES] = Default::default();
                let mut seen = Seen::new();
                for step in program {
                    seen.push(make(step, at, &mut files).await);
                }
                seen
            }

            async fn make(step: &Step, at: &Path, files: &mut [Option<fs::File>; FILES]) -> String {
                let name = |number: &usize| at.join(NAMES[*number]);
                match step {
                    Step::Open(file, number, bits) => {
                        let is = |bit: u32| bits & (1 << bit) != 0;
                        let mut options = fs::OpenOptions::new();
                        options.read(is(0)).write(is(1)).append(is(2));
                        options
                            .truncate(is(3))
                            .create(is(4))
                            .create_new(is(5) && is(4));
                        match options.open(name(number)).await {
                            Ok(opened) => {
                                files[*file] = Some(opened);
                                "opened".to_owned()
                            }
                            Err(error) => format!("{:?}", error.kind()),
                        }
                    }
                    Step::ReadName(number) => {
                        show(fs::read(name(number)).await.map(|bytes| sum(&bytes)))
                    }
                    Step::WriteName(number, length) => {
                        let bytes = laio_testing::temp::pattern(*length, 17);
                        show(fs::write(name(number), bytes).await)
                    }
                    Step::Copy(from, to) => show(fs::copy(name(from), name(to)).await),
                    Step::Rename(from, to) => show(fs::rename(name(from), name(to)).await),
                    Step::Link(from, to) => show(fs::hard_link(name(from), name(to)).await),
                    Step::Symlink(target, number) => show(fs::symlink(target, name(number)).await),
                    Step::ReadLink(number) => show(fs::read_link(name(number)).await),
                    Step::RemoveFile(number) => show(fs::remove_file(name(number)).await),
                    Step::RemoveDir(number) => show(fs::remove_dir(name(number)).await),
                    Step::RemoveAll(number) => show(fs::remove_dir_all(name(number)).await),
                    Step::CreateDir(number) => show(fs::create_dir(name(number)).await),
                    Step::CreateAll(number) => show(fs::create_dir_all(name(number)).await),
                    Step::Metadata(number) => show_metadata(fs::metadata(name(number)).await),
                    Step::SymlinkMetadata(number) => {
                        show_metadata(fs::symlink_metadata(name(number)).await)
                    }
                    Step::Exists(number) => show(fs::try_exists(name(number)).await),
                    Step::Mode(number, mode) => {
                        let permissions = std::fs::Permissions::from_mode(*mode);
                        show(fs::set_permissions(name(number), permissions).await)
                    }
                    Step::List(number) => {
                        let mut entries = match fs::read_dir(name(number)).await {
                            Ok(entries) => entries,
                            Err(error) => return show::<()>(Err(error)),
                        };
                        let mut found = Vec::new();
                        while let Some(entry) = entries.next_entry().await.unwrap() {
                            let file_type = entry.file_type().await.unwrap();
                            found.push(format!("{:?} {file_type:?}", entry.file_name()));
                        }
                        found.sort();
                        format!("{found:?}")
                    }
                    Step::Canonicalize(number) => {
                        let root = std::fs::canonicalize(at).unwrap();
                        let found = fs::canonicalize(name(number)).await;
                        show(found.map(|path| path.strip_prefix(&root).unwrap().to_owned()))
                    }
                    Step::Close(file) => {
                        if let Some(mut file) = files[*file].take() {
                            file.flush().await.unwrap();
                        }
                        String::new()
                    }
                    Step::TryClone(from, to) => match &files[*from] {
                        Some(file) => {
                            files[*to] = Some(file.try_clone().await.unwrap());
                            "cloned".to_owned()
                        }
                        None => String::new(),
                    },
                    Step::Read(file, ..)
                    | Step::ReadAll(file)
                    | Step::Write(file, ..)
                    | Step::Seek(file, _)
                    | Step::SetLength(file, _)
                    | Step::Sync(file, _)
                    | Step::FileMetadata(file)
                    | Step::FileMode(file, _) => match &mut files[*file] {
                        Some(file) => on_file(step, file).await,
                        None => String::new(),
                    },
                }
            }

            async fn on_file(step: &Step, file: &mut fs::File) -> String {
                match step {
                    Step::Read(_, length) => {
                        // One call may return fewer bytes than there are.
                        let mut bytes = Vec::new();
                        let read = file.take(*length as u64).read_to_end(&mut bytes).await;
                        show(read.map(|_| sum(&bytes)))
                    }
                    Step::ReadAll(_) => {
                        let mut bytes = Vec::new();
                        show(file.read_to_end(&mut bytes).await.map(|_| sum(&bytes)))
                    }
                    Step::Write(_, length, seed) => {
                        let bytes = laio_testing::temp::pattern(*length, *seed);
                        // Which of the two reports an error is not specified.
                        let written = file.write_all(&bytes).await;
                        let flushed = file.flush().await;
                        show(written.and(flushed).map_err(|error| error.kind().into()))
                    }
                    Step::Seek(_, position) => show(file.seek(*position).await),
                    Step::SetLength(_, length) => show(
                        file.set_len(*length)
                            .await
                            .map_err(|error| error.kind().into()),
                    ),
                    Step::Sync(_, true) => show(file.sync_all().await),
                    Step::Sync(_, false) => show(file.sync_data().await),
                    Step::FileMetadata(_) => show_metadata(file.metadata().await),
                    Step::FileMode(_, mode) => {
                        let permissions = std::fs::Permissions::from_mode(*mode);
                        show(file.set_permissions(permissions).await)
                    }
                    _ => unreachable!("not on a file"),
                }
            }
        }
    };
}

interpreter!(with_tokio, tokio::fs);
interpreter!(with_laio, laio_tokio::fs);
