//! Whose rights calls in the background have.

use laio_testing::sandbox::{may_change_user, set_effective_user};
use laio_testing::temp::scratch;
use laio_testing::{child, test_name};
use laio_tokio::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// How calls ended: of `std` and of this crate, each on names of its own.
async fn compare(directory: &Path, stage: &str) -> Option<ErrorKind> {
    let plain = directory.join(format!("plain-{stage}"));
    let here = directory.join(format!("laio-{stage}"));
    let kind = |result: std::io::Result<()>| result.err().map(|error| error.kind());
    let made = kind(std::fs::create_dir(&plain));
    assert_eq!(made, kind(fs::create_dir(&here).await), "{stage}");
    let text = |of: &Path| of.join("file");
    let written = kind(std::fs::write(text(&plain), "text"));
    assert_eq!(
        written,
        kind(fs::write(text(&here), "text").await),
        "{stage}"
    );
    let secret = directory.join("secret");
    let opened = kind(std::fs::File::open(&secret).map(drop));
    let opened_here = kind(fs::File::open(&secret).await.map(drop));
    assert_eq!(opened, opened_here, "{stage}");
    let removed = kind(std::fs::remove_dir_all(&plain));
    assert_eq!(removed, kind(fs::remove_dir_all(&here).await), "{stage}");
    made
}

async fn all_threads_give_up_rights() {
    let directory = scratch();
    let path = directory.path();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("its owner");
    std::fs::write(path.join("secret"), "a").expect("written");
    std::fs::set_permissions(path.join("secret"), PermissionsExt::from_mode(0o600)).expect("owner");
    assert_eq!(compare(path, "before").await, None);
    set_effective_user(65534);
    for round in 0..3 {
        let refused = compare(path, &format!("changed-{round}")).await;
        assert_eq!(refused, Some(ErrorKind::PermissionDenied));
    }
    set_effective_user(0);
    assert_eq!(compare(path, "back").await, None);
}

#[test]
fn what_all_threads_give_up_is_given_up_in_the_background() {
    if !may_change_user() {
        return laio_testing::skip("root", "only root has rights to give up");
    }
    for rights in [None, Some(laio::Rights::Thread)] {
        child::check(LIMIT, test_name!(), &format!("{rights:?}"), || {
            if let Some(rights) = rights {
                let options = laio::Options::new().rights(rights);
                let proactor = laio::Proactor::new(options).expect("a proactor");
                laio_tokio::install(proactor).expect("the first");
            }
            for mut builder in [
                tokio::runtime::Builder::new_current_thread(),
                tokio::runtime::Builder::new_multi_thread(),
            ] {
                let runtime = builder.enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    let task = tokio::spawn(all_threads_give_up_rights());
                    task.await.expect("no panic");
                });
            }
            let one_shots = laio_tokio::proactor().expect("made").stats().one_shots;
            assert!(
                rights.is_some() || one_shots == 0,
                "{one_shots} threads for one call"
            );
        });
    }
}
