//! One line about the machine, so that a table that is passed on says where it was made.

use laio::probe::Directory;

/// Kernel, processor, and what the measured directory is on.
pub(crate) fn line(directory: &Directory) -> String {
    let name = rustix::system::uname();
    let mut parts = vec![format!(
        "{} {} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy(),
        name.machine().to_string_lossy()
    )];
    parts.extend(processor());
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    parts.push(match processors {
        1 => "1 CPU".to_owned(),
        many => format!("{many} CPUs"),
    });
    let path = directory.path.display();
    parts.push(format!("{path} on {}", directory.fstype));
    parts.extend(load());
    parts.join(", ")
}

/// The processor's name, where the kernel tells (not on every architecture).
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    let name = line.split_once(':')?.1.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// How busy the machine is with other things: the reader's measure of noise.
fn load() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    Some(format!("load {}", text.split(' ').next()?))
}
