//! Boots a kernel of Debian for another processor in qemu-system, with the command and the suites in its initial file
//! system: for what an emulator of programs lacks, above all io_uring.

use super::tools::Target;
use crate::files::failure;
use crate::kernels::jobs::{self, Job, Outcome};
use crate::kernels::machine::{self, follow};
use crate::kernels::packages::{self, Archive};
use crate::programs::{Program, cannot_run, run};
use crate::repository::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The programs that build and run the machine, and Debian's packages of them.
const PROGRAMS: [(&str, &str); 3] = [
    ("qemu-system-aarch64", "qemu-system-arm"),
    ("busybox", "busybox-static"),
    ("dpkg-deb", "dpkg"),
];

/// The kernel, from Debian 12: qemu 7.2 does not unpack the kernels of later releases.
const KERNEL: (&str, &str) = ("6.1", "bookworm");

/// Shared libraries of the C library and the compiler, which Rust programs are linked with.
const LIBRARIES: [&str; 7] = [
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// The back ends that serve the site.
const BACKENDS: [&str; 6] = [
    "lazy",
    "uring",
    "hybrid",
    "threads",
    "linux-aio",
    "posix-aio",
];

/// What the user wants of the machine.
#[derive(Debug)]
pub struct Machine {
    /// Download the packages that are absent.
    pub fetch: bool,
    /// The time limit in seconds.
    pub limit: u64,
}

/// Boots the machine, serves the site there and runs the test programs with these arguments.
///
/// # Errors
/// If a program or a package is missing (the error says how to get it), or qemu cannot be run.
pub fn run_in(
    machine: &Machine,
    target: &Target,
    programs: &[Program],
    arguments: &[String],
) -> Result<Vec<Outcome>, Failure> {
    machine::check_these(&PROGRAMS)?;
    let directory = crate::repository::root().join("target/kernels/arm64");
    let archive = Archive {
        release: KERNEL.1,
        architecture: "arm64",
    };
    if machine.fetch && packages::packages(&directory).is_empty() {
        archive.fetch(KERNEL.0, &["busybox-static"], &directory)?;
    }
    if packages::packages(&directory).is_empty() {
        return Err(format!(
            "no packages below {}: `--fetch` downloads them from Debian's archive, or put linux-image-*-arm64.deb and \
             busybox-static of arm64 there",
            directory.display()
        )
        .into());
    }
    let jobs = jobs(programs, arguments);
    let root = stage(&directory, target, programs, &jobs)?;
    let initramfs = directory.join("initramfs");
    let pack = "cd \"$0\" && find . | busybox cpio -o -H newc > \"$1\"";
    run(Command::new("sh")
        .args(["-c", pack])
        .args([&root, &initramfs]))?;
    let output = boot(&directory, &initramfs, machine.limit)?;
    Ok(jobs::results(&jobs, &output))
}

fn jobs(programs: &[Program], arguments: &[String]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for program in programs {
        let inside = inside(program);
        if program.is_test {
            let arguments: Vec<String> = arguments.iter().map(|word| jobs::quoted(word)).collect();
            let arguments = arguments.join(" ");
            jobs.push(Job::suite(program.name(), &inside, &arguments));
        } else if program.target == "laio" {
            jobs.extend(BACKENDS.map(|backend| site(&inside, backend)));
            let refused = format!(
                "{inside} serve --backend activations /site 2>&1 | grep 'x86-64 with glibc only'"
            );
            jobs.push(Job::new("activations refused", refused));
        }
    }
    jobs
}

/// Serves the example site by one back end, and compares every file of it.
fn site(command: &str, backend: &str) -> Job {
    let script = format!(
        "{command} serve --backend {backend} --listen 127.0.0.1:8080 /site >/tmp/log 2>&1 & server=$!\n\
         for i in $(seq 300); do wget -q -O /dev/null http://127.0.0.1:8080/ 2>/dev/null && break; sleep 0.2; done\n\
         status=0; cd /site\n\
         for file in $(find . -type f | cut -c 3-); do\n\
           wget -q -O - \"http://127.0.0.1:8080/$file\" | cmp -s - \"$file\" || {{ echo \"differs: $file\"; status=1; }}\n\
         done\n\
         kill $server; wait $server || status=$?\n\
         [ $status = 0 ] || cat /tmp/log\n\
         (exit $status)"
    );
    Job::new(&format!("site by {backend}"), script)
}

/// The path of a program in the machine.
fn inside(program: &Program) -> String {
    format!("/programs/{}-{}", program.package, program.target)
}

/// Lays out the initial file system, which is also the only one.
fn stage(
    directory: &Path,
    target: &Target,
    programs: &[Program],
    jobs: &[Job],
) -> Result<PathBuf, Failure> {
    let tree = directory.join("tree");
    for package in packages::packages(directory) {
        run(Command::new("dpkg-deb").arg("-x").args([&package, &tree]))?;
    }
    let root = directory.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|error| failure("remove", &root, &error))?;
    }
    for part in ["bin", "dev", "etc", "lib", "proc", "programs", "sys", "tmp"] {
        let path = root.join(part);
        fs::create_dir_all(&path).map_err(|error| failure("make", &path, &error))?;
    }
    let busybox = ["bin/busybox", "usr/bin/busybox"].map(|path| tree.join(path));
    let busybox = busybox.iter().find(|path| path.is_file());
    let busybox = busybox.ok_or("the packages hold no busybox")?;
    machine::copy(busybox, &root.join("bin/busybox"))?;
    for program in programs {
        machine::copy(&program.path, &root.join(&inside(program)[1..]))?;
    }
    let libraries = target.libraries().join("lib");
    for name in LIBRARIES {
        let library = libraries.join(name);
        if library.is_file() {
            machine::copy(&library, &root.join("lib").join(name))?;
        }
    }
    let site = crate::repository::root().join("examples/site");
    run(Command::new("cp")
        .arg("-rL")
        .args([&site, &root.join("site")]))?;
    let passwd = "root:x:0:0:root:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
    for (name, text) in [("etc/passwd", passwd), ("init", &script(jobs))] {
        let path = root.join(name);
        fs::write(&path, text).map_err(|error| failure("write", &path, &error))?;
    }
    machine::executable(&root.join("init"))?;
    Ok(root)
}

