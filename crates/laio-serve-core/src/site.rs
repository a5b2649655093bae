//! The sites of a server, compiled at start: roots opened, globs compiled, users read.

mod aliases;
pub mod alt_svc;
pub mod application;
pub mod auth;
pub mod auth_request;
pub mod cors;
pub mod early_hints;
pub mod fast_path;
mod fields;
pub mod hsts;
pub mod message_fields;
mod named_files;
pub mod network_access;
mod path_pattern;
pub mod quota;
pub(crate) mod rate_limit;
mod redirect;
pub mod rewrite;
pub mod speed;
pub mod upload_rules;

pub(crate) use fields::globs;

use aliases::{AliasDescriptors, Aliases};
use application::Application;
use auth::Users;
use auth_request::AuthRequests;
use cors::Cors;
use early_hints::EarlyHints;
use fast_path::FastPath;
use fields::FieldRules;
use laio::BackendKind;
use laio_http::{Coding, Status};
use laio_rt::Descriptor;
use laio_serve_base::messages::print;
use laio_serve_base::options::{Host, Options, Protocol, Site as Description, Symlinks, Upstream};
use laio_serve_upstream::group::{Group, Groups, Healths, check_prefixes};
use laio_serve_upstream::resolver::NameResolver;
use laio_serve_upstream::route::Route;
use laio_serve_upstream::spool_files;
use laio_serve_upstream::target::Target;
use message_fields::{RequestRules, ResponseRules};
use network_access::NetworkAccess;
use quota::CountedDirectories;
use rate_limit::RateLimits;
use redirect::Redirects;
use rewrite::Rewrites;
use rustix::fs::{MemfdFlags, Mode, OFlags, ResolveFlags};
use speed::Speeds;
use std::ffi::OsStr;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use upload_rules::UploadRules;

/// All sites of a server, shared by its workers.
pub struct CompiledSites {
    /// The first site is the default, for unknown host names.
    sites: Vec<(OwnedFd, Arc<Rules>)>,
    names: Vec<(HostName, usize)>,
    _name_resolver: NameResolver,
}

/// The compiled configuration of a site.
pub struct Rules {
    /// The host names; none for the site of all other names.
    names: Vec<String>,
    pub serves_dotfiles: bool,
    /// `openat2` flags for resolving names below the root.
    pub resolve: u64,
    pub index: Vec<String>,
    pub listing: bool,
    pub(crate) fallback: Option<Vec<u8>>,
    pub(crate) error_pages: Vec<(Status, Vec<u8>)>,
    pub redirects: Redirects,
    pub rewrites: Option<Rewrites>,
    pub fields: FieldRules,
    /// Changes of the fields of all responses; none if there are no rules.
    pub response_rules: Option<ResponseRules>,
    /// Changes of the fields of requests to upstreams.
    pub request_rules: Option<RequestRules>,
    pub early_hints: Option<EarlyHints>,
    pub cors: Option<Cors>,
    /// None if every client may use the site as it likes.
    pub network_access: Option<NetworkAccess>,
    pub(crate) rate_limits: Option<RateLimits>,
    /// Limits on the rate of responses.
    pub speeds: Speeds,
    pub(crate) users: Option<Users>,
    /// The servers that decide which requests are let in, if there are any.
    pub auth_requests: Option<AuthRequests>,
    /// The value of `Strict-Transport-Security`.
    pub hsts: Option<String>,
    pub(crate) precompressed: Vec<Coding>,
    pub compress: Vec<Coding>,
    /// Whether responses of upstreams are compressed too.
    pub compresses_upstreams: bool,
    /// How the files may be changed, if they may.
    pub uploads: Option<UploadRules>,
    /// The options of the site, of which a feature reads its own.
    pub description: Description,
    /// The device and the inode of the root.
    pub identity: (u64, u64),
    /// The root directory as FastCGI programs get it; none if the site has no files.
    pub directory: Option<PathBuf>,
    aliases: Aliases,
    /// Candidates and scripts, if the site has any.
    pub application: Option<Application>,
    groups: Groups,
    /// The program that executes scripts.
    php: Option<Arc<Group>>,
    sendfile: Vec<(Vec<PathBuf>, OwnedFd, Arc<Rules>)>,
}

impl Rules {
    /// Returns the path of the file that has a name of the site.
    pub fn file_path(&self, name: &[u8]) -> Vec<u8> {
        let root = self.directory.as_deref().unwrap_or(Path::new(""));
        let (directory, name) = self.aliases.file_path(name).unwrap_or((root, name));
        [directory.as_os_str().as_encoded_bytes(), b"/", name].concat()
    }

    /// Whether a name of the site is that of a file with an alias of its own.
    pub(crate) fn has_file_alias(&self, name: &[u8]) -> bool {
        self.aliases.has_file(name)
    }

