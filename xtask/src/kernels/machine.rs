//! The virtual machine: a kernel from its package, a disk with this machine's programs, and qemu.

use super::Request;
use super::packages::packages;
use crate::files::failure;
use crate::programs::{cannot_run, output_of, run, succeeds};
use crate::repository::Failure;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The files of a kernel, in the kernel's directory.
#[derive(Debug)]
pub struct Boot {
    kernel: PathBuf,
    initramfs: PathBuf,
    /// The directory with the kernel's modules, whose name is the kernel's release.
    modules: PathBuf,
}

/// The programs that build and run the machine, and Debian's packages of them.
const PROGRAMS: [(&str, &str); 7] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mkfs.ext4", "e2fsprogs"),
    ("depmod", "kmod"),
    ("dpkg-deb", "dpkg"),
    ("dpkg-query", "dpkg"),
    ("xz", "xz-utils"),
    ("busybox", "busybox-static"),
];

/// Modules that the root file system needs, each loaded with its dependencies. If a kernel does not have one
/// of them as a module, it is built in or not needed.
const BOOT_MODULES: [&str; 4] = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"];

/// Packages whose programs the suites and the jobs run, if installed.
const GUEST_PACKAGES: [&str; 22] = [
    "acl",
    "attr",
    "bash",
    "coreutils",
    "curl",
    "dash",
    "diffutils",
    "e2fsprogs",
    "findutils",
    "fuse3",
    "grep",
    "gzip",
    "iproute2",
    "kmod",
    "libc-bin",
    "mount",
    "procps",
    "sed",
    "strace",
    "tar",
    "util-linux",
    "xfsprogs",
];

/// Memory of the virtual machine.
const MEMORY: &str = "4G";

/// Size of the disk for temporary files.
const SCRATCH: u64 = 8 << 30;

/// How often the output of the virtual machine is read.
const PERIOD: Duration = Duration::from_millis(500);

/// Checks that every program that builds and runs a virtual machine is installed.
///
/// # Errors
/// Names each missing one, and its package.
pub fn check_programs() -> Result<(), Failure> {
    check_these(&PROGRAMS)
}

/// As [`check_programs`], for these programs and packages.
///
/// # Errors
/// Names each missing one, and its package.
pub fn check_these(programs: &[(&str, &str)]) -> Result<(), Failure> {
    let absent: Vec<String> = programs
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(program, package)| format!("{program} (Debian: apt install {package})"))
        .collect();
    if absent.is_empty() {
        return Ok(());
    }
    Err(format!("absent, but needed to boot kernels: {}", absent.join(", ")).into())
}

fn is_there(program: &str) -> bool {
    succeeds(Command::new("sh").args(["-c", "command -v \"$0\"", program]))
}

/// Unpacks the kernel's packages and makes the initial file system, once.
///
/// # Errors
/// If a package does not contain a kernel, or a program fails.
pub fn prepare(directory: &Path) -> Result<Boot, Failure> {
    let tree = directory.join("tree");
    if !directory.join("unpacked").exists() {
        if tree.exists() {
            fs::remove_dir_all(&tree).map_err(|error| failure("remove", &tree, &error))?;
        }
        for package in packages(directory) {
            run(Command::new("dpkg-deb").arg("-x").args([&package, &tree]))?;
        }
        let modules = modules(&tree)?;
        // In Debian 12 and earlier the modules are in /lib, where depmod expects them.
        let base = modules
            .parent()
            .and_then(Path::parent)
            .and_then(Path::parent)
            .ok_or("the modules are not below lib/modules")?;
        let release = modules.file_name().ok_or("the modules have no release")?;
        run(Command::new("depmod").arg("-b").arg(base).arg(release))?;
        File::create(directory.join("unpacked"))
            .map_err(|error| failure("make", directory, &error))?;
    }
    let modules = modules(&tree)?;
    let initramfs = initramfs(directory, &modules)?;
    Ok(Boot {
        kernel: kernel(&tree, &modules)?,
        initramfs,
        modules,
    })
}

fn modules(tree: &Path) -> Result<PathBuf, Failure> {
    for place in ["usr/lib/modules", "lib/modules"] {
        let entries = fs::read_dir(tree.join(place)).into_iter().flatten();
        if let Some(entry) = entries.flatten().next() {
            return Ok(entry.path());
        }
    }
    Err(format!("{}: the packages hold no modules", tree.display()).into())
}

fn kernel(tree: &Path, modules: &Path) -> Result<PathBuf, Failure> {
    kernel_in(&tree.join("boot")).or_else(|_| kernel_in(modules))
}

