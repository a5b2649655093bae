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
