//! Serves an archive, or makes one:
//! `cargo run -- before|after|direct FILE [ADDRESS]`, `cargo run -- archive FILE ZOOM BYTES`.

use laio_example_tiles::{after, archive, before, direct};
use std::error::Error;
use std::path::Path;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (app, address) = match arguments[..] {
        ["archive", file, zoom, mean] => {
            return Ok(archive::write(
                Path::new(file),
                zoom.parse()?,
                mean.parse()?,
            )?);
        }
        ["before", file, ref rest @ ..] => (before::app(Path::new(file)).await?, rest.first()),
        ["after", file, ref rest @ ..] => (after::app(Path::new(file)).await?, rest.first()),
        ["direct", file, ref rest @ ..] => (direct::app(Path::new(file)).await?, rest.first()),
        _ => {
            return Err(
                "usage: before|after|direct FILE [ADDRESS], or archive FILE ZOOM BYTES".into(),
            );
        }
    };
    let listener = TcpListener::bind(address.unwrap_or(&"127.0.0.1:8080")).await?;
    println!("http://{}/", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
