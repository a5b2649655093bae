//! Functions on names.

use crate::support::{same, show};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn whole_files() {
    same!(|at, seen| {
        let name = at.join("file");
        seen.push(show(fs::read(&name).await));
        seen.push(show(fs::write(&name, "some text").await));
        seen.push(show(fs::read(&name).await));
        seen.push(show(fs::read_to_string(&name).await));
        seen.push(show(fs::write(&name, [0xff, 0xfe]).await));
        seen.push(show(fs::read_to_string(&name).await));
        for length in [0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 300_000] {
            let text = laio_testing::temp::pattern(length, 7);
            seen.push(show(fs::write(&name, &text).await));
            seen.push(format!("{}", fs::read(&name).await.unwrap() == text));
        }
        seen.push(show(fs::read(&at).await));
        seen.push(show(
            fs::read("with\0zero")
                .await
                .map_err(|error| error.kind().into()),
        ));
        seen.push(show(fs::write(at.join("no/such"), "x").await));
        // A file without a size.
        seen.push(format!(
            "{}",
            fs::read("/proc/self/status").await.unwrap().len() > 100
        ));
    });
}

#[test]
fn names_are_made_changed_and_removed() {
    same!(|at, seen| {
        let name = |name: &str| at.join(name);
        fs::write(name("a"), "a").await.unwrap();
        seen.push(show(fs::rename(name("a"), name("b")).await));
        seen.push(show(fs::rename(name("a"), name("b")).await));
        seen.push(show(fs::hard_link(name("b"), name("c")).await));
        seen.push(show(fs::hard_link(name("b"), name("c")).await));
        seen.push(show(fs::symlink("b", name("link")).await));
        seen.push(show(fs::read_link(name("link")).await));
        seen.push(show(fs::read_link(name("b")).await));
        seen.push(show(
            fs::canonicalize(name("link"))
                .await
                .map(|path| path.ends_with("b")),
        ));
        seen.push(show(fs::copy(name("b"), name("copy")).await));
        seen.push(show(fs::copy(name("none"), name("copy")).await));
        seen.push(show(fs::try_exists(name("copy")).await));
        seen.push(show(fs::try_exists(name("none")).await));
        seen.push(show(fs::try_exists(name("b/none")).await));
        seen.push(show(fs::create_dir(name("dir")).await));
        seen.push(show(fs::create_dir(name("dir")).await));
        seen.push(show(fs::create_dir(name("x/y")).await));
        seen.push(show(fs::create_dir_all(name("x/y/z")).await));
        seen.push(show(fs::create_dir_all(name("x/y/z")).await));
        seen.push(show(fs::create_dir_all(name("b/y")).await));
        seen.push(show(fs::create_dir_all("").await));
        let mut builder = fs::DirBuilder::new();
        seen.push(show(builder.mode(0o700).create(name("private")).await));
        let mode = fs::metadata(name("private"))
            .await
            .unwrap()
            .permissions()
            .mode();
        seen.push(format!("{mode:o}"));
        seen.push(show(builder.recursive(true).create(name("private")).await));
        seen.push(show(fs::remove_dir(name("x")).await));
        seen.push(show(fs::remove_file(name("dir")).await));
        seen.push(show(fs::remove_dir(name("dir")).await));
        seen.push(show(fs::remove_dir_all(name("x")).await));
        seen.push(show(fs::remove_dir_all(name("x")).await));
        seen.push(show(fs::remove_file(name("b")).await));
        seen.push(show(fs::remove_file(name("b")).await));
    });
}

