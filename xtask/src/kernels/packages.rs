//! The known kernels, and their packages.

use crate::files::failure;
use crate::programs::{output_of, run};
use crate::repository::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernels that `cargo xtask kernels` knows: the version, and the Debian release that contains it. The
/// package's name begins with the version, except for `newest`.
pub const KNOWN: [(&str, &str); 4] = [
    ("5.10", "bullseye"),
    ("6.1", "bookworm"),
    ("6.12", "trixie"),
    ("newest", "sid"),
];

/// The archive from which the machine's own `apt` downloads the packages.
const ARCHIVE: &str = "http://deb.debian.org/debian";

/// The keys that sign the archive, as Debian installs them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Returns the requested versions, or all known ones.
///
/// # Errors
/// If one of them is not known.
pub fn chosen(asked: &[String]) -> Result<Vec<&'static str>, Failure> {
    let known = KNOWN.map(|(version, _)| version);
    if asked.is_empty() {
        return Ok(known.to_vec());
    }
    let find = |name: &String| {
        let found = known.into_iter().find(|version| version == name);
        found.ok_or_else(|| format!("kernel `{name}` is not one of {}", known.join(", ")).into())
    };
    asked.iter().map(find).collect()
}

/// Downloads missing packages to `cache`, without installing them.
///
/// # Errors
/// If `apt-get` or `apt-cache` is missing or fails.
pub fn fetch(versions: &[&str], cache: &Path) -> Result<(), Failure> {
    let absent = |version: &&&str| packages(&cache.join(version)).is_empty();
    let wanted: Vec<&str> = versions.iter().filter(absent).copied().collect();
    for version in wanted {
        let release = KNOWN.into_iter().find(|(known, _)| *known == version);
        let (_, release) = release.ok_or("the version was checked before")?;
        let archive = Archive {
            release,
            architecture: "amd64",
        };
        archive.fetch(version, &[], &cache.join(version))?;
    }
    Ok(())
}

/// A release of Debian for one kind of processor.
#[derive(Clone, Copy, Debug)]
pub struct Archive {
    /// The release.
    pub release: &'static str,
    /// The processor, as Debian names it.
    pub architecture: &'static str,
}

impl Archive {
    /// Downloads the newest kernel of a version, and other packages, without installing them.
    ///
    /// # Errors
    /// If `apt-get` or `apt-cache` is missing or fails.
    pub fn fetch(self, version: &str, others: &[&str], directory: &Path) -> Result<(), Failure> {
        let apt = Apt::new(self, directory)?;
        println!("Linux {version}: reading the archive's list of packages");
        run(&mut apt.command("apt-get", &["--quiet", "update"]))?;
        let names = apt.kernel(version)?;
        println!("Linux {version}: downloading {}", names.join(", "));
        let names = names.iter().map(String::as_str);
        let mut download = apt.command("apt-get", &["--quiet", "download"]);
        download.args(names.chain(others.iter().copied()));
        run(download.current_dir(directory)).map(drop)
    }
}

/// Checks that all packages are downloaded.
///
/// # Errors
/// Names the missing ones, and how to download them.
pub fn check(versions: &[&str], cache: &Path) -> Result<(), Failure> {
    let absent = |version: &&&str| packages(&cache.join(version)).is_empty();
    let absent: Vec<&str> = versions.iter().filter(absent).copied().collect();
    if absent.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no packages of the kernels {} below {}: `cargo xtask kernels --fetch` downloads them from Debian's archive, or \
         put linux-image-*.deb there",
        absent.join(", "),
        cache.display()
    )
    .into())
}

/// Returns the packages in a kernel's directory.
pub fn packages(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut packages: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    packages.sort();
    packages
}

/// Returns `apt` with package lists and caches of its own, so that those of the machine do not change.
struct Apt {
    directory: PathBuf,
    architecture: &'static str,
}

