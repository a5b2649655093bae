//! Serves a directory with axum: `cargo run -p laio-tower --example serve_dir -- DIRECTORY [ADDRESS]`.

use axum::Router;
use laio_tower::{Coding, ServeDir};
use std::io;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: serve_dir DIRECTORY [ADDRESS]");
    let root = arguments.next().ok_or_else(usage)?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());

    let files = ServeDir::new(root)?.precompressed([Coding::Brotli, Coding::Gzip]);
    let app = Router::new().nest_service("/files", files);
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/files/", listener.local_addr()?);
    axum::serve(listener, app).await
}
