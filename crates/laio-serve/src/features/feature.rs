//! What a feature of the server may do, as a table of functions: [`Feature`].

use crate::connection::running::Connections;
use laio::BackendKind;
use laio_rt::JoinHandle;
use laio_serve_base::addresses::Addresses;
use laio_serve_base::options::{Options, Site};
use laio_serve_core::request::directory_answer::DirectoryAnswer;
use laio_serve_core::services::Services;
use laio_serve_net::tls::Tls;
use laio_serve_net::tls::published::Published;
use laio_serve_uploads::ChangeExtension;
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// A feature: its name, the option that needs it, and the functions by which it takes part in a
/// server. Those that it leaves out do nothing ([`Feature::WITHOUT_PARTS`]).
pub(crate) struct Feature {
    /// Its name among the features of Cargo.
    pub(super) name: &'static str,
    pub(super) is_compiled: bool,
    pub(super) option: &'static str,
    /// Whether the option is used.
    pub(super) is_used: fn(&Options) -> bool,
    /// Says why its options cannot be combined with each other or with a back end.
    pub(super) check: fn(&Options, BackendKind) -> io::Result<()>,
    /// Creates what it keeps on disk, for a user and a group, before the server gives up its privileges.
    pub(super) prepare: fn(&Options, Owner) -> io::Result<()>,
    /// Returns where it publishes certificates, if it gets any.
    pub(super) published: fn(&Options) -> Option<Arc<Published>>,
    /// Starts the threads that it has beside the workers.
    pub(super) start: fn(&Options, Option<&Arc<Published>>) -> io::Result<Started>,
    /// Returns what it adds to the changes of files.
    pub(super) changes: fn() -> Option<ChangeExtension>,
    /// Returns what it keeps to receive datagrams, until the server ends.
    pub(super) datagrams: fn() -> io::Result<Option<Arc<dyn Datagrams>>>,
    /// Returns what answers requests for directories in one worker.
    pub(super) directories: fn(&Options) -> Option<Box<dyn DirectoryAnswer>>,
}

impl Feature {
    /// A feature whose functions do nothing.
    pub(super) const WITHOUT_PARTS: Feature = Feature {
        name: "",
        is_compiled: false,
        option: "",
        is_used: |_| false,
        check: |_, _| Ok(()),
        prepare: |_, _| Ok(()),
        published: |_| None,
        start: |_, _| Ok(None),
        changes: || None,
        datagrams: || Ok(None),
        directories: |_| None,
    };
}

/// The user and the group that will own what a feature keeps on disk; none for the present ones.
pub(crate) type Owner = Option<(u32, u32)>;

/// The threads that a feature has started, if it has any.
pub(crate) type Started = Option<Arc<dyn Background>>;

/// The threads of a feature, which run until the server ends.
pub(crate) trait Background: Debug + Send + Sync {
    /// Lets the threads begin, once workers serve; or try again what has failed, after a reload.
    fn wake(&self);

    /// Lets the threads end after what they are doing.
    fn end(&self);
}

/// What a feature keeps to receive datagrams, for all generations of workers.
pub(crate) trait Datagrams: Debug + Send + Sync {
    /// Returns what receives datagrams in a generation, if its options ask for that.
    ///
    /// # Errors
    /// Says which options cannot be combined.
    fn configure(
        &self,
        options: &Options,
        tls: &Tls,
    ) -> io::Result<Option<Arc<dyn DatagramReceiver>>>;

    /// Records that another process reads the sockets from now on.
    fn leave(&self);
}

/// What receives datagrams in the workers of a generation.
pub(crate) trait DatagramReceiver: Debug + Send + Sync {
    /// Starts the tasks of a worker that receive from its sockets.
    ///
    /// # Errors
    /// If a socket option that every kernel has fails.
    fn receive(&self, sockets: DatagramSockets) -> io::Result<Vec<JoinHandle<()>>>;

    /// Returns the value of `Alt-Svc`, by which responses over TCP announce it, for an address with this UDP
    /// port.
    fn announcement(&self, port: u16) -> String;

    /// Whether upstreams get requests in early data.
    fn passes_early(&self) -> bool;
}

/// The sockets with datagrams of a worker, and what serves their connections.
pub(crate) struct DatagramSockets {
    pub(crate) sockets: Vec<OwnedFd>,
    pub(crate) services: Rc<Services>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) addresses: Arc<Addresses>,
}

/// Whether one of the sites fulfils a condition.
pub(super) fn any_site(options: &Options, condition: fn(&Site) -> bool) -> bool {
    let hosts = options.hosts.iter().map(|host| &host.site);
    [&options.site].into_iter().chain(hosts).any(condition)
}