impl Apt {
    fn new(archive: Archive, kernel: &Path) -> Result<Apt, Failure> {
        let Archive {
            release,
            architecture,
        } = archive;
        let directory = kernel.join("apt");
        for part in ["lists/partial", "cache/archives/partial"] {
            let path = directory.join(part);
            std::fs::create_dir_all(&path).map_err(|error| failure("make", &path, &error))?;
        }
        let sources = directory.join("sources.list");
        let text = format!("deb [signed-by={KEYS}] {ARCHIVE} {release} main\n");
        std::fs::write(&sources, text).map_err(|error| failure("write", &sources, &error))?;
        Ok(Apt {
            directory,
            architecture,
        })
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let path = |part: &str| self.directory.join(part).display().to_string();
        let mut command = Command::new(program);
        for option in [
            format!("Dir::Etc::SourceList={}", path("sources.list")),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={}", path("lists")),
            format!("Dir::Cache={}", path("cache")),
            "Dir::State::Status=/dev/null".to_owned(),
            format!("APT::Architecture={}", self.architecture),
            format!("APT::Architectures::={}", self.architecture),
            // Otherwise `download` writes to a directory that belongs to root.
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command.args(arguments);
        command
    }

    /// Returns the packages of the newest kernel of this version: the image, and since Debian 14 also the
    /// modules.
    fn kernel(&self, version: &str) -> Result<Vec<String>, Failure> {
        let listed = output_of(&mut self.command("apt-cache", &["pkgnames", "linux-"]))?;
        let prefix = match version {
            "newest" => String::new(),
            _ => format!("{version}."),
        };
        newest(&listed, &prefix, self.architecture).ok_or_else(|| {
            let architecture = self.architecture;
            format!("Debian's archive lists no package linux-image-{prefix}*-{architecture}").into()
        })
    }
}

/// Selects from the listed packages those of the newest kernel whose version begins with `prefix`.
fn newest(listed: &str, prefix: &str, architecture: &str) -> Option<Vec<String>> {
    let names: Vec<&str> = listed.lines().collect();
    let end = format!("-{architecture}");
    let plain = |kind: &str| {
        let of_kind = names.iter().filter_map(|name| {
            let version = name.strip_prefix(kind)?.strip_suffix(&*end)?;
            let plain = version.starts_with(prefix)
                && version.starts_with(|first: char| first.is_ascii_digit())
                && !version.ends_with("-cloud")
                && !version.ends_with("-rt");
            plain.then_some(version)
        });
        of_kind.max_by_key(|version| numbers(version))
    };
    // In Debian 14 linux-image is an empty package; linux-binary and linux-modules contain the kernel.
    if let Some(version) = plain("linux-binary-") {
        let name = |kind: &str| format!("linux-{kind}-{version}{end}");
        return Some(vec![name("binary"), name("modules")]);
    }
    plain("linux-image-").map(|version| vec![format!("linux-image-{version}{end}")])
}

/// Returns the numbers in a version, by which versions are ordered.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|letter: char| !letter.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_kernel_is_chosen() {
        let listed = "linux-image-6.1.0-9-amd64\nlinux-image-6.1.0-50-amd64\nlinux-image-6.1.0-51-cloud-amd64\n\
                      linux-image-6.1.0-52-rt-amd64\nlinux-image-amd64\nlinux-image-5.10.0-60-amd64\n";
        assert_eq!(
            newest(listed, "6.1.", "amd64"),
            Some(vec!["linux-image-6.1.0-50-amd64".to_owned()])
        );
        assert_eq!(newest(listed, "6.12.", "amd64"), None);
        assert_eq!(newest(listed, "6.1.", "arm64"), None);
    }

    #[test]
    fn a_kernel_in_two_packages_needs_both() {
        let listed = "linux-image-7.2.13+deb14-amd64\nlinux-binary-7.2.13+deb14-amd64\nlinux-modules-7.2.13+deb14-amd64\n";
        let both = [
            "linux-binary-7.2.13+deb14-amd64",
            "linux-modules-7.2.13+deb14-amd64",
        ];
        assert_eq!(
            newest(listed, "", "amd64"),
            Some(both.map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn an_unknown_version_is_refused() {
        assert!(chosen(&["4.19".to_owned()]).is_err());
        assert_eq!(chosen(&[]).expect("all").len(), KNOWN.len());
    }
}
