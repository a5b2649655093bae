//! The sites of a server, made ready when it starts: roots open, globs compiled, users read.

use crate::auth::Users;
use crate::cors::Cors;
use crate::fields::FieldRules;
use crate::options::{Options, Site as Description, Symlinks};
use crate::redirect::Redirects;
use crate::upstream::{Names, Route, SendfileRoot, Targets, check_spool};
use laio_http::{Coding, Status};
use laio_rt::Descriptor;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All sites of a server, as the workers share them.
pub(crate) struct Prepared {
    /// The one for every other name is the first.
    sites: Vec<(OwnedFd, Arc<Rules>)>,
    names: Vec<(HostName, usize)>,
    _upstream_names: Names,
}

/// How the files of a site are served.
pub(crate) struct Rules {
    pub(crate) serves_dotfiles: bool,
    /// How names are resolved, below the root.
    pub(crate) resolve: u64,
    pub(crate) index: Vec<String>,
    pub(crate) listing: bool,
    pub(crate) fallback: Option<Vec<u8>>,
    pub(crate) error_pages: Vec<(Status, Vec<u8>)>,
    pub(crate) redirects: Redirects,
    pub(crate) fields: FieldRules,
    pub(crate) cors: Option<Cors>,
    pub(crate) users: Option<Users>,
    pub(crate) precompressed: Vec<Coding>,
    pub(crate) compress: bool,
    /// The root as a program is told it.
    pub(crate) directory: PathBuf,
    targets: Targets,
    sendfile: Vec<(Vec<PathBuf>, OwnedFd, Arc<Rules>)>,
}

/// A site as one worker has it.
pub(crate) struct Site {
    /// Its place among the sites.
    pub(crate) number: usize,
    pub(crate) root: Descriptor,
    pub(crate) routes: Vec<Route>,
    pub(crate) sendfile: Vec<SendfileRoot>,
    rules: Arc<Rules>,
}

impl Site {
    fn new(number: usize, root: &OwnedFd, rules: &Arc<Rules>) -> io::Result<Site> {
        let sendfile = rules.sendfile.iter().map(|(paths, root, rules)| {
            Ok(SendfileRoot {
                paths: paths.clone(),
                site: Site::new(NO_PLACE, root, rules)?,
            })
        });
        Ok(Site {
            number,
            root: Descriptor::from(root.try_clone()?),
            routes: rules.targets.routes(),
            sendfile: sendfile.collect::<io::Result<_>>()?,
            rules: rules.clone(),
        })
    }
}

impl Deref for Site {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}

/// Of a site whose files are never kept.
const NO_PLACE: usize = usize::MAX;

/// The sites of one worker.
pub(crate) struct Sites {
    sites: Vec<Site>,
    prepared: Arc<Prepared>,
}

impl Sites {
    /// # Errors
    /// When there are no descriptors left.
    pub(crate) fn new(prepared: Arc<Prepared>) -> io::Result<Sites> {
        let sites = prepared.sites.iter().enumerate();
        let sites = sites.map(|(number, (root, rules))| Site::new(number, root, rules));
        let sites = sites.collect::<Result<_, _>>()?;
        Ok(Sites { sites, prepared })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.sites.len()
    }

    /// The site that a request with this host is for.
    pub(crate) fn of(&self, host: Option<&str>) -> &Site {
        let named = if self.prepared.names.is_empty() {
            None
        } else {
            host.and_then(|host| self.prepared.named(host))
        };
        &self.sites[named.unwrap_or(0)]
    }
}

impl Prepared {
    /// # Errors
    /// Says what cannot be opened, or which rule makes no sense.
    pub(crate) fn new(options: &Options) -> io::Result<Prepared> {
        if let Some(directory) = &options.limits.upstream.spool {
            check_spool(directory)?;
        }
        let mut prepared = Prepared {
            sites: vec![prepare(&options.site)?],
            names: Vec::new(),
            _upstream_names: Names::default(),
        };
        for host in &options.hosts {
            let number = prepared.sites.len();
            prepared.sites.push(prepare(&host.site)?);
            for name in &host.names {
                prepared.names.push((HostName::new(name)?, number));
            }
        }
        let targets = prepared.sites.iter().map(|(_, rules)| &rules.targets);
        prepared._upstream_names = Names::keep(targets.flat_map(Targets::addresses))?;
        Ok(prepared)
    }

    /// The longest name that fits wins.
    fn named(&self, host: &str) -> Option<usize> {
        let name = without_port(host);
        let fitting = self.names.iter().filter(|(known, _)| known.fits(name));
        let best = fitting.max_by_key(|(known, _)| (!known.wildcard, known.name.len()));
        best.map(|&(_, number)| number)
    }
}