#[test]
fn metadata_is_that_of_the_standard_library() {
    same!(|at, seen| {
        let name = at.join("file");
        fs::write(&name, "text").await.unwrap();
        fs::symlink("file", at.join("link")).await.unwrap();
        fs::symlink("nowhere", at.join("dangling")).await.unwrap();
        for path in [
            at.clone(),
            name.clone(),
            at.join("link"),
            at.join("dangling"),
            at.join("none"),
        ] {
            for found in [fs::metadata(&path).await, fs::symlink_metadata(&path).await] {
                seen.push(show(found.map(|found| {
                    let length = if found.is_dir() { 0 } else { found.len() };
                    (
                        found.file_type().is_symlink(),
                        found.is_file(),
                        length,
                        found.nlink() > 0,
                    )
                })));
            }
        }
        let mut permissions = fs::metadata(&name).await.unwrap().permissions();
        permissions.set_mode(0o640);
        seen.push(show(
            fs::set_permissions(at.join("link"), permissions.clone()).await,
        ));
        seen.push(format!("{:o}", fs::metadata(&name).await.unwrap().mode()));
        seen.push(show(
            fs::set_permissions(at.join("none"), permissions).await,
        ));
    });
}

#[test]
fn directories_are_listed() {
    same!(|at, seen| {
        seen.push(show(fs::read_dir(at.join("none")).await.map(|_| ())));
        for number in 0..300 {
            fs::write(at.join(format!("file {number}")), "x")
                .await
                .unwrap();
        }
        seen.push(show(fs::read_dir(at.join("file 7")).await.map(|_| ())));
        fs::create_dir(at.join("dir")).await.unwrap();
        fs::symlink("x", at.join("link")).await.unwrap();
        let mut entries = fs::read_dir(&at).await.unwrap();
        let mut found = Vec::new();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            assert_eq!(entry.path(), at.join(entry.file_name()));
            let metadata = entry.metadata().await.unwrap();
            assert_eq!(metadata.ino(), entry.ino());
            let file_type = entry.file_type().await.unwrap();
            assert_eq!(file_type, metadata.file_type());
            found.push(format!("{:?} {file_type:?}", entry.file_name()));
        }
        seen.push(show(
            entries.next_entry().await.map(|entry| entry.is_none()),
        ));
        found.sort();
        seen.extend(found);
    });
}

#[test]
fn options_open_as_those_of_tokio() {
    same!(|at, seen| {
        for bits in 0..64u32 {
            let is = |bit: u32| bits & (1 << bit) != 0;
            for present in [false, true] {
                let name = at.join("file");
                let _ = fs::remove_file(&name).await;
                if present {
                    fs::write(&name, "12345").await.unwrap();
                }
                let mut options = fs::OpenOptions::new();
                options.read(is(0)).write(is(1)).append(is(2));
                options
                    .truncate(is(3))
                    .create(is(4))
                    .create_new(is(5))
                    .mode(0o600);
                let opened = options.open(&name).await;
                let opened = opened.map(|_| ()).map_err(|error| error.kind());
                let after = fs::metadata(&name)
                    .await
                    .map(|found| (found.len(), found.mode() & 0o777));
                seen.push(format!(
                    "{bits:b} {present} {opened:?} {}",
                    show(after.map(|after| (after.0, present || after.1 == 0o600)))
                ));
            }
        }
        let mut options = fs::OpenOptions::from(std::fs::File::options().read(true).clone());
        seen.push(show(
            options
                .custom_flags(0)
                .open(at.join("none"))
                .await
                .map(|_| ()),
        ));
    });
}

/// Canonical paths, of names for which the kernel's own name of the file is no answer too.
#[test]
fn canonical_paths() {
    same!(|at, seen| {
        let canonical = std::fs::canonicalize(&at).unwrap();
        let below = |path: std::path::PathBuf| {
            path.strip_prefix(&canonical)
                .map(|path| path.to_owned())
                .ok()
        };
        fs::create_dir_all(at.join("dir/inner")).await.unwrap();
        fs::write(at.join("dir/file (deleted)"), "x").await.unwrap();
        fs::symlink("dir/inner", at.join("link")).await.unwrap();
        fs::symlink("loop", at.join("loop")).await.unwrap();
        fs::symlink("none", at.join("dangling")).await.unwrap();
        for name in [
            "",
            "dir",
            "dir/inner/../file (deleted)",
            "link/..",
            "link/.",
            "link/../none",
            "loop",
            "dangling",
            "dir/file (deleted)/x",
            "with\0zero",
        ] {
            let found = fs::canonicalize(at.join(name)).await.map(below);
            seen.push(show(found.map_err(|error| match error.raw_os_error() {
                Some(_) => error,
                None => error.kind().into(),
            })));
        }
        seen.push(show(
            fs::canonicalize("/proc/self/fd/../fd/../../1/../../").await,
        ));
        seen.push(show(fs::canonicalize("").await));
    });
}