    /// Whether a name of the site is in another directory than the root.
    pub(crate) fn has_alias(&self, name: &[u8]) -> bool {
        self.aliases.file_path(name).is_some()
    }

    /// Returns the groups of auth servers.
    fn auth_groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        let asked = self.auth_requests.iter();
        asked.flat_map(AuthRequests::groups)
    }
}

/// A site in one worker.
pub struct Site {
    /// Its index among the sites.
    pub number: usize,
    root: Descriptor,
    aliases: AliasDescriptors,
    pub routes: Vec<Route>,
    /// The route to the program that executes scripts.
    pub php: Option<Route>,
    /// The routes to the auth servers, in the order of their rules.
    pub(crate) auth_routes: Vec<Route>,
    pub sendfile: Vec<SendfileRoot>,
    pub fast_path: FastPath,
    rules: Arc<Rules>,
}

impl Site {
    fn new(number: usize, root: &OwnedFd, rules: &Arc<Rules>) -> io::Result<Site> {
        let sendfile = rules.sendfile.iter().map(|(paths, root, rules)| {
            Ok(SendfileRoot {
                paths: paths.clone(),
                site: Site::new(UNCACHED, root, rules)?,
            })
        });
        Ok(Site {
            number,
            root: Descriptor::from(root.try_clone()?),
            aliases: rules.aliases.descriptors()?,
            routes: rules.groups.routes(),
            php: rules.php.as_ref().map(Route::to),
            auth_routes: rules.auth_groups().map(Route::to).collect(),
            sendfile: sendfile.collect::<io::Result<_>>()?,
            fast_path: FastPath::from_rules(rules),
            rules: rules.clone(),
        })
    }

    /// Returns the directory that has a name of the site, and the name below it.
    pub fn place<'n>(&'n self, name: &'n [u8]) -> (&'n Descriptor, &'n [u8]) {
        self.aliases.find(name).unwrap_or((&self.root, name))
    }

    /// Whether the client of a request matters for its answer, or how it is sent.
    pub fn treats_clients_differently(&self) -> bool {
        self.network_access.is_some() || self.rate_limits.is_some() || !self.speeds.is_empty()
    }

    /// Whether upstreams answer only after other candidates.
    pub(crate) fn asks_upstreams_later(&self) -> bool {
        let application = self.application.as_ref();
        application.is_some_and(|application| application.asks_upstreams)
    }

    /// Whether symbolic links are not followed.
    pub(crate) fn refuses_links(&self) -> bool {
        self.resolve & ResolveFlags::NO_SYMLINKS.bits() != 0
    }

    /// Returns why this is the site for a host, and its root.
    pub fn described(&self, host: Option<&str>) -> String {
        let files = match &self.directory {
            Some(root) => format!("from {}", root.display()),
            None => "which has no files".to_owned(),
        };
        let host = host.unwrap_or_default();
        match &self.names[..] {
            [] => format!("{host:?} is no name of a host: the main site answers, {files}"),
            names => format!(
                "{host:?} is a name of the host {}, {files}",
                names.join(" ")
            ),
        }
    }

    /// Whether files of this site may be cached.
    pub(crate) fn is_cached(&self) -> bool {
        self.number != UNCACHED
    }
}

impl Deref for Site {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}

/// A directory below which upstreams may name files.
pub struct SendfileRoot {
    /// The configured path, and the canonical one.
    pub paths: Vec<PathBuf>,
    pub site: Site,
}

/// The number of a site whose files are never cached.
const UNCACHED: usize = usize::MAX;

/// The sites of one worker.
pub struct Sites {
    sites: Vec<Site>,
    compiled: Arc<CompiledSites>,
}

impl Sites {
    /// Creates a worker's copies of the sites.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn new(compiled: Arc<CompiledSites>) -> io::Result<Sites> {
        let sites = compiled.sites.iter().enumerate();
        let sites = sites.map(|(number, (root, rules))| Site::new(number, root, rules));
        let sites = sites.collect::<Result<_, _>>()?;
        Ok(Sites { sites, compiled })
    }

    /// Returns the upstreams of all sites.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<Target>> {
        self.compiled.targets()
    }

    /// Returns a site by its number.
    pub fn get(&self, number: usize) -> Option<&Site> {
        self.sites.get(number)
    }

    /// Returns the number of sites.
    pub fn count(&self) -> usize {
        self.sites.len()
    }

    /// Returns the site for the host of a request.
    pub fn of(&self, host: Option<&str>) -> &Site {
        let named = if self.compiled.names.is_empty() {
            None
        } else {
            host.and_then(|host| self.compiled.named(host))
        };
        &self.sites[named.unwrap_or(0)]
    }
}

