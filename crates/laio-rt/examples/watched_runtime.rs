//! A program that warns when a task holds up its runtime: for `docs/stalls.md`.
//!
//!     watched_runtime std|laio FILE
//!
//! It reads a file with `std::fs` or `laio_rt::fs`.

use laio_rt::{Runtime, stalls};
use std::io;
use std::time::Duration;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "watched_runtime std|laio FILE";
    let (way, file) = (
        arguments.next().expect(usage),
        arguments.next().expect(usage),
    );
    let runtime = Runtime::new(laio::Options::new())?;
    runtime.block_on(async {
        let watch = stalls::Watch::new().over(Duration::from_millis(20));
        let watch = watch.start()?;
        let bytes = if way == "laio" {
            laio_rt::fs::read(&file).await?
        } else {
            std::fs::read(&file)?
        };
        println!("{} bytes", bytes.len());
        println!("stalls: {}", watch.stalls());
        Ok(())
    })
}
