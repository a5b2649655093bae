//! The configurations of sites in `examples/sites`: they can be loaded, and refuse what they guard.

use crate::common::{succeeded, text};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A site whose files are in a temporary directory.
struct Example(TempDir);

impl Example {
    /// Makes the directories that a configuration names, and these files below `/srv`.
    fn new(name: &str, files: &[&str]) -> Example {
        let dir = tempfile::tempdir().unwrap();
        let source = format!(
            "{}/../../examples/sites/{name}.toml",
            env!("CARGO_MANIFEST_DIR")
        );
        let source = fs::read_to_string(source).unwrap();
        let here = dir.path().to_str().unwrap();
        fs::write(dir.path().join("laio.toml"), source.replace("/srv", here)).unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, *file).unwrap();
        }
        Example(dir)
    }

    fn serve(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        let config = self.0.path().join("laio.toml");
        command.arg("serve").arg("--config").arg(config).args(flags);
        command.env_remove("LAIO_BACKEND");
        command
    }

    /// Returns the status of an answer; none if an upstream or a program would answer.
    fn status(&self, path: &str) -> Option<u64> {
        let url = format!("http://site.example{path}");
        let output = self
            .serve(&["--explain-json", "--explain", &url])
            .output()
            .unwrap();
        succeeded(&output);
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["response"]["status"].as_u64()
    }

    fn assert_statuses(&self, status: Option<u64>, paths: &[&str]) {
        for path in paths {
            assert_eq!(self.status(path), status, "{path}");
        }
    }
}

#[test]
fn each_configuration_can_be_loaded() {
    let directory = format!("{}/../../examples/sites", env!("CARGO_MANIFEST_DIR"));
    let mut names = Vec::new();
    for file in fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        names.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        let site = Example::new(names.last().unwrap(), &[]);
        let source = fs::read_to_string(site.0.path().join("laio.toml")).unwrap();
        for line in source.lines().filter(|line| line.starts_with("root = ")) {
            fs::create_dir_all(Path::new(line.split('"').nth(1).unwrap())).unwrap();
        }
        let output = site.serve(&["--check"]).output().unwrap();
        succeeded(&output);
        assert!(
            text(&output.stderr).ends_with("ok\n"),
            "{}",
            text(&output.stderr)
        );
    }
    names.sort_unstable();
    assert_eq!(names, ["django", "laravel", "nextcloud", "wordpress"]);
}

#[test]
fn what_wordpress_guards() {
    let files = [
        "index.php",
        "wp-config.php",
        "wp-config.php.bak",
        "xmlrpc.php",
        "backup.sql",
        ".git/config",
        "wp-content/uploads/a.php",
        "wp-content/uploads/a.jpg",
    ];
    let files = files.map(|file| format!("wordpress/{file}"));
    let site = Example::new("wordpress", &files.each_ref().map(String::as_str));
    let refused = [
        "/.git/config",
        "/.%67it/config",
        "/.GIT/config",
        "/x/.env",
        "/backup.sql",
        "/Backup%2eSQL?x",
        "/wp-config.php",
        "/wp-config.php.bak",
        "/xmlrpc.php",
        "/xmlrpc.php/x",
        "/wp-content/uploads/a.php",
        "/wp-content//uploads/A.PHP/x",
    ];
    site.assert_statuses(Some(403), &refused);
    site.assert_statuses(Some(200), &["/wp-content/uploads/a.jpg"]);
    site.assert_statuses(None, &["/", "/index.php/x", "/2026/11/title/"]);
}

#[test]
fn what_laravel_guards() {
    let files = [
        "laravel/public/index.php",
        "laravel/public/robots.txt",
        "laravel/public/.env",
        "laravel/storage/app/public/a.php",
        "laravel/storage/app/public/a.jpg",
    ];
    let site = Example::new("laravel", &files);
    site.assert_statuses(
        Some(403),
        &[
            "/.env",
            "/%2eenv",
            "/storage/a.php",
            "/storage/A.PHP",
            "/storage/a.php/x",
        ],
    );
    site.assert_statuses(Some(200), &["/storage/a.jpg", "/robots.txt"]);
    site.assert_statuses(None, &["/", "/users/1"]);
}

#[test]
fn what_django_guards() {
    let files = [
        "django/public/robots.txt",
        "django/public/.env",
        "django/static/a.css",
        "django/media/a.html",
        "django/media/a.jpg",
        "django/static/favicon.ico",
    ];
    let site = Example::new("django", &files);
    let refused = [
        "/.env",
        "/api/.git/config",
        "/static/.hidden",
        "/api/dump.sql",
        "/api/Dump.SQL",
        "/media/a.html",
        "/media/%61.HTML",
        "/admin/login/",
        "/%41dmin/",
        "/internal/x",
    ];
    site.assert_statuses(Some(403), &refused);
    site.assert_statuses(
        Some(200),
        &[
            "/robots.txt",
            "/static/a.css",
            "/media/a.jpg",
            "/favicon.ico",
        ],
    );
    site.assert_statuses(None, &["/", "/login"]);
}

#[test]
fn what_nextcloud_guards() {
    let files = [
        "nextcloud/index.php",
        "nextcloud/remote.php",
        "nextcloud/lib/base.php",
        "nextcloud/config/config.php",
        "nextcloud/data/a/files/secret.txt",
        "nextcloud/core/img/logo.svg",
        "nextcloud/occ",
    ];
    let site = Example::new("nextcloud", &files);
    let refused = [
        "/config/config.php",
        "/Config/config.php",
        "/%63onfig/config.php",
        "/data/a/files/secret.txt",
        "/lib/base.php",
        "/lib/base.php/x",
        "/occ",
        "/console.php",
        "/.htaccess",
    ];
    site.assert_statuses(Some(403), &refused);
    site.assert_statuses(Some(200), &["/core/img/logo.svg"]);
    site.assert_statuses(Some(301), &["/.well-known/carddav", "/remote/webdav"]);
    site.assert_statuses(
        None,
        &["/", "/apps/files/", "/remote.php/dav/files/a/b.txt"],
    );
}
