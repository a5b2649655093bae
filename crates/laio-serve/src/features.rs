//! The features of Cargo that a server may lack: the table [`FEATURES`], and what a server does with it.

mod acme;
mod feature;
mod http3;
mod response_cache;
mod webdav;
mod zip;

pub(crate) use feature::{DatagramReceiver, DatagramSockets, Datagrams};

use feature::{Background, Feature, Owner};
use laio::BackendKind;
use laio_serve_base::options::Options;
use laio_serve_core::request::directory_answer::DirectoryAnswer;
use laio_serve_net::tls::Tls;
use laio_serve_net::tls::published::Published;
use laio_serve_uploads::ChangeExtension;
use std::io;
use std::sync::Arc;

const FEATURES: [Feature; 5] = [
    acme::FEATURE,
    http3::FEATURE,
    response_cache::FEATURE,
    webdav::FEATURE,
    zip::FEATURE,
];

/// Checks that the server has what the options need.
///
/// # Errors
/// If an option needs a feature that was not compiled.
pub(crate) fn check_compiled(options: &Options) -> io::Result<()> {
    check_those_compiled(&FEATURES, options)
}

fn check_those_compiled(features: &[Feature], options: &Options) -> io::Result<()> {
    let mut used = features.iter().filter(|it| (it.is_used)(options));
    let missing = used.find(|it| !it.is_compiled);
    missing.map_or(Ok(()), |Feature { name, option, .. }| {
        let text = format!(
            "{option} needs the feature `{name}` of the crate laio-serve, which was not compiled"
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    })
}

/// Checks the options of all features, without using them.
///
/// # Errors
/// Says which options cannot be combined.
pub(crate) fn check_options(options: &Options, kind: BackendKind) -> io::Result<()> {
    FEATURES.iter().try_for_each(|it| (it.check)(options, kind))
}

/// Creates what features keep on disk. Called before the server gives up its privileges.
///
/// # Errors
/// Names what cannot be created, and says why.
pub(crate) fn prepare(options: &Options, owner: Owner) -> io::Result<()> {
    let mut all = FEATURES.iter();
    all.try_for_each(|it| (it.prepare)(options, owner))
}

/// Returns where a feature publishes certificates.
pub(crate) fn published(options: &Options) -> Option<Arc<Published>> {
    FEATURES.iter().find_map(|it| (it.published)(options))
}

/// Starts the threads of features. They do nothing before [`BackgroundFeatures::wake`].
///
/// # Errors
/// Says which feature cannot start with its options.
pub(crate) fn start(
    options: &Options,
    published: Option<&Arc<Published>>,
) -> io::Result<BackgroundFeatures> {
    let all = FEATURES.iter();
    let started = all.map(|feature| (feature.start)(options, published));
    let started = started.filter_map(Result::transpose);
    started.collect::<io::Result<_>>().map(BackgroundFeatures)
}

/// Returns what a feature adds to the changes of files.
pub(crate) fn change_extension() -> Option<ChangeExtension> {
    FEATURES.iter().find_map(|it| (it.changes)())
}

/// Returns what a feature keeps to receive datagrams, until the server ends.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn datagrams() -> io::Result<Option<Arc<dyn Datagrams>>> {
    let all = FEATURES.iter();
    let mut all = all.filter_map(|it| (it.datagrams)().transpose());
    all.next().transpose()
}

/// Returns what receives datagrams in the workers of a generation, if there is TLS and the options ask for
/// that.
///
/// # Errors
/// Says which options cannot be combined.
pub(crate) fn datagram_receiver(
    datagrams: Option<&Arc<dyn Datagrams>>,
    options: &Options,
    tls: Option<&Tls>,
) -> io::Result<Option<Arc<dyn DatagramReceiver>>> {
    match datagrams.zip(tls) {
        Some((datagrams, tls)) => datagrams.configure(options, tls),
        None => Ok(None),
    }
}

/// Returns the features that answer requests for directories in a worker.
pub(crate) fn directory_answers(options: &Options) -> Vec<Box<dyn DirectoryAnswer>> {
    let all = FEATURES.iter();
    all.filter_map(|it| (it.directories)(options)).collect()
}

/// The features that have threads of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackgroundFeatures(Vec<Arc<dyn Background>>);

impl BackgroundFeatures {
    pub(crate) fn wake(&self) {
        self.0.iter().for_each(|it| it.wake());
    }

    pub(crate) fn end(&self) {
        self.0.iter().for_each(|it| it.end());
    }
}

#[cfg(test)]
mod tests {
    use super::feature::Feature;
    use super::{FEATURES, check_those_compiled};
    use laio_serve_base::options::{Host, Http3, Options, Site, Zip};

    #[test]
    fn options_use_features() {
        let names = |options: &Options| {
            let used = FEATURES.iter().filter(|it| (it.is_used)(options));
            used.map(|it| it.name).collect::<Vec<_>>()
        };
        let mut options = Options::default();
        assert_eq!(names(&options), [""; 0]);
        options.limits.upstream.cache_bytes = 1;
        options.site.uploads.webdav = true;
        options.http3 = Some(Http3::default());
        let mut site = Site::default();
        site.archives.zip = Some(Zip::Store);
        options.hosts.push(Host {
            names: vec!["example.org".into()],
            site,
        });
        let expected = ["http3", "response-cache", "webdav", "zip"];
        assert_eq!(names(&options), expected);
    }

    #[test]
    fn a_used_feature_that_is_not_compiled_is_an_error_that_names_it_and_its_option() {
        let absent = FEATURES.map(|feature| Feature {
            is_compiled: false,
            ..feature
        });
        let mut options = Options::default();
        assert!(check_those_compiled(&absent, &options).is_ok());
        options.http3 = Some(Http3::default());
        assert!(check_those_compiled(&FEATURES, &options).is_ok());
        let error = check_those_compiled(&absent, &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--http3 needs the feature `http3` of the crate laio-serve, which was not compiled"
        );
    }
}