/// A descriptor of a pipe has no path.
#[test]
fn a_pipe_has_no_canonical_path() {
    same!(|_at, seen| {
        let (from, _to) = laio_testing::temp::pipe();
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&from));
        seen.push(show(fs::canonicalize(link).await));
    });
}

#[test]
fn files_are_copied() {
    same!(|at, seen| {
        let name = |name: &str| at.join(name);
        // More than one piece, and exactly so many.
        for length in [0, 1, 8 << 20, (16 << 20) + 5] {
            let text = laio_testing::temp::pattern(length, 4);
            fs::write(name("from"), &text).await.unwrap();
            let mode = std::fs::Permissions::from_mode(0o640);
            fs::set_permissions(name("from"), mode).await.unwrap();
            seen.push(show(fs::copy(name("from"), name("to")).await));
            seen.push(format!("{}", fs::read(name("to")).await.unwrap() == text));
            let status = fs::metadata(name("to")).await.unwrap();
            seen.push(format!("{:o}", status.permissions().mode()));
        }
        let short = fs::copy("/proc/self/comm", name("to")).await;
        seen.push(format!("{}", short.unwrap() > 0));
        seen.push(show(fs::copy(&at, name("to")).await));
        seen.push(show(fs::copy(name("from"), &at).await));
        seen.push(show(fs::copy(name("from"), "/dev/null").await));
        seen.push(show(fs::copy(name("from"), name("no/such")).await));
    });
}

/// Links are removed, what they lead to stays.
#[test]
fn trees_are_removed() {
    same!(|at, seen| {
        let name = |name: &str| at.join(name);
        fs::create_dir_all(name("tree/a/b")).await.unwrap();
        fs::create_dir(name("kept")).await.unwrap();
        fs::write(name("kept/file"), "x").await.unwrap();
        fs::symlink("../../kept", name("tree/a/link"))
            .await
            .unwrap();
        fs::symlink("tree", name("link")).await.unwrap();
        seen.push(show(fs::remove_dir_all(name("kept/file")).await));
        seen.push(show(fs::try_exists(name("kept/file")).await));
        seen.push(show(fs::remove_dir_all(name("tree")).await));
        seen.push(show(fs::try_exists(name("tree")).await));
        seen.push(show(fs::read_to_string(name("kept/file")).await));
        seen.push(show(fs::symlink_metadata(name("link")).await.map(|_| ())));
        seen.push(show(fs::remove_dir_all(name("link")).await));
    });
}

/// `tokio::fs::File` has this method since tokio 1.54, and `Cargo.toml` allows older ones. Where the file has a method of
/// its own, the compiler takes that one.
#[allow(dead_code)]
trait SetModified {
    async fn set_modified(&self, time: std::time::SystemTime) -> std::io::Result<()>;
}

impl SetModified for tokio::fs::File {
    async fn set_modified(&self, time: std::time::SystemTime) -> std::io::Result<()> {
        let file = self.try_clone().await?.into_std().await;
        file.set_modified(time)
    }
}

#[test]
fn times_are_set() {
    use std::time::{Duration, UNIX_EPOCH};
    same!(|at, seen| {
        let name = at.join("file");
        fs::write(&name, "x").await.unwrap();
        let file = fs::File::options().write(true).open(&name).await.unwrap();
        for time in [
            UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789),
            UNIX_EPOCH,
            UNIX_EPOCH - Duration::from_secs(10),
            UNIX_EPOCH - Duration::new(10, 500_000_000),
        ] {
            seen.push(show(file.set_modified(time).await));
            let status = fs::metadata(&name).await.unwrap();
            seen.push(format!("{:?}", status.modified()));
        }
    });
}
