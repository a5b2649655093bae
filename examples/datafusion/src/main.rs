//! Makes the tables, or runs all queries and prints how many seconds each took:
//! `cargo run -- data DIRECTORY SCALE`, `cargo run -- before|after DIRECTORY`.

use laio_example_datafusion::{after, before, data, queries};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (session, directory) = match arguments[..] {
        ["data", directory, scale] => return data::write(Path::new(directory), scale.parse()?),
        ["before", directory] => (before::session(), directory),
        ["after", directory] => (after::session(), directory),
        _ => return Err("usage: data DIRECTORY SCALE, or before|after DIRECTORY".into()),
    };
    queries::register(&session, Path::new(directory)).await?;
    for (number, query) in (1..).zip(queries::all()) {
        let begin = Instant::now();
        queries::run(&session, query).await?;
        println!("{number} {:.4}", begin.elapsed().as_secs_f64());
    }
    Ok(())
}