/// Returns the kernel in a directory.
///
/// # Errors
/// If there is none.
pub fn kernel_in(directory: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz") && path.is_file()
    };
    let mut kernels = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_kernel);
    let none = || format!("{}: the packages hold no vmlinuz", directory.display()).into();
    kernels.next().ok_or_else(none)
}

/// Returns the files of [`BOOT_MODULES`] and of their dependencies, in load order.
fn boot_modules(modules: &Path) -> Result<Vec<PathBuf>, Failure> {
    let path = modules.join("modules.dep");
    let listed = fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))?;
    let mut ordered: Vec<PathBuf> = Vec::new();
    for name in BOOT_MODULES {
        let line = listed.lines().find(|line| {
            let file = line.split(':').next().unwrap_or_default();
            let file = file.rsplit('/').next().unwrap_or_default();
            file.split('.').next() == Some(name)
        });
        let Some((file, dependencies)) = line.and_then(|line| line.split_once(':')) else {
            continue;
        };
        // A module depends on those after it in the line.
        for file in dependencies.split_whitespace().rev().chain([file]) {
            let path = modules.join(file);
            if !ordered.contains(&path) {
                ordered.push(path);
            }
        }
    }
    Ok(ordered)
}

fn initramfs(directory: &Path, modules: &Path) -> Result<PathBuf, Failure> {
    let root = directory.join("initramfs.root");
    let archive = directory.join("initramfs");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|error| failure("remove", &root, &error))?;
    }
    for part in ["bin", "proc", "sys", "dev", "modules", "new"] {
        let path = root.join(part);
        fs::create_dir_all(&path).map_err(|error| failure("make", &path, &error))?;
    }
    let busybox = output_of(Command::new("sh").args(["-c", "command -v busybox"]))?;
    copy(Path::new(busybox.trim()), &root.join("bin/busybox"))?;
    let mut init = String::from(
        "#!/bin/busybox sh\n\
         /bin/busybox --install /bin\n\
         mount -t proc proc /proc; mount -t devtmpfs dev /dev\n",
    );
    for (index, module) in boot_modules(modules)?.iter().enumerate() {
        let name = format!("{index}.ko");
        let plain = root.join("modules").join(&name);
        if module
            .extension()
            .is_some_and(|extension| extension == "xz")
        {
            let content = output_bytes(Command::new("xz").arg("-dc").arg(module))?;
            fs::write(&plain, content).map_err(|error| failure("write", &plain, &error))?;
        } else {
            copy(module, &plain)?;
        }
        init += &format!("insmod /modules/{name}\n");
    }
    init += "for i in $(seq 100); do [ -b /dev/vda ] && break; sleep 0.1; done\n\
             mount -t ext4 /dev/vda /new || poweroff -f\n\
             mount --move /dev /new/dev; umount /proc\n\
             exec switch_root /new /bin/bash /jobs\n";
    let path = root.join("init");
    fs::write(&path, init).map_err(|error| failure("write", &path, &error))?;
    executable(&path)?;
    let script = "cd \"$0\" && find . | busybox cpio -o -H newc > \"$1\"";
    run(Command::new("sh")
        .args(["-c", script])
        .args([&root, &archive]))?;
    Ok(archive)
}

fn output_bytes(command: &mut Command) -> Result<Vec<u8>, Failure> {
    run(command).map(|output| output.stdout)
}

/// Builds the root disk: the programs of some packages, `files` at their own paths, the libraries of both,
/// the kernel's modules, and the script that runs the jobs.
///
/// # Errors
/// If a file cannot be copied, or a program fails.
pub fn disk(directory: &Path, files: &[PathBuf], script: &str) -> Result<PathBuf, Failure> {
    let stage = directory.join("stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(|error| failure("remove", &stage, &error))?;
    }
    for part in [
        "proc", "sys", "dev", "run", "tmp", "mnt", "root", "etc", "var/tmp", "usr/lib",
    ] {
        let path = stage.join(part);
        fs::create_dir_all(&path).map_err(|error| failure("make", &path, &error))?;
    }
    for part in ["bin", "sbin", "lib", "lib64"] {
        let target = format!("usr/{part}");
        let link = stage.join(part);
        symlink(&target, &link).map_err(|error| failure("make", &link, &error))?;
    }
    let mut wanted = packaged()?;
    for file in files {
        wanted.extend(below(file)?);
    }
    wanted.extend(libraries(&wanted)?);
    for path in &wanted {
        place(path, &stage)?;
    }
    let release = directory.join("tree");
    let modules = modules(&release)?;
    let place = stage.join("usr/lib/modules");
    fs::create_dir_all(&place).map_err(|error| failure("make", &place, &error))?;
    run(Command::new("cp").arg("-al").args([&modules, &place]))?;
    #[rustfmt::skip]
    let cases = [
        ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
        ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"),
        ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
        ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
        ("jobs", script),
    ];
    for (name, text) in cases {
        let path = stage.join(name);
        fs::write(&path, text).map_err(|error| failure("write", &path, &error))?;
    }
    let image = directory.join("root.img");
    let size = output_of(
        Command::new("du")
            .args(["-sm", "--apparent-size"])
            .arg(&stage),
    )?;
    let megabytes: u64 = size.split_whitespace().next().unwrap_or_default().parse()?;
    let _ = fs::remove_file(&image);
    sparse(&image, (megabytes * 3 / 2 + 1024) << 20)?;
    run(Command::new("mkfs.ext4")
        .args(["-q", "-F", "-E", "root_owner=0:0", "-d"])
        .args([&stage, &image]))?;
    fs::remove_dir_all(&stage).map_err(|error| failure("remove", &stage, &error))?;
    Ok(image)
}

