//! A small HTTP server with tokio, in which reading a file can stall the runtime: for
//! `docs/finding-stalls.md` and `benches/stalls/slowdown.py`.
//!
//!     tokio_server PORT DIRECTORY std|laio
//!
//! `/` has an answer of its own. Other paths are files of the directory, read with `std::fs` or
//! `laio_tokio::fs`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The longest head of a request.
const HEAD: usize = 4096;

struct Site {
    directory: PathBuf,
    with_laio: bool,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .expect("tokio_server PORT DIRECTORY std|laio")
    };
    let (port, directory, way) = (next(), next(), next());
    let site = Arc::new(Site {
        directory: PathBuf::from(directory),
        with_laio: way == "laio",
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            // A client that goes away ends its task.
            tokio::spawn(serve(stream, site.clone()));
        }
    })
}

async fn serve(mut stream: TcpStream, site: Arc<Site>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = Vec::with_capacity(HEAD);
    loop {
        if stream.read_buf(&mut head).await? == 0 || head.len() >= HEAD {
            return Ok(());
        }
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        let path = text
            .split(' ')
            .nth(1)
            .unwrap_or("/")
            .trim_start_matches('/');
        let body = match path {
            "" => b"hello\n".to_vec(),
            path => site.read(path).await.unwrap_or_default(),
        };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream
            .write_all(&[answer.as_bytes(), &body].concat())
            .await?;
        head.clear();
    }
}

impl Site {
    async fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        // The name has no `..`: that is all that a program for measurements needs.
        let path = self.directory.join(path.replace("..", ""));
        if self.with_laio {
            laio_tokio::fs::read(path).await
        } else {
            std::fs::read(path)
        }
    }
}
