//! A FastCGI program that keeps a web server from waiting for its disk, as fcgi-stat-accel did for lighttpd in 2007:
//! it looks at the file that a request is for, on one of its own threads, asks the kernel to read it ahead, and
//! answers with the name, so that the server sends the file. By then its name, its attributes and its first bytes are
//! in memory.
//!
//! ```console
//! $ cargo run --release -p laio-serve --example stat_accelerator -- 127.0.0.1:1029 20 &
//! $ laio serve --fastcgi /=127.0.0.1:1029 --sendfile-root site site
//! ```
//!
//! `laio serve` needs no such help, since none of its calls waits; this is for comparisons, and shows what a program
//! behind it has to do.

use laio_http::fastcgi::{self, Head, PARAMS, STDIN, STDOUT};
use rustix::fs::{Advice, Mode, OFlags};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// Threads, if the second argument does not say how many: lighttpd's program had as many.
const THREADS: usize = 20;
/// Bytes of a file that are read ahead.
const AHEAD: u64 = 1 << 20;
/// Bytes of parameters and body that a request may have.
const REQUEST: usize = 1 << 20;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:1029".to_owned());
    let threads = arguments.next().and_then(|number| number.parse().ok());
    let listener = Arc::new(match address.strip_prefix("unix:") {
        Some(path) => Listener::Unix(UnixListener::bind(path)?),
        None => Listener::Tcp(TcpListener::bind(&address)?),
    });
    // Each accepts by itself, and serves one connection at a time: the server keeps them.
    let workers = (0..threads.unwrap_or(THREADS)).map(|_| {
        let listener = listener.clone();
        std::thread::spawn(move || {
            loop {
                if let Err(error) = listener.accept().and_then(serve) {
                    eprintln!("stat_accelerator: {error}");
                }
            }
        })
    });
    let workers: Vec<_> = workers.collect();
    workers.into_iter().for_each(|worker| drop(worker.join()));
    Ok(())
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

trait Connection: Read + Write {}
impl<C: Read + Write> Connection for C {}

impl Listener {
    fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (connection, _) = listener.accept()?;
                connection.set_nodelay(true)?;
                Box::new(connection)
            }
            Listener::Unix(listener) => Box::new(listener.accept()?.0),
        })
    }
}

/// Answers request after request until the server closes.
fn serve(mut connection: Box<dyn Connection>) -> io::Result<()> {
    while let Some(params) = request(&mut connection)? {
        let params = fastcgi::params(&params).unwrap_or_default();
        let file = params.iter().find(|(name, _)| *name == b"SCRIPT_FILENAME");
        let answer = match file.map(|(_, path)| Path::new(std::ffi::OsStr::from_bytes(path))) {
            Some(path) => look(path),
            None => "Status: 500\r\nContent-Length: 0\r\n\r\n".into(),
        };
        let mut out = Vec::new();
        fastcgi::push_stream(&mut out, STDOUT, &answer);
        fastcgi::push_stream_end(&mut out, STDOUT);
        fastcgi::push_end(&mut out, 0);
        connection.write_all(&out)?;
    }
    Ok(())
}

/// The parameters of the next request; none at the end of the connection.
fn request(connection: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let (mut params, mut body) = (Vec::new(), 0);
    loop {
        let mut head = [0; fastcgi::HEAD];
        match connection.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let head = Head::parse(head).map_err(io::Error::other)?;
        let mut content = vec![0; usize::from(head.content) + usize::from(head.padding)];
        connection.read_exact(&mut content)?;
        content.truncate(head.content.into());
        match head.kind {
            PARAMS => params.extend(content),
            STDIN if content.is_empty() => return Ok(Some(params)),
            _ => body += content.len(),
        }
        if params.len() + body > REQUEST {
            return Err(io::Error::other("a request is too long"));
        }
    }
}

/// Looks at a file, and has its beginning read ahead.
fn look(path: &Path) -> Vec<u8> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let found = opened.and_then(|file| rustix::fs::fstat(&file).map(|status| (file, status)));
    let Ok((file, status)) = found else {
        return b"Status: 404\r\nContent-Length: 0\r\n\r\n".to_vec();
    };
    // Of files only; of anything else the server will say what it thinks.
    let _ = rustix::fs::fadvise(
        &file,
        0,
        std::num::NonZeroU64::new((status.st_size as u64).min(AHEAD)),
        Advice::WillNeed,
    );
    let mut answer = b"X-LIGHTTPD-send-file: ".to_vec();
    answer.extend_from_slice(path.as_os_str().as_bytes());
    answer.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
    answer
}