/// Returns the programs and libraries of the installed [`GUEST_PACKAGES`].
fn packaged() -> Result<BTreeSet<PathBuf>, Failure> {
    let mut files = BTreeSet::new();
    for package in GUEST_PACKAGES {
        let mut query = Command::new("dpkg-query");
        let Ok(listed) = output_of(query.args(["--listfiles", package])) else {
            eprintln!(
                "xtask: package {package} is not installed: its programs are absent in the virtual machine"
            );
            continue;
        };
        let in_use = [
            "/bin/",
            "/sbin/",
            "/lib/",
            "/usr/bin/",
            "/usr/sbin/",
            "/usr/lib/",
        ];
        let wanted = listed
            .lines()
            .filter(|line| in_use.iter().any(|part| line.starts_with(part)))
            .map(PathBuf::from)
            .filter(|path| !path.is_dir());
        files.extend(wanted);
    }
    // `sh` is a symbolic link that belongs to no package.
    files.insert(PathBuf::from("/usr/bin/sh"));
    Ok(files)
}

/// Returns a file, or every file below a directory.
fn below(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    let entries = fs::read_dir(path).map_err(|error| failure("read", path, &error))?;
    for entry in entries {
        files.extend(below(&entry?.path())?);
    }
    Ok(files)
}

/// Returns the shared libraries of the programs, and the loader.
fn libraries(programs: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut libraries = BTreeSet::new();
    let programs: Vec<&PathBuf> = programs.iter().filter(|path| is_program(path)).collect();
    for some in programs.chunks(64) {
        // ldd fails if one of the files is a script or static.
        let listed = Command::new("ldd").args(some).output();
        let listed = listed.map_err(|error| cannot_run(&Command::new("ldd"), &error))?;
        for word in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
            if word.starts_with('/') && !word.ends_with(':') && Path::new(word).exists() {
                libraries.insert(PathBuf::from(word));
            }
        }
    }
    Ok(libraries)
}

fn is_program(path: &Path) -> bool {
    let executable =
        |metadata: fs::Metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    fs::metadata(path).is_ok_and(executable)
}

/// Copies a file to its own path on the disk; a symbolic link with its target.
fn place(path: &Path, stage: &Path) -> Result<(), Failure> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    // /bin, /lib and so on are symbolic links on the disk too: the file goes to their targets.
    let parent = fs::canonicalize(parent).map_err(|error| failure("find", parent, &error))?;
    let name = path.file_name().ok_or("a file has a name")?;
    let within = stage.join(parent.strip_prefix("/")?);
    let to = within.join(name);
    if to.symlink_metadata().is_ok() {
        return Ok(());
    }
    fs::create_dir_all(&within).map_err(|error| failure("make", &within, &error))?;
    let metadata = path
        .symlink_metadata()
        .map_err(|error| failure("read", path, &error))?;
    if metadata.is_symlink() {
        let target = fs::read_link(path).map_err(|error| failure("read", path, &error))?;
        symlink(&target, &to).map_err(|error| failure("make", &to, &error))?;
        let target = parent.join(target);
        return if target.is_file() {
            place(&target, stage)
        } else {
            Ok(())
        };
    }
    copy(path, &to)
}

/// Copies a file with its permissions.
///
/// # Errors
/// Names both files.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let copied = fs::copy(from, to).map(drop);
    copied.map_err(|error| {
        format!(
            "cannot copy {} to {}: {error}",
            from.display(),
            to.display()
        )
        .into()
    })
}