/// A name as it was configured.
struct HostName {
    /// Without the star.
    name: String,
    wildcard: bool,
}

impl HostName {
    fn new(text: &str) -> io::Result<HostName> {
        let (name, wildcard) = match text.strip_prefix('*') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let strange = |c: char| c.is_whitespace() || matches!(c, '*' | '/');
        if name.is_empty() || name.contains(strange) || (wildcard && !name.starts_with('.')) {
            let text = format!("{text:?} is no host name: write example.org or *.example.org");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let name = name.trim_end_matches('.').to_owned();
        Ok(HostName { name, wildcard })
    }

    fn fits(&self, name: &str) -> bool {
        let (name, own) = (name.as_bytes(), self.name.as_bytes());
        match name.len().checked_sub(own.len()) {
            Some(0) => !self.wildcard && name.eq_ignore_ascii_case(own),
            Some(start) => self.wildcard && name[start..].eq_ignore_ascii_case(own),
            None => false,
        }
    }
}

/// A host without its port and without the dot that a complete name may end in.
fn without_port(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn prepare(site: &Description) -> io::Result<(OwnedFd, Arc<Rules>)> {
    let resolve = match site.symlinks {
        Symlinks::Within => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        Symlinks::Refuse => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Symlinks::Follow => ResolveFlags::empty(),
    };
    let users = site.auth.as_ref().map(Users::read).transpose()?;
    let page = |page: &crate::options::ErrorPage| {
        let status = Status::from_code(page.status).filter(|status| status.is_error());
        let text = || format!("{} is no status of an error that has a page", page.status);
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, text()))?;
        io::Result::Ok((status, name(&page.file)))
    };
    let rules = Rules {
        serves_dotfiles: site.dotfiles == crate::options::Dotfiles::Serve,
        resolve: resolve.bits(),
        index: site.index.clone(),
        listing: site.listing,
        fallback: site.fallback.as_deref().map(name),
        error_pages: site
            .error_pages
            .iter()
            .map(page)
            .collect::<Result<_, _>>()?,
        redirects: Redirects::new(&site.redirects)?,
        fields: FieldRules::new(&site.fields)?,
        cors: site.cors.as_ref().map(Cors::new).transpose()?,
        users,
        precompressed: site.precompressed.clone(),
        compress: site.compress,
        directory: std::path::absolute(&site.root)?,
        targets: Targets::new(&site.upstreams)?,
        sendfile: site
            .sendfile_roots
            .iter()
            .map(|root| prepare_sendfile(root, site.symlinks))
            .collect::<io::Result<_>>()?,
    };
    Ok((open_root(site)?, Arc::new(rules)))
}

/// A directory whose files upstreams may name: never left, whatever the site's links may do.
fn prepare_sendfile(
    root: &Path,
    symlinks: Symlinks,
) -> io::Result<(Vec<PathBuf>, OwnedFd, Arc<Rules>)> {
    let site = Description {
        root: root.to_owned(),
        symlinks: match symlinks {
            Symlinks::Follow => Symlinks::Within,
            other => other,
        },
        ..Description::default()
    };
    let (descriptor, rules) = prepare(&site)?;
    let paths = vec![std::path::absolute(root)?, root.canonicalize()?];
    Ok((paths, descriptor, rules))
}

/// A file's name below the root, however it was written.
fn name(file: &str) -> Vec<u8> {
    file.trim_start_matches('/').as_bytes().to_vec()
}

fn open_root(site: &Description) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(&site.root, flags, Mode::empty()).map_err(|errno| {
        let error = io::Error::from(errno);
        let text = format!("cannot serve {}: {error}", site.root.display());
        io::Error::new(error.kind(), text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts() {
        let fits = |own: &str, name: &str| HostName::new(own).unwrap().fits(without_port(name));
        assert!(fits("example.org", "Example.ORG:8080") && fits("example.org", "example.org."));
        assert!(!fits("example.org", "www.example.org") && !fits("example.org", "xexample.org"));
        assert!(fits("*.example.org", "a.b.example.org:1"));
        assert!(!fits("*.example.org", "example.org") && !fits("*.example.org", "xexample.org"));
        assert!(fits("[::1]", "[::1]:80") && fits("[::1]", "[::1]"));
        for bad in ["", "*", "*example.org", "a b", "http://a", "a.*"] {
            assert!(HostName::new(bad).is_err(), "{bad}");
        }
    }
}
