//! The features of Cargo that a server may lack, and the options that need them.

use laio_serve_base::options::{Options, Site};
use std::io;

struct Feature {
    name: &'static str,
    is_there: bool,
    option: &'static str,
    /// Whether the option is used.
    is_used: fn(&Options) -> bool,
}

const FEATURES: [Feature; 4] = [
    Feature {
        name: "acme",
        is_there: cfg!(feature = "acme"),
        option: "--https",
        is_used: |options| options.acme.is_on(),
    },
    Feature {
        name: "response-cache",
        is_there: cfg!(feature = "response-cache"),
        option: "--proxy-cache",
        is_used: |options| options.limits.upstream.cache_bytes > 0,
    },
    Feature {
        name: "webdav",
        is_there: cfg!(feature = "webdav"),
        option: "--webdav",
        is_used: |options| sites(options).any(|site| site.uploads.webdav),
    },
    Feature {
        name: "zip",
        is_there: cfg!(feature = "zip"),
        option: "--zip",
        is_used: |options| sites(options).any(|site| site.archives.zip.is_some()),
    },
];

/// Checks that the server has what the options need.
///
/// # Errors
/// If an option needs a feature that was not compiled.
pub(crate) fn check(options: &Options) -> io::Result<()> {
    let missing = used(options).find(|feature| !feature.is_there);
    missing.map_or(Ok(()), |Feature { name, option, .. }| {
        let text = format!(
            "{option} needs the feature `{name}` of the crate laio-serve, which was not compiled"
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    })
}

/// Returns the features that options use.
fn used(options: &Options) -> impl Iterator<Item = &'static Feature> {
    FEATURES.iter().filter(|feature| (feature.is_used)(options))
}

fn sites(options: &Options) -> impl Iterator<Item = &Site> {
    let hosts = options.hosts.iter().map(|host| &host.site);
    [&options.site].into_iter().chain(hosts)
}

#[cfg(test)]
mod tests {
    use super::used;
    use laio_serve_base::options::{Host, Options, Site, Zip};

    #[test]
    fn options_use_features() {
        let names = |options: &Options| used(options).map(|it| it.name).collect::<Vec<_>>();
        let mut options = Options::default();
        assert_eq!(names(&options), [""; 0]);
        options.limits.upstream.cache_bytes = 1;
        options.site.uploads.webdav = true;
        let mut site = Site::default();
        site.archives.zip = Some(Zip::Store);
        options.hosts.push(Host {
            names: vec!["example.org".into()],
            site,
        });
        assert_eq!(names(&options), ["response-cache", "webdav", "zip"]);
    }
}
