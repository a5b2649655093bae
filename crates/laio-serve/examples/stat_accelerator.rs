//! A FastCGI program that prevents a web server from blocking on its disk, like fcgi-stat-accel for
//! lighttpd in 2007. On one of its own threads it opens the requested file, asks the kernel to read
//! it ahead, and answers with the file's name, so that the server sends the file. By then the name,
//! the metadata and the first bytes are cached.
//!
//! ```console
//! $ cargo run --release -p laio-serve --example stat_accelerator -- 127.0.0.1:1029 20 &
//! $ laio serve --fastcgi /=127.0.0.1:1029 --sendfile-root site site
//! ```
//!
//! `laio serve` does not need such a program, because none of its calls blocks. This one is for
//! comparisons, and an example of an upstream program.

use laio_http::fastcgi::{self, Head, PARAMS, STDIN, STDOUT};
use rustix::fs::{Advice, Mode, OFlags};
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// Default number of threads, that of lighttpd's program.
const THREADS: usize = 20;
/// Bytes of a file to read ahead.
const AHEAD: u64 = 1 << 20;
/// Maximum bytes of parameters and body of a request.
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
    // Each thread accepts and serves one connection at a time; the server keeps them open.
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

/// Answers requests until the server closes the connection.
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

/// Returns the parameters of the next request, or none at the end of the connection.
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

/// Opens a file and starts reading ahead.
fn look(path: &Path) -> Vec<u8> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let found = opened.and_then(|file| rustix::fs::fstat(&file).map(|status| (file, status)));
    let Ok((file, status)) = found else {
        return b"Status: 404\r\nContent-Length: 0\r\n\r\n".to_vec();
    };
    // Fails for anything but files, which the server refuses later.
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