impl CompiledSites {
    /// Compiles the sites. `counted` are the directories with a quota, which sites before a reload may have too.
    ///
    /// # Errors
    /// Says what cannot be opened, or which rule is malformed.
    pub fn new(options: &Options, counted: &CountedDirectories) -> io::Result<CompiledSites> {
        if let Some(directory) = &options.limits.upstream.spool {
            spool_files::check(directory)?;
        }
        let hosts = options.hosts.iter().map(|host| &host.site);
        let upstreams: Vec<_> = [&options.site]
            .into_iter()
            .chain(hosts)
            .map(|it| &it.upstreams)
            .collect();
        check_prefixes(&upstreams)?;
        let mut healths = Healths::default();
        let mut compiled = CompiledSites {
            sites: vec![compile(&options.site, &[], &mut healths, counted)?],
            names: Vec::new(),
            _name_resolver: NameResolver::default(),
        };
        for host in options.hosts.iter().chain(&hosts_of_upstreams(options)) {
            let number = compiled.sites.len();
            compiled
                .sites
                .push(compile(&host.site, &host.names, &mut healths, counted)?);
            for name in &host.names {
                compiled.names.push((HostName::new(name)?, number));
            }
        }
        let addresses = compiled.targets().filter_map(|target| target.addresses());
        compiled._name_resolver = NameResolver::start(addresses)?;
        Ok(compiled)
    }

