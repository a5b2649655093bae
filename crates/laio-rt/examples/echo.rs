//! Sends back what each client sends: `echo 127.0.0.1:7000`. Ends at SIGINT or SIGTERM.

use laio_rt::future::{Either, race};
use laio_rt::net::{TcpListener, TcpStream};
use laio_rt::signal::{SIGINT, SIGTERM, Signals};
use laio_rt::{Runtime, spawn, time};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The time after which an idle client is disconnected.
const SILENCE_MAX: Duration = Duration::from_secs(60);

async fn echo(client: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        let (result, received) = time::timeout(SILENCE_MAX, client.read(buffer)).await?;
        if result? == 0 {
            return Ok(());
        }
        let (result, sent) = client.write_all(received).await;
        result?;
        buffer = sent;
        buffer.clear();
    }
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (client, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The error concerns one client, or there are too many: keep accepting.
            Err(error) => {
                eprintln!("accept: {error}");
                time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        spawn(async move {
            if let Err(error) = echo(client).await {
                eprintln!("{peer}: {error}");
            }
        })
        .detach();
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let address: SocketAddr = address
        .as_deref()
        .unwrap_or("127.0.0.1:7000")
        .parse()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let runtime = Runtime::new(laio::Options::new())?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address)?;
        println!("listening at {}", listener.local_addr()?);
        let mut signals = Signals::new(&[SIGINT, SIGTERM])?;
        match race(serve(listener), signals.next()).await {
            Either::Left(result) => result,
            Either::Right(signal) => signal.map(|_| ()),
        }
    })
}
