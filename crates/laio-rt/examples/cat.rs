//! Writes files to the standard output: `cat FILE…`; without a file, the standard input.

use laio_rt::Runtime;
use laio_rt::fs::File;
use laio_rt::pipe::Writer;
use std::io;
use std::os::fd::AsFd;

async fn cat(file: File, output: &Writer) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(128 * 1024);
    loop {
        let (result, read) = file.read(buffer).await;
        if result? == 0 {
            return Ok(());
        }
        let (result, written) = output.write_all(read).await;
        result?;
        buffer = written;
        buffer.clear();
    }
}

fn main() -> io::Result<()> {
    let runtime = Runtime::new(laio::Options::new())?;
    runtime.block_on(async {
        let output = Writer::from(io::stdout().as_fd().try_clone_to_owned()?);
        let mut files = std::env::args_os().skip(1).peekable();
        if files.peek().is_none() {
            let input = io::stdin().as_fd().try_clone_to_owned()?;
            return cat(input.into(), &output).await;
        }
        for path in files {
            cat(File::open(path).await?, &output).await?;
        }
        Ok(())
    })
}
