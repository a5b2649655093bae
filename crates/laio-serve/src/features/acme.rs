//! Certificates of an authority.

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature {
    name: "acme",
    is_compiled: cfg!(feature = "acme"),
    option: "--https",
    is_used: |options| options.acme.is_on(),
    #[cfg(feature = "acme")]
    check: |options, _| laio_serve_acme::check_options(options),
    #[cfg(feature = "acme")]
    prepare: laio_serve_acme::create_state,
    #[cfg(feature = "acme")]
    published: laio_serve_acme::published,
    #[cfg(feature = "acme")]
    start: compiled::start,
    ..Feature::WITHOUT_PARTS
};

#[cfg(feature = "acme")]
mod compiled {
    use crate::features::feature::{Background, Started};
    use laio_serve_acme::Acme;
    use laio_serve_base::options::Options;
    use laio_serve_net::tls::published::Published;
    use std::io;
    use std::sync::Arc;

    pub(super) fn start(
        options: &Options,
        published: Option<&Arc<Published>>,
    ) -> io::Result<Started> {
        let start = |published: &Arc<Published>| Acme::start(options, published.clone());
        let started = published.map(start).transpose()?;
        Ok(started.map(|acme| Arc::new(acme) as _))
    }

    impl Background for Acme {
        fn wake(&self) {
            Acme::wake(self);
        }

        fn end(&self) {
            Acme::end(self);
        }
    }
}
