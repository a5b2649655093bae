//! Certificates of an authority, or what stands in for them in a server without the feature `acme`.

#[cfg(not(feature = "acme"))]
pub(crate) use absent::{Acme, check_options, create_state};
#[cfg(feature = "acme")]
pub(crate) use laio_serve_acme::{Acme, check_options, create_state};

#[cfg(not(feature = "acme"))]
mod absent {
    use laio_serve_base::options::Options;
    use laio_serve_net::tls::published::Published;
    use std::io;
    use std::sync::Arc;

    /// No server has it.
    #[derive(Debug)]
    pub(crate) enum Acme {}

    impl Acme {
        pub(crate) fn start(_: &Options) -> io::Result<Option<Acme>> {
            Ok(None)
        }

        pub(crate) fn published(&self) -> Arc<Published> {
            match *self {}
        }

        pub(crate) fn wake(&self) {
            match *self {}
        }

        pub(crate) fn end(&self) {
            match *self {}
        }
    }

    pub(crate) fn create_state(_: &Options, _: Option<(u32, u32)>) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn check_options(_: &Options) -> io::Result<()> {
        Ok(())
    }
}
