//! What a path owns lives until the call is over, and all futures are `Send` and `Sync`, as those of `tokio::fs`.

use crate::support::{directory, on_each_runtime};
use laio_tokio::fs;
use std::future::Future;
use std::path::{Path, PathBuf};

/// A path that removes its file when dropped, as `tempfile::TempPath` does.
struct Owning(PathBuf);

impl AsRef<Path> for Owning {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Owning {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shared<F: Future + Send + Sync>(future: F) -> F {
    future
}

#[test]
fn a_path_lives_until_its_call_is_over() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let file = || {
            std::fs::write(at.join("file"), "text").unwrap();
            Owning(at.join("file"))
        };
        let dir = || {
            std::fs::create_dir(at.join("dir")).unwrap();
            Owning(at.join("dir"))
        };
        let options = || {
            let mut options = fs::OpenOptions::new();
            options.read(true);
            options
        };
        let free = |name: &str| at.join(name);
        // As one expression each: nothing else keeps the path alive.
        shared(fs::File::open(file())).await.unwrap();
        shared(options().open(file())).await.unwrap();
        let std: fs::OpenOptions = std::fs::File::options().read(true).clone().into();
        shared(std.open(file())).await.unwrap();
        assert_eq!(shared(fs::read(file())).await.unwrap(), b"text");
        assert_eq!(shared(fs::read_to_string(file())).await.unwrap(), "text");
        shared(fs::metadata(file())).await.unwrap();
        shared(fs::symlink_metadata(file())).await.unwrap();
        assert!(shared(fs::try_exists(file())).await.unwrap());
        shared(fs::canonicalize(file())).await.unwrap();
        shared(fs::set_permissions(
            file(),
            std::fs::metadata(&at).unwrap().permissions(),
        ))
        .await
        .unwrap();
        shared(fs::remove_file(file())).await.unwrap();
        shared(fs::rename(file(), Owning(free("renamed"))))
            .await
            .unwrap();
        shared(fs::hard_link(file(), Owning(free("linked"))))
            .await
            .unwrap();
        shared(fs::symlink(file(), Owning(free("symlink"))))
            .await
            .unwrap();
        assert_eq!(
            shared(fs::copy(file(), Owning(free("copy"))))
                .await
                .unwrap(),
            4
        );
        shared(fs::remove_dir(dir())).await.unwrap();
        shared(fs::remove_dir_all(dir())).await.unwrap();
        drop(shared(fs::read_dir(dir())).await.unwrap());
        shared(fs::write(Owning(free("written")), "text"))
            .await
            .unwrap();
        shared(fs::write_atomic(Owning(free("written")), "text"))
            .await
            .unwrap();
        shared(fs::create_dir(Owning(free("made")))).await.unwrap();
        shared(fs::create_dir_all(Owning(free("made/below"))))
            .await
            .unwrap();
        std::os::unix::fs::symlink("target", at.join("link")).unwrap();
        let link = Owning(at.join("link"));
        assert_eq!(
            shared(fs::read_link(link)).await.unwrap(),
            Path::new("target")
        );
        // The methods of a file that go to a helper or to a driver.
        let mut made = shared(fs::File::create(free("last"))).await.unwrap();
        shared(made.set_len(10)).await.unwrap();
        shared(made.sync_all()).await.unwrap();
        shared(made.metadata()).await.unwrap();
        shared(made.try_clone()).await.unwrap();
        shared(made.set_times(fs::FileTimes::new())).await.unwrap();
        made.set_max_buf_size(7);
        shared(made.into_std()).await;
        let mut entries = fs::read_dir(&at).await.unwrap();
        let entry = shared(entries.next_entry()).await.unwrap().unwrap();
        shared(entry.metadata()).await.unwrap();
        shared(entry.file_type()).await.unwrap();
    });
}