    /// Checks that the upstreams can be asked with a back end.
    ///
    /// # Errors
    /// Names the upstream that cannot.
    pub fn suit(self, kind: BackendKind) -> io::Result<CompiledSites> {
        let http2 = |target: &&Arc<Target>| matches!(target.protocol, Protocol::Http2 { .. });
        // A call for one request would block the others on its connection.
        if kind == BackendKind::Sync
            && let Some(target) = self.targets().find(http2)
        {
            let name = &target.name;
            let text = format!("the back end sync does not support HTTP/2 to upstreams: {name}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(self)
    }

    /// Returns the upstreams of all sites.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<Target>> {
        let rules = self.sites.iter().map(|(_, rules)| rules);
        let groups = rules.flat_map(|rules| {
            let answer = rules.groups.iter().chain(&rules.php);
            answer.chain(rules.auth_groups())
        });
        groups.flat_map(|group| group.targets())
    }

    /// Returns the site for a host. The longest matching name wins.
    fn named(&self, host: &str) -> Option<usize> {
        let name = without_port(host);
        let fitting = self.names.iter().filter(|(known, _)| known.fits(name));
        let best = fitting.max_by_key(|(known, _)| (!known.wildcard, known.name.len()));
        best.map(|&(_, number)| number)
    }
}

/// A configured host name.
struct HostName {
    /// Without the leading star.
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
            let text = format!("{text:?} is not a host name: write example.org or *.example.org");
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

/// Returns a host without its port and without a trailing dot.
fn without_port(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

/// Returns the hosts that only upstreams name. In all else they are like the site without a name.
fn hosts_of_upstreams(options: &Options) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    for name in options
        .site
        .upstreams
        .all()
        .filter_map(|it| it.host.as_ref())
    {
        let mut known = options.hosts.iter().chain(&hosts);
        if !known.any(|host| has_name(&host.names, name)) {
            hosts.push(Host {
                names: vec![name.clone()],
                site: options.site.clone(),
            });
        }
    }
    hosts
}

fn has_name(names: &[String], name: &str) -> bool {
    names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Compiles a site with these host names.
fn compile(
    site: &Description,
    names: &[String],
    healths: &mut Healths,
    counted: &CountedDirectories,
) -> io::Result<(OwnedFd, Arc<Rules>)> {
    let resolve = match site.symlinks {
        Symlinks::Within => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        Symlinks::Refuse => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        Symlinks::Follow => ResolveFlags::empty(),
    };
    let users = site.auth.users.as_deref();
    let users = users
        .map(|file| Users::read(file, &site.auth))
        .transpose()?;
    let cors = (!site.cors.origins.is_empty()).then(|| Cors::new(&site.cors));
    let page = |page: &laio_serve_base::options::ErrorPage| {
        let status = Status::from_code(page.status).filter(|status| status.is_error());
        let text = || format!("{} is not the status of an error with a page", page.status);
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, text()))?;
        io::Result::Ok((status, name(&page.file)))
    };
    let application = Application::from_site(site)?;
    let here = |upstream: &&Upstream| match &upstream.host {
        Some(name) => has_name(names, name),
        None => true,
    };
    let upstreams: Vec<_> = site.upstreams.all().filter(here).collect();
    let groups = Groups::new(&upstreams, &site.upstreams, healths)?;
    let php = site.upstreams.php.as_ref();
    let php = php.map(|address| Group::of_php(address, healths));
    let root = open_root(site)?;
    let status = rustix::fs::fstat(&root)?;
    let rules = Rules {
        names: names.to_vec(),
        serves_dotfiles: site.dotfiles,
        resolve: resolve.bits(),
        index: match &application {
            Some(application) => application.index(&site.index),
            None => site.index.clone(),
        },
        listing: site.listing,
        fallback: site.fallback.as_deref().map(name),
        error_pages: site
            .error_pages
            .iter()
            .map(page)
            .collect::<Result<_, _>>()?,
        redirects: Redirects::new(&site.redirects)?,
        rewrites: Rewrites::new(&site.rewrites)?,
        fields: FieldRules::new([&*site.fields, &site.cache_control].concat())?,
        response_rules: ResponseRules::new(
            &site.message_fields.response,
            !site.rewrites.is_empty(),
        )?,
        request_rules: RequestRules::new(&site.message_fields.request)?,
        early_hints: EarlyHints::new(&site.early_hints)?,
        cors: cors.transpose()?,
        network_access: (!(site.access.allow.is_empty() && site.access.deny.is_empty()))
            .then(|| NetworkAccess::new(&site.access))
            .transpose()?,
        rate_limits: (!site.access.rates.is_empty())
            .then(|| RateLimits::new(&site.access))
            .transpose()?,
        speeds: Speeds::new(&site.access)?,
        users,
        auth_requests: AuthRequests::new(site, healths)?,
        hsts: hsts::value(site)?,
        precompressed: site.precompressed.clone(),
        compress: site.compress.clone(),
        compresses_upstreams: compresses_upstreams(site)?,
        uploads: UploadRules::new(site, &root, counted)?,
        description: site.clone(),
        identity: (status.st_dev, status.st_ino),
        directory: site.directory().map(std::path::absolute).transpose()?,
        aliases: Aliases::open(&site.aliases)?,
        application,
        groups,
        php: php.transpose()?.map(Arc::new),
        sendfile: site
            .upstreams
            .sendfile_roots
            .iter()
            .map(|root| compile_sendfile(root, site.symlinks, healths, counted))
            .collect::<io::Result<_>>()?,
    };
    report_missing_pages(site, &rules, &root);
    Ok((root, Arc::new(rules)))
}

/// Reports each error page and fallback page that cannot be sent. The site is served nevertheless, with the built-in page
/// in its place.
fn report_missing_pages(site: &Description, rules: &Rules, root: &OwnedFd) {
    let pages = site.error_pages.iter().map(|page| {
        let option = format!("--error-page {}={}", page.status, page.file);
        (option, &page.file)
    });
    let fallback = site.fallback.iter();
    let fallback = fallback.map(|file| (format!("--fallback {file}"), file));
    for (option, file) in pages.chain(fallback) {
        let name = name(file);
        let (directory, below) = rules.aliases.place(&name).unwrap_or((root, &name));
        if let Err(error) = named_files::check(directory, below, rules.resolve) {
            let path = rules.file_path(&name);
            let path = Path::new(OsStr::from_bytes(&path)).display();
            print(format_args!(
                "{option}: cannot send {path}: {error}; the server answers with its own page instead"
            ));
        }
    }
}

/// Returns whether responses of upstreams are compressed.
fn compresses_upstreams(site: &Description) -> io::Result<bool> {
    if site.compress_upstreams && site.compress.is_empty() {
        let text = "--compress-upstreams needs --compress, which says with which codings";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(site.compress_upstreams)
}

/// Compiles a directory whose files upstreams may name in `X-Sendfile`. Symbolic links never lead
/// out of it.
fn compile_sendfile(
    root: &Path,
    symlinks: Symlinks,
    healths: &mut Healths,
    counted: &CountedDirectories,
) -> io::Result<(Vec<PathBuf>, OwnedFd, Arc<Rules>)> {
    let site = Description {
        root: Some(root.to_owned()),
        symlinks: match symlinks {
            Symlinks::Follow => Symlinks::Within,
            other => other,
        },
        ..Description::default()
    };
    let (descriptor, rules) = compile(&site, &[], healths, counted)?;
    let paths = vec![std::path::absolute(root)?, root.canonicalize()?];
    Ok((paths, descriptor, rules))
}

/// Returns the name of a file below the root, without a leading slash.
fn name(file: &str) -> Vec<u8> {
    file.trim_start_matches('/').as_bytes().to_vec()
}

fn open_root(site: &Description) -> io::Result<OwnedFd> {
    let Some(root) = site.directory() else {
        return no_directory();
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty()).map_err(|errno| {
        let error = io::Error::from(errno);
        let text = format!("cannot serve {}: {error}", root.display());
        io::Error::new(error.kind(), text)
    })
}

/// Returns a descriptor below which there is no name: that of a file. Every look-up below it fails with `ENOTDIR`, which
/// is answered with 404.
fn no_directory() -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(c"laio-no-files", MemfdFlags::CLOEXEC)?;
    Ok(file)
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
