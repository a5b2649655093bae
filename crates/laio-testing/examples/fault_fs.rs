//! A FUSE file system whose requests fail on command, for tests in other languages.
//!
//! Prints the directory on which it is mounted, or `skipped: ` and the reason. Then answers each line of the
//! standard input with one: `fail N KIND ERRNO` lets the N-th request of this kind from now on fail, or with
//! `every` all of them, and `clear` ends all faults. Ends with its input.

use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::{FaultFs, watchdog};
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let fs = match FaultFs::mount() {
        Ok(fs) => fs,
        Err(skip) => return say(&format!("skipped: {skip}")),
    };
    say(&fs.path().display().to_string())?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        watchdog::step("a command");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["clear"] => fs.clear_all(),
            ["fail", n, kind, errno] => {
                let kind = Kind::ALL.iter().find(|known| format!("{known:?}") == kind);
                let (Some(&kind), Ok(errno)) = (kind, errno.parse()) else {
                    return Err(io::Error::other(line));
                };
                match n.parse() {
                    Ok(n @ 1..) => fs.nth(n, kind, Fault::Fail(errno)),
                    _ if n == "every" => fs.set(kind, Fault::Fail(errno)),
                    _ => return Err(io::Error::other(line)),
                }
            }
            _ => return Err(io::Error::other(line)),
        }
        say("done")?;
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
