//! Reads the ends of objects and two ranges of each, as a reader of Parquet files does:
//! `cargo run -p laio-object-store --example object_store -- DIRECTORY`.
//!
//! A program with DataFusion registers the store for its `file` URLs:
//! `context.register_object_store(&Url::parse("file://")?, Arc::new(LocalStore::new()))`.

use futures_util::TryStreamExt;
use laio_object_store::LocalStore;
use object_store::{GetOptions, GetRange, ObjectStore};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1);
    let directory = directory.ok_or("usage: object_store DIRECTORY")?;
    let store = LocalStore::new_with_prefix(directory)?;
    let objects: Vec<_> = store.list(None).try_collect().await?;
    for object in objects.iter().filter(|object| object.size > 1000) {
        let name = &object.location;
        let end = GetOptions::new().with_range(Some(GetRange::Suffix(8)));
        let end = store.get_opts(name, end).await?.bytes().await?;
        let ranges = [0..100, object.size / 2..object.size / 2 + 100];
        let columns = store.get_ranges(name, &ranges).await?;
        let bytes = end.len() + columns.iter().map(|bytes| bytes.len()).sum::<usize>();
        println!("{name}: {bytes} of {} bytes", object.size);
    }
    println!("{:?}", laio_tokio::proactor()?.stats());
    Ok(())
}
