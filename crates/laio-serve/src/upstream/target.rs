//! Choosing the upstream for a path.

use super::encryption::Encryption;
use super::error::UpstreamError;
use super::link::Link;
use super::pool::Pool;
use super::resolver::{Addresses, ResolvedAddress};
use crate::options::{Protocol, Upstream, UpstreamAddress, UpstreamLimits};
use laio_http::{Mount, RequestPath};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The upstreams of a site, shared by all workers, the longest prefixes first.
#[derive(Default)]
pub(crate) struct Targets(Vec<Arc<Target>>);

/// An upstream.
pub(crate) struct Target {
    pub(crate) mount: Mount,
    pub(crate) protocol: Protocol,
    address: ResolvedAddress,
    encryption: Option<Encryption>,
    /// Whether a connection carries several requests.
    pub(crate) keeps_connections: bool,
    /// The name in log messages.
    pub(crate) name: String,
}

/// An upstream in one worker, with its connection pool.
pub(crate) struct Route {
    pub(crate) target: Arc<Target>,
    pub(crate) pool: Rc<Pool>,
}

impl Targets {
    /// Compiles the upstreams.
    ///
    /// # Errors
    /// When a name cannot be looked up, or two upstreams have the same prefix.
    pub(crate) fn new(upstreams: &[Upstream], ca: Option<&Path>) -> io::Result<Targets> {
        let target = |upstream: &Upstream| Target::new(upstream, ca).map(Arc::new);
        let mut targets: Vec<_> = upstreams.iter().map(target).collect::<Result<_, _>>()?;
        targets.sort_by_cached_key(|target| {
            let prefix = target.mount.prefix();
            (std::cmp::Reverse(prefix.len()), prefix.to_owned())
        });
        if let Some(pair) = targets
            .windows(2)
            .find(|pair| pair[0].mount.prefix() == pair[1].mount.prefix())
        {
            let text = format!("there are two upstreams for {}", pair[0].mount.prefix());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Targets(targets))
    }

    /// Returns routes for one worker.
    pub(crate) fn routes(&self) -> Vec<Route> {
        self.0.iter().map(Route::to).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.0.iter()
    }
}

impl Route {
    pub(crate) fn to(target: &Arc<Target>) -> Route {
        Route {
            target: target.clone(),
            pool: Rc::default(),
        }
    }
}

impl Target {
    fn new(upstream: &Upstream, ca: Option<&Path>) -> io::Result<Target> {
        let there = match &upstream.protocol {
            Protocol::Http { path } => path.as_deref(),
            Protocol::FastCgi => None,
        };
        let mount = Mount::new(&upstream.prefix, there)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let scheme = match (&upstream.protocol, &upstream.tls) {
            (Protocol::Http { .. }, None) => "http",
            (Protocol::Http { .. }, Some(_)) => "https",
            (Protocol::FastCgi, _) => "fastcgi",
        };
        Ok(Target {
            name: format!("{scheme}://{}", upstream.address),
            mount,
            protocol: upstream.protocol.clone(),
            address: ResolvedAddress::resolve(&upstream.address)?,
            encryption: Encryption::of(upstream, ca)?,
            keeps_connections: true,
        })
    }

    /// Returns the program that executes the scripts of a site.
    pub(crate) fn of_php(address: &UpstreamAddress) -> io::Result<Target> {
        let upstream = Upstream {
            host: None,
            prefix: "/".to_owned(),
            protocol: Protocol::FastCgi,
            address: address.clone(),
            tls: None,
        };
        Ok(Target {
            // A process of php-fpm serves one connection at a time, so an idle one would occupy it.
            keeps_connections: false,
            ..Target::new(&upstream, None)?
        })
    }

    /// Returns the addresses that are looked up again while the server runs.
    pub(crate) fn addresses(&self) -> Option<Arc<Addresses>> {
        match &self.address {
            ResolvedAddress::Tcp(addresses) => Some(addresses.clone()),
            ResolvedAddress::Unix(_) => None,
        }
    }

    /// Connects to the upstream.
    ///
    /// # Errors
    /// Returns the last error, if no address accepts.
    pub(crate) async fn connect(
        &self,
        time: Duration,
        limits: &UpstreamLimits,
    ) -> Result<Link, UpstreamError> {
        Link::connect(&self.address, self.encryption.as_ref(), time, limits).await
    }
}

/// Returns the route for a path.
pub(crate) fn route<'r>(routes: &'r [Route], path: &RequestPath<'_>) -> Option<&'r Route> {
    routes
        .iter()
        .find(|route| route.target.mount.rest(path).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let upstream = |text: &str| Upstream::http(text).unwrap();
        let upstreams = [
            upstream("/api=http://127.0.0.1:1"),
            upstream("/api/new/=http://127.0.0.1:2/v2/"),
            upstream("/x=http+unix:/s:/"),
        ];
        let targets = Targets::new(&upstreams, None).unwrap();
        let routes = targets.routes();
        let there = |path: &str| {
            let path = RequestPath::new(path).ok()?;
            let route = route(&routes, &path)?;
            let to = route.target.mount.upstream_path(&path).into_owned();
            Some((route.target.name.clone(), to))
        };
        let at = |name: &str, path: &str| Some((format!("http://{name}"), path.to_owned()));
        assert_eq!(there("/api"), at("127.0.0.1:1", "/api"));
        assert_eq!(there("/api/%61"), at("127.0.0.1:1", "/api/a"));
        assert_eq!(there("//api"), at("127.0.0.1:1", "/api"));
        assert_eq!(there("/api/new"), at("127.0.0.1:1", "/api/new"));
        assert_eq!(there("/api/new/"), at("127.0.0.1:2", "/v2/"));
        assert_eq!(there("/api/new/a/b"), at("127.0.0.1:2", "/v2/a/b"));
        assert_eq!(there("/x"), at("unix:/s", "/"));
        assert_eq!(there("/x/"), at("unix:/s", "/"));
        assert_eq!(there("/x/y"), at("unix:/s", "/y"));
        for other in ["/apix", "/", "/api/../y", "/x%2F", "*", "/%zz"] {
            assert_eq!(there(other), None, "{other}");
        }
        let twice = [
            upstream("/a=http://127.0.0.1"),
            upstream("/b=http://127.0.0.1"),
            upstream("/a=http://127.0.0.1"),
        ];
        assert!(Targets::new(&twice, None).is_err());
    }
}