/// The first process of the machine.
fn script(jobs: &[Job]) -> String {
    let begin = "#!/bin/busybox sh\n\
         /bin/busybox --install /bin\n\
         export PATH=/bin HOME=/tmp RUST_BACKTRACE=1\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev\n\
         mkdir -p /dev/pts /dev/shm /dev/mqueue\n\
         mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts\n\
         mount -t tmpfs -o mode=1777 shm /dev/shm; mount -t tmpfs -o mode=1777 tmp /tmp\n\
         mount -t mqueue mqueue /dev/mqueue\n\
         ip link set lo up; ulimit -n 20000; cd /tmp\n";
    format!("{begin}{}", jobs::each(jobs, "sh"))
}

fn boot(directory: &Path, initramfs: &Path, limit: u64) -> Result<String, Failure> {
    let output = directory.join("output");
    let _ = fs::remove_file(&output);
    let mut qemu = Command::new("qemu-system-aarch64");
    qemu.args(["-M", "virt", "-cpu", "cortex-a72", "-smp", "2", "-m", "3G"]);
    qemu.args([
        "-nic",
        "none",
        "-display",
        "none",
        "-monitor",
        "none",
        "-no-reboot",
    ]);
    qemu.arg("-kernel")
        .arg(machine::kernel_in(&directory.join("tree/boot"))?);
    qemu.arg("-initrd").arg(initramfs);
    qemu.args(["-append", "console=ttyAMA0 quiet panic=-1"]);
    // The only serial port: the kernel's messages are among the jobs' lines.
    qemu.arg("-serial")
        .arg(format!("file:{}", output.display()));
    let mut running = qemu.stdin(Stdio::null()).spawn();
    let running = running.as_mut().map_err(|error| cannot_run(&qemu, error))?;
    follow(running, &output, Duration::from_secs(limit))
}
