//! A program that warns when a task holds up its runtime: for `docs/stalls.md`.
//!
//!     watched std|laio FILE
//!
//! It reads a file with `std::fs` or `laio_tokio::fs`.

use std::io;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "watched std|laio FILE";
    let (way, file) = (
        arguments.next().expect(usage),
        arguments.next().expect(usage),
    );
    let watch = laio_tokio::stalls::Watch::new().over(Duration::from_millis(20));
    let watch = watch.start()?;
    let bytes = if way == "laio" {
        laio_tokio::fs::read(&file).await?
    } else {
        std::fs::read(&file)?
    };
    println!("{} bytes", bytes.len());
    println!("stalls: {}", watch.stalls());
    Ok(())
}
