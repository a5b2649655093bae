//! Choosing the upstream for a path.

use super::encryption::Encryption;
use super::error::UpstreamError;
use super::link::Link;
use super::pool::Pool;
use super::resolver::{Addresses, ResolvedAddress};
use crate::options::{Protocol, Upstream, UpstreamLimits};
use laio_http::{Mount, RequestPath};
use std::io;
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
    pub(crate) fn new(upstreams: &[Upstream]) -> io::Result<Targets> {
        let target = |upstream: &Upstream| Target::new(upstream).map(Arc::new);
        let mut targets: Vec<_> = upstreams.iter().map(target).collect::<Result<_, _>>()?;
        targets.sort_by_key(|target| std::cmp::Reverse(target.mount.prefix().len()));
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
        let route = |target: &Arc<Target>| Route {
            target: target.clone(),
            pool: Rc::default(),
        };
        self.0.iter().map(route).collect()
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = Arc<Addresses>> {
        self.0.iter().filter_map(|target| match &target.address {
            ResolvedAddress::Tcp(addresses) => Some(addresses.clone()),
            ResolvedAddress::Unix(_) => None,
        })
    }
}

impl Target {
    fn new(upstream: &Upstream) -> io::Result<Target> {
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
            encryption: Encryption::of(upstream)?,
        })
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
        let targets = Targets::new(&[
            upstream("/api=http://127.0.0.1:1"),
            upstream("/api/new/=http://127.0.0.1:2/v2/"),
            upstream("/x=http+unix:/s:/"),
        ])
        .unwrap();
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
            upstream("/a=http://127.0.0.1"),
        ];
        assert!(Targets::new(&twice).is_err());
    }
}
