//! Serves the API: `cargo run -- before|after DIRECTORY [ADDRESS]`.

use laio_example_axum::{after, before};
use std::io;
use std::path::PathBuf;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let app = match arguments.as_slice() {
        [which, items, ..] if which == "before" => before::app(PathBuf::from(items)),
        [which, items, ..] if which == "after" => after::app(PathBuf::from(items)),
        _ => {
            return Err(io::Error::other(
                "usage: laio-example-axum before|after DIRECTORY [ADDRESS]",
            ));
        }
    };
    let address = arguments.get(2).map_or("127.0.0.1:8080", String::as_str);
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/items", listener.local_addr()?);
    axum::serve(listener, app).await
}