/// Makes a file a program.
///
/// # Errors
/// Names the file.
pub fn executable(path: &Path) -> Result<(), Failure> {
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, permissions).map_err(|error| failure("change", path, &error))
}

/// Creates a file of this size without data.
fn sparse(path: &Path, size: u64) -> Result<(), Failure> {
    let made = File::create(path).and_then(|file| file.set_len(size));
    made.map_err(|error| failure("make", path, &error))
}

/// Boots the machine, and returns the output of the jobs. Prints progress lines at once.
///
/// # Errors
/// If qemu cannot be run. A machine that ends early, or is killed at the limit, returns less output: that is
/// not an error here.
pub fn boot(
    directory: &Path,
    boot: &Boot,
    disk: &Path,
    request: &Request,
) -> Result<String, Failure> {
    let limit = request.limit;
    let scratch = directory.join("scratch.img");
    let _ = fs::remove_file(&scratch);
    sparse(&scratch, SCRATCH)?;
    let (console, output) = (directory.join("console"), directory.join("output"));
    let _ = fs::remove_file(&output);
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(acceleration(boot, request.kvm));
    qemu.args([
        "-smp", "2", "-m", MEMORY, "-nic", "none", "-display", "none",
    ]);
    qemu.args(["-no-reboot", "-monitor", "none", "-kernel"])
        .arg(&boot.kernel);
    qemu.arg("-initrd").arg(&boot.initramfs);
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 mitigations=off"]);
    for (path, options) in [(disk, ",snapshot=on"), (scratch.as_path(), ",cache=unsafe")] {
        let path = path.display();
        qemu.arg("-drive");
        qemu.arg(format!("file={path},format=raw,if=virtio{options}"));
    }
    for path in [&console, &output] {
        qemu.arg("-serial").arg(format!("file:{}", path.display()));
    }
    // The overlay for `snapshot` is a large file.
    qemu.env("TMPDIR", directory).stdin(Stdio::null());
    let mut machine = qemu.spawn().map_err(|error| cannot_run(&qemu, &error))?;
    let text = follow(&mut machine, &output, Duration::from_secs(limit));
    let _ = fs::remove_file(&scratch);
    let text = text?;
    if !text.contains(super::jobs::END) {
        let console = fs::read(&console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(15)..].join("\n");
        println!(
            "The machine ended before its jobs, or ran for {limit} s. The last lines of its console:\n{last}"
        );
    }
    Ok(text)
}

/// Uses KVM if requested: on a virtual machine, /dev/kvm may exist and not work. Otherwise qemu emulates the
/// processor, with one thread for each emulated processor; from Linux 7 on with one thread for all, because
/// these kernels sometimes hang otherwise; and without CMPXCHG16B, which qemu 7.2 emulates wrongly between
/// threads.
fn acceleration(boot: &Boot, kvm: bool) -> [&'static str; 4] {
    if kvm {
        return ["-accel", "kvm", "-cpu", "host"];
    }
    let release = boot
        .modules
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let major = release
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    let threads = if major.is_some_and(|major: u32| major >= 7) {
        "tcg,thread=single"
    } else {
        "tcg,thread=multi"
    };
    ["-accel", threads, "-cpu", "max,cx16=off"]
}

/// Reads the output of the machine until it ends, or kills it at the limit.
///
/// # Errors
/// If the process cannot be waited for or killed.
pub fn follow(machine: &mut Child, output: &Path, limit: Duration) -> Result<String, Failure> {
    let deadline = Instant::now() + limit;
    let mut text = String::new();
    let mut shown = 0;
    loop {
        let ended = machine.try_wait()?.is_some();
        text.push_str(&from(output, text.len() as u64));
        let complete = text.rfind('\n').map_or(0, |end| end + 1);
        for line in text[shown..complete]
            .lines()
            .filter(|line| super::jobs::is_news(line))
        {
            println!("   {line}");
        }
        shown = complete;
        if ended {
            return Ok(text);
        }
        if Instant::now() >= deadline {
            machine.kill()?;
            machine.wait()?;
            return Ok(text);
        }
        std::thread::sleep(PERIOD);
    }
}

/// Reads a file from an offset on. Bytes that are not UTF-8 become one byte each, so that lengths remain
/// offsets.
fn from(path: &Path, offset: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let read = file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_to_end(&mut bytes));
        if read.is_err() {
            bytes.clear();
        }
    }
    let ascii = |byte: u8| {
        if byte.is_ascii() {
            char::from(byte)
        } else {
            '?'
        }
    };
    bytes.into_iter().map(ascii).collect()
}
