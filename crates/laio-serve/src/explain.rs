//! Explains what a server with some options answers, and why, without serving them.
//!
//! A worker with the sites of the options answers one request, on a socket that only this process knows, as any
//! server does. Its steps are noted where they are decided (`trace`), so the explanation cannot differ from the
//! server. Upstreams are not asked.

mod question;
mod report;

pub use question::Question;

use crate::features;
use crate::worker::{self, GenerationState};
use laio::BackendKind;
use laio_http::upstream::parse_response;
use laio_serve_base::clients::TrustedProxies;
use laio_serve_base::options::{Cache, Clients, Io, LogTarget, Network, Options};
use laio_serve_base::stop::{Level, Stop};
use laio_serve_base::trace::{self, Step};
use laio_serve_core::site::CompiledSites;
use laio_serve_core::site::quota::CountedDirectories;
use laio_serve_net::io_contexts::ContextPlan;
use laio_serve_net::listen::{Kind, Share, https_port};
use laio_serve_uploads::SharedChanges;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// What a server answers, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The decisions, in their order.
    pub steps: Vec<Step>,
    /// The response; none if an upstream would be asked, whose name the last step contains, or if files would be
    /// changed.
    pub answer: Option<Answer>,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The reason phrase of the status line.
    pub reason: String,
    /// The header fields, in their order.
    pub fields: Vec<(String, String)>,
}

/// Time for the one response; opening a file may take [`Limits::open_time`](crate::Limits::open_time) more.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Bytes of the longest head that is read.
const HEAD_BYTES: usize = 256 * 1024;

/// Returns what a server with these options answers to a request, and why. The listening addresses, the access
/// log, the certificates and the user of the options are not used.
///
/// # Errors
/// Like [`Server::start`](crate::Server::start), for what the sites need; and when the request gets no answer.
///
/// ```
/// use laio_serve::{Options, Question, explain};
///
/// let question = Question::new("http://localhost/no/such/file")?;
/// let explained = explain(&Options::default(), &question)?;
/// assert_eq!(explained.answer.unwrap().status, 404);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn explain(options: &Options, question: &Question) -> io::Result<Explanation> {
    features::check_compiled(options)?;
    let https_port = port_of_https(options, question);
    let addresses = addresses(options, question);
    let mut options = Options {
        // What answers does not depend on these.
        backend: Some(BackendKind::Lazy),
        io: Io::default(),
        cache: Cache::OFF,
        workers: Some(1),
        log: LogTarget::Off,
        observer: crate::Observer::default(),
        listen: Vec::new(),
        certificates: Vec::new(),
        ..options.clone()
    };
    if question.client.is_some() {
        // The request comes from this machine, and says who its client is.
        options.clients = Clients {
            proxies: vec![Network::Inet {
                address: Ipv4Addr::LOCALHOST.into(),
                length: 32,
            }],
            field: question::CLIENT_FIELD.to_owned(),
        };
    }
    let stop = Arc::<Stop>::default();
    let shared = GenerationState {
        sites: Arc::new(CompiledSites::new(
            &options,
            &CountedDirectories::default(),
        )?),
        addresses: Arc::default(),
        memory: Arc::default(),
        trusted_proxies: Arc::new(TrustedProxies::from_options(&options)?),
        datagrams: None,
        slots: Arc::default(),
        cpu_pool: Arc::new(laio_serve_base::cpu_pool::CpuPool::new(1)),
        changes: SharedChanges::new(features::change_extension()),
        log: None,
        stop: stop.clone(),
        tls: None,
    };
    let (runtime, contexts) = ContextPlan::new(&options, BackendKind::Lazy)?.create(&options)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (request, to_head) = (question.request(), question.method == "HEAD");
    let time = ANSWER_TIME + options.limits.open_time;
    let client = laio::thread::start(
        "laio-explain",
        "the thread that asks the server",
        move || {
            let answer = ask(address, &request, to_head, time);
            stop.raise(Level::Cut);
            answer
        },
    )?;
    let share = Share {
        socket: listener.into(),
        kind: Kind::Stream,
        tls: false,
        proxy_header: false,
        https_port,
        datagram_port: None,
    };
    let (served, mut steps) = trace::traced(question.secure, || {
        worker::run(runtime, contexts, &options, shared, vec![share])
    });
    let answer = client
        .join()
        .map_err(|_| io::Error::other("the client of the explained request has panicked"))?;
    served?;
    let answer = answer?;
    let unanswered = |step: &Step| ["upstream", "change"].contains(&step.kind);
    if answer.is_none() && !steps.last().is_some_and(unanswered) {
        let text = "the server closed the connection without an answer";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    steps.insert(0, addresses);
    Ok(Explanation { steps, answer })
}

/// Returns the port to which a listening address for the URL redirects, if it has none of its own.
fn port_of_https(options: &Options, question: &Question) -> Option<u16> {
    let clear = options.listen.iter().filter(|listen| !listen.tls);
    let asked = |port: u16| question.port.unwrap_or(80) == port;
    let mut fitting = clear.clone();
    let own = fitting.find(|it| it.inet().is_some_and(|address| asked(address.port())));
    let own = own.or_else(|| clear.clone().next())?;
    https_port(own, options.listen.iter()).filter(|_| !question.secure)
}

/// Returns which listening address gets the request.
fn addresses(options: &Options, question: &Question) -> Step {
    let mut fitting = options.listen.iter().filter(|it| it.tls == question.secure);
    let port = question
        .port
        .unwrap_or(if question.secure { 443 } else { 80 });
    let exact = fitting
        .clone()
        .find(|it| it.inet().is_some_and(|address| address.port() == port));
    let text = match (exact, fitting.next()) {
        (Some(listen), _) => format!("{listen} listens on this port"),
        (None, Some(listen)) => {
            format!(
                "no --listen names port {port}: explained as if the request had reached {listen}"
            )
        }
        (None, None) if question.secure => {
            "no --listen has TLS: explained as if one had".to_owned()
        }
        (None, None) => {
            "every --listen has TLS, and refuses requests in the clear: explained as if one did not"
                .to_owned()
        }
    };
    let kind = "listen";
    Step { kind, text }
}

/// Sends a request and reads the head of its response. Returns `None` if the server closes the connection
/// before.
fn ask(
    address: SocketAddr,
    request: &[u8],
    to_head: bool,
    time: Duration,
) -> io::Result<Option<Answer>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(time))?;
    stream.set_write_timeout(Some(time))?;
    stream.write_all(request)?;
    let limits = laio_http::Limits {
        head_bytes: HEAD_BYTES,
        headers: usize::MAX,
        ..laio_http::Limits::DEFAULT
    };
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer)?;
        received.extend_from_slice(&buffer[..count]);
        let parsed = parse_response(&received, &limits, to_head).map_err(io::Error::other)?;
        if let Some((head, _)) = parsed
            && head.status.code() >= 200
        {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let fields = head.headers.iter();
            return Ok(Some(Answer {
                status: head.status.code(),
                reason: head.status.reason().to_owned(),
                fields: fields
                    .map(|(name, value)| (text(name), text(value)))
                    .collect(),
            }));
        }
        if count == 0 || received.len() > HEAD_BYTES {
            return Ok(None);
        }
    }
}
