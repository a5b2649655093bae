//! `laio cp`, and `cp` where the command is called so: arguments and exit codes.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use laio::BackendKind;
use laio_cp::{
    Backup, Existing, Filter, Follow, Make, Method, Misuse, Operands, Options, Preserve, Reflink,
    Sparse, Stop, Summary, Writes,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options whose order among each other does not matter.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
struct Given {
    /// Sources, and last the destination or the directory for the copies
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    /// Copy directories with all that is in them
    #[arg(short = 'r', short_alias = 'R', long)]
    recursive: bool,
    /// Copy the contents of FIFOs and devices, with -r too
    #[arg(long)]
    copy_contents: bool,
    /// Stay on the file system of each argument
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Copy attributes only, no data
    #[arg(long)]
    attributes_only: bool,
    /// Make hard links instead of copies
    #[arg(short = 'l', long)]
    link: bool,
    /// Make symbolic links instead of copies
    #[arg(short = 's', long)]
    symbolic_link: bool,
    /// Remove a destination that cannot be opened, and try again
    #[arg(short = 'f', long)]
    force: bool,
    /// Remove each destination before it is made
    #[arg(long)]
    remove_destination: bool,
    /// Follow symbolic links to directories in the destination
    #[arg(long)]
    keep_directory_symlink: bool,
    /// Keep what is overwritten: none, numbered, existing or simple [default: VERSION_CONTROL, else
    /// existing]
    #[arg(long, value_name = "CONTROL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    backup: Option<String>,
    /// As --backup, without a value
    #[arg(short = 'b')]
    backup_default: bool,
    /// What simple backups end with [default: SIMPLE_BACKUP_SUFFIX, else ~]
    #[arg(short = 'S', long, value_name = "SUFFIX")]
    suffix: Option<OsString>,
    /// Copy all sources into DIR
    #[arg(short = 't', long, value_name = "DIR")]
    target_directory: Option<PathBuf>,
    /// Treat the destination as a file
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// Keep the whole names of sources below the destination
    #[arg(long)]
    parents: bool,
    /// Leave out slashes at the end of sources
    #[arg(long)]
    strip_trailing_slashes: bool,
    /// Holes: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    sparse: String,
    /// Share blocks: auto, always or never
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
        default_missing_value = "always")]
    reflink: String,
    /// Set the security context of copies to the default type
    #[arg(short = 'Z')]
    default_context: bool,
    /// As -Z, or to CTX
    #[arg(long, value_name = "CTX", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    context: Option<String>,
    /// Tell each file
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Tell how each file was copied
    #[arg(long)]
    debug: bool,
    /// Tell what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Give files their names when they are complete
    #[arg(long)]
    atomic: bool,
    /// Bring each file to the device before it gets its name
    #[arg(long)]
    fsync: bool,
    /// Hash files while they are copied, read the copies back, and compare
    #[arg(long)]
    verify: bool,
    /// List the SHA-256 of each copy in FILE (- for standard output), for `sha256sum -c`
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Go on with a copy that was interrupted; implies --atomic and --preserve=timestamps
    #[arg(long)]
    resume: bool,
    /// Take the sources from FILE (- for standard input), each ended by a zero byte; with two operands
    /// they are below the first
    #[arg(long, value_name = "FILE")]
    files_from0: Option<PathBuf>,
    /// Bytes per second, at most; with K, M or G for 1024, 1024², 1024³
    #[arg(long, value_name = "RATE", value_parser = size)]
    limit_rate: Option<u64>,
    /// Show progress, though standard error is no terminal; or do not (--progress=never)
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
        default_missing_value = "always", value_parser = ["auto", "always", "never"])]
    progress: String,
    /// Tell at the end what was done
    #[arg(long)]
    stats: bool,
    /// How calls that would block go to the background: sync, threads, hybrid, uring or lazy [default:
    /// LAIO_BACKEND, else lazy]
    #[arg(long, value_name = "NAME")]
    backend: Option<BackendKind>,
    /// Make calls on the destination through the back end too
    #[arg(long)]
    backend_writes: bool,
    /// How data is moved: auto, reflink, copy-file-range or read-write
    #[arg(long, value_name = "NAME", default_value = "auto")]
    method: Method,
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Files in flight on each worker
    #[arg(long, value_name = "N")]
    depth: Option<NonZeroUsize>,
    /// Bytes to read and write at a time
    #[arg(long, value_name = "SIZE", value_parser = size)]
    buffer: Option<u64>,
    /// Reserve room before data is written
    #[arg(long)]
    fallocate: bool,
    /// Tell the kernel that sources are read in order
    #[arg(long)]
    fadvise: bool,
}

/// Options of which a later one changes what an earlier one meant.
#[derive(Clone, Debug)]
enum Step {
    Archive,
    Links,
    Follow(Follow),
    Preserve(String),
    NoPreserve(String),
    Ask,
    NoClobber,
    Update(String),
    Glob(bool, String),
}

/// The arguments.
#[derive(Debug)]
pub(crate) struct Arguments {
    given: Given,
    steps: Vec<Step>,
}

const PRESERVE: &str = "mode,ownership,timestamps";

/// The options of which order matters: id, name, letter, value, help.
const ORDERED: [(&str, &str, Option<char>, &str, &str); 12] = [
    ("-a", "archive", Some('a'), "", "As -dr --preserve=all"),
    ("-d", "", Some('d'), "", "As -P --preserve=links"),
    (
        "-P",
        "no-dereference",
        Some('P'),
        "",
        "Follow no symbolic links in sources",
    ),
    (
        "-L",
        "dereference",
        Some('L'),
        "",
        "Follow all symbolic links in sources",
    ),
    (
        "-H",
        "",
        Some('H'),
        "",
        "Follow symbolic links that are sources themselves",
    ),
    (
        "-p",
        "",
        Some('p'),
        "",
        "As --preserve=mode,ownership,timestamps",
    ),
    (
        "preserve",
        "preserve",
        None,
        "LIST",
        "Keep attributes: mode, ownership, timestamps, links, context, xattr or all",
    ),
    (
        "no-preserve",
        "no-preserve",
        None,
        "LIST",
        "Do not keep attributes",
    ),
    (
        "-i",
        "interactive",
        Some('i'),
        "",
        "Ask before something is overwritten",
    ),
    ("-n", "no-clobber", Some('n'), "", "Overwrite nothing"),
    (
        "update",
        "update",
        None,
        "WHEN",
        "Overwrite: all, none, none-fail or older",
    ),
    ("-u", "", Some('u'), "", "As --update=older"),
];

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let mut command = Given::augment_args(command).infer_long_args(true);
        for (id, name, letter, value, help) in ORDERED {
            let mut arg = Arg::new(id).help(help);
            if !name.is_empty() {
                arg = arg.long(name);
            }
            if let Some(letter) = letter {
                arg = arg.short(letter);
            }
            arg = match value {
                "" => arg.action(ArgAction::SetTrue),
                "LIST" if name == "no-preserve" => arg.action(ArgAction::Append),
                _ => arg
                    .action(ArgAction::Append)
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value(if name == "update" { "older" } else { PRESERVE }),
            };
            if !value.is_empty() {
                arg = arg.value_name(value);
            }
            command = command.arg(arg);
        }
        for (name, help) in [
            (
                "include",
                "Copy files that match GLOB, even if a later --exclude matches them too",
            ),
            ("exclude", "Leave out files and directories that match GLOB"),
        ] {
            let arg = Arg::new(name).long(name).value_name("GLOB").help(help);
            command = command.arg(arg.action(ArgAction::Append));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut steps = Vec::new();
        for (id, _, _, value, _) in ORDERED {
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            let indices = matches.indices_of(id).into_iter().flatten();
            if value.is_empty() {
                steps.extend(indices.last().map(|index| (index, step(id, String::new()))));
            } else {
                let values = matches.get_many::<String>(id).into_iter().flatten();
                steps.extend(
                    indices
                        .zip(values)
                        .map(|(index, value)| (index, step(id, value.clone()))),
                );
            }
        }
        for (name, includes) in [("include", true), ("exclude", false)] {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let indices = matches.indices_of(name).into_iter().flatten();
            let globs = indices.zip(values);
            steps.extend(globs.map(|(index, glob)| (index, Step::Glob(includes, glob.clone()))));
        }
        steps.sort_by_key(|(index, _)| *index);
        Ok(Arguments {
            given: Given::from_arg_matches(matches)?,
            steps: steps.into_iter().map(|(_, step)| step).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn step(id: &str, value: String) -> Step {
    match id {
        "-a" => Step::Archive,
        "-d" => Step::Links,
        "-P" => Step::Follow(Follow::Never),
        "-L" => Step::Follow(Follow::Always),
        "-H" => Step::Follow(Follow::Arguments),
        "-p" => Step::Preserve(PRESERVE.to_owned()),
        "preserve" => Step::Preserve(value),
        "no-preserve" => Step::NoPreserve(value),
        "-i" => Step::Ask,
        "-n" => Step::NoClobber,
        "-u" => Step::Update("older".to_owned()),
        _ => Step::Update(value),
    }
}

/// What options can be set to, as words that can be abbreviated; words on one line mean the same.
type Words = &'static [&'static [&'static str]];

const WHEN: Words = &[&["auto"], &["always"], &["never"]];
const UPDATES: Words = &[&["all"], &["none"], &["none-fail"], &["older"]];
const BACKUPS: Words = &[
    &["none", "off"],
    &["simple", "never"],
    &["existing", "nil"],
    &["numbered", "t"],
];
const ATTRIBUTES: Words = &[
    &["mode"],
    &["timestamps"],
    &["ownership"],
    &["links"],
    &["context"],
    &["xattr"],
    &["all"],
];

/// The first of the words that mean what was given.
fn choose(given: &str, option: &str, words: Words) -> Result<&'static str, Wrong> {
    let exact = words.iter().find(|line| line.contains(&given));
    let starts = |line: &&&[&str]| line.iter().any(|word| word.starts_with(given));
    let mut abbreviated = words.iter().filter(starts);
    let found = match (exact, abbreviated.next(), abbreviated.next()) {
        (Some(line), ..) | (None, Some(line), None) => Ok(line[0]),
        (None, None, _) => Err("invalid"),
        (None, Some(_), Some(_)) => Err("ambiguous"),
    };
    found.map_err(|how| {
        let mut text = format!("{how} argument '{given}' for '{option}'\nValid arguments are:");
        for line in words {
            let line: Vec<_> = line.iter().map(|word| format!("'{word}'")).collect();
            text.push_str(&format!("\n  - {}", line.join(", ")));
        }
        Wrong::Usage(text)
    })
}

fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok().filter(|number| *number > 0);
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "a positive number, with K, M or G behind it or not".to_owned())
}

/// Why nothing was copied.
enum Wrong {
    /// The usage tells more.
    Usage(String),
    Plain(String),
}

/// Copies; the exit code is that of GNU's `cp`.
pub(crate) fn run(arguments: Arguments, program: &str) -> ExitCode {
    let say = |text: &str| {
        // Nothing can be done if standard error is gone.
        let _ = writeln!(std::io::stderr(), "{program}: {text}");
    };
    let stats = arguments.given.stats;
    match copy(arguments, program) {
        Ok(summary) => {
            if stats {
                print_stats(&summary);
            }
            if summary.unverified > 0 {
                let count = summary.unverified;
                say(&format!(
                    "{count} copies, or their attributes, are not what was read of their sources"
                ));
            }
            match summary.interrupted {
                Some(signal) => {
                    say("interrupted; what was copied until then stays");
                    // As a shell reports it of a process that the signal has ended.
                    ExitCode::from(128_u8.wrapping_add(signal as u8))
                }
                None if summary.failures > 0 => ExitCode::FAILURE,
                None => ExitCode::SUCCESS,
            }
        }
        Err(Wrong::Usage(text)) => {
            say(&text);
            let help = format!("Try '{program} --help' for more information.");
            let _ = writeln!(std::io::stderr(), "{help}");
            ExitCode::FAILURE
        }
        Err(Wrong::Plain(text)) => {
            say(&text);
            ExitCode::FAILURE
        }
    }
}

fn copy(arguments: Arguments, program: &str) -> Result<Summary, Wrong> {
    let Arguments { given, steps } = arguments;
    let options = options(&given, &steps, program)?;
    let operands = operands(given)?;
    let stop = Stop::new();
    listen(stop.clone())
        .map_err(|error| Wrong::Plain(format!("cannot listen for signals: {error}")))?;
    laio_cp::copy(options, operands, stop).map_err(|misuse| match misuse {
        Misuse::Usage(text) => Wrong::Usage(text),
        Misuse::Target(failure) => Wrong::Plain(failure.to_string()),
    })
}

/// How long a copy that was asked to stop may take to do so.
const GRACE: Duration = Duration::from_secs(3);

/// The first signal stops the copy; a second one ends the process at once.
fn listen(stop: Stop) -> std::io::Result<()> {
    let impatient = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, impatient.clone())?;
        signal_hook::flag::register(signal, impatient.clone())?;
    }
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new()
        .name("laio-signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop.stop(signal);
                std::thread::sleep(GRACE);
                // A call waits that nobody can end, such as opening a FIFO that has no writer.
                std::process::exit(128 + signal);
            }
        })?;
    Ok(())
}

fn operands(given: Given) -> Result<Operands, Wrong> {
    let listed = match &given.files_from0 {
        Some(file) => Some(read_list(file)?),
        None => None,
    };
    Ok(Operands {
        files: given.files.into_iter().map(PathBuf::from).collect(),
        listed,
        directory: given.target_directory,
        no_directory: given.no_target_directory,
        parents: given.parents,
        strip_slashes: given.strip_trailing_slashes,
    })
}

fn read_list(file: &PathBuf) -> Result<Vec<PathBuf>, Wrong> {
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map_err(|error| {
        Wrong::Plain(format!(
            "cannot read the list '{}': {error}",
            file.display()
        ))
    })?;
    let names = bytes
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .map(|name| OsString::from_vec(name.to_vec()).into())
        .collect())
}

fn options(given: &Given, steps: &[Step], program: &str) -> Result<Options, Wrong> {
    let mut options = Options {
        recursive: given.recursive,
        one_file_system: given.one_file_system,
        attributes_only: given.attributes_only,
        force: given.force,
        remove_destination: given.remove_destination,
        keep_directory_symlink: given.keep_directory_symlink,
        sparse: match choose(&given.sparse, "--sparse", WHEN)? {
            "always" => Sparse::Always,
            "never" => Sparse::Never,
            _ => Sparse::Auto,
        },
        reflink: match choose(&given.reflink, "--reflink", WHEN)? {
            "always" => Reflink::Always,
            "never" => Reflink::Never,
            _ => Reflink::Auto,
        },
        verbose: given.verbose || given.debug,
        debug: given.debug,
        dry_run: given.dry_run,
        atomic: given.atomic,
        fsync: given.fsync,
        verify: given.verify,
        manifest: given.manifest.clone(),
        resume: given.resume,
        rate: given.limit_rate,
        backend: given.backend,
        writes: if given.backend_writes {
            Writes::Backend
        } else {
            Writes::Plain
        },
        method: given.method,
        jobs: given.jobs,
        depth: given.depth,
        preallocate: given.fallocate,
        advise: given.fadvise,
        program: program.to_owned(),
        ..Options::default()
    };
    options.buffer = given.buffer.map_or(Options::BUFFER, |size| {
        usize::try_from(size).map_or(Options::BUFFER_MAX, |size| size.min(Options::BUFFER_MAX))
    });
    options.progress = match given.progress.as_str() {
        "always" => true,
        "never" => false,
        _ => {
            std::io::stderr().is_terminal()
                && !options.verbose
                && !options.dry_run
                && program != "cp"
        }
    };
    options.make = match (given.link, given.symbolic_link) {
        (true, true) => {
            let text = "cannot make both hard and symbolic links";
            return Err(Wrong::Usage(text.to_owned()));
        }
        (true, false) => Make::HardLinks,
        (false, true) => Make::SymbolicLinks,
        (false, false) => Make::Copies,
    };
    let follow = apply(&mut options, steps)?;
    options.follow = match follow {
        Some(follow) => follow,
        None if options.recursive && options.make != Make::HardLinks => Follow::Never,
        None => Follow::Always,
    };
    options.contents_of_special = !options.recursive || given.copy_contents;
    set_backup(&mut options, given)?;
    if options.reflink == Reflink::Always && options.sparse != Sparse::Auto {
        let text = "--reflink can be used only with --sparse=auto";
        return Err(Wrong::Usage(text.to_owned()));
    }
    if given.default_context || given.context.is_some() {
        set_context(&options, given, program)?;
    }
    Ok(options)
}

/// Applies the options of which order matters. Returns what they say of symbolic links.
fn apply(options: &mut Options, steps: &[Step]) -> Result<Option<Follow>, Wrong> {
    let mut follow = None;
    let mut globs = Vec::new();
    for step in steps {
        match step {
            Step::Archive => {
                follow = Some(Follow::Never);
                options.recursive = true;
                options.preserve = Preserve {
                    mode: true,
                    ownership: true,
                    timestamps: true,
                    links: true,
                    attributes: true,
                    context: has_contexts(),
                    required: true,
                    attributes_quiet: true,
                    ..options.preserve
                };
            }
            Step::Links => {
                follow = Some(Follow::Never);
                options.preserve.links = true;
            }
            Step::Follow(which) => follow = Some(*which),
            Step::Preserve(list) => {
                preserve(&mut options.preserve, list, true)?;
                options.preserve.required = true;
            }
            Step::NoPreserve(list) => preserve(&mut options.preserve, list, false)?,
            Step::Ask => options.existing = Existing::Ask,
            Step::NoClobber => options.existing = Existing::Skip,
            Step::Update(when) => update(options, when)?,
            Step::Glob(includes, glob) => globs.push((*includes, glob.as_str())),
        }
    }
    options.filter = Filter::new(globs).map_err(Wrong::Plain)?;
    Ok(follow)
}

fn preserve(preserve: &mut Preserve, list: &str, on: bool) -> Result<(), Wrong> {
    let option = if on { "--preserve" } else { "--no-preserve" };
    for name in list.split(',') {
        match choose(name, option, ATTRIBUTES)? {
            "mode" => {
                preserve.mode = on;
                preserve.default_mode = !on;
            }
            "ownership" => preserve.ownership = on,
            "timestamps" => preserve.timestamps = on,
            "links" => preserve.links = on,
            "xattr" => {
                preserve.attributes = on;
                preserve.attributes_required = on;
            }
            "context" => {
                if on && !has_contexts() {
                    let text = "cannot preserve security context without an SELinux-enabled kernel";
                    return Err(Wrong::Plain(text.to_owned()));
                }
                preserve.context = on;
                preserve.context_required = on;
            }
            _ => {
                preserve.mode = on;
                preserve.default_mode = !on;
                preserve.ownership = on;
                preserve.timestamps = on;
                preserve.links = on;
                preserve.attributes = on;
                preserve.context = on && has_contexts();
            }
        }
    }
    Ok(())
}

fn update(options: &mut Options, when: &str) -> Result<(), Wrong> {
    // -n stays in force; it says more.
    let clobbers = options.existing != Existing::Skip;
    match choose(when, "--update", UPDATES)? {
        "older" => options.update = true,
        "all" => {
            options.update = false;
            if clobbers {
                options.existing = Existing::Replace;
            }
        }
        "none" => options.existing = Existing::Skip,
        _ => options.existing = Existing::Fail,
    }
    Ok(())
}

fn set_backup(options: &mut Options, given: &Given) -> Result<(), Wrong> {
    if given.backup.is_none() && !given.backup_default && given.suffix.is_none() {
        return Ok(());
    }
    if matches!(options.existing, Existing::Skip | Existing::Fail) {
        let text = "--backup is mutually exclusive with -n or --update=none-fail";
        return Err(Wrong::Usage(text.to_owned()));
    }
    let given_control = given
        .backup
        .as_deref()
        .filter(|control| !control.is_empty());
    let environment = std::env::var("VERSION_CONTROL").ok();
    let environment = environment.as_deref().filter(|control| !control.is_empty());
    let control = match (given_control, environment) {
        (Some(control), _) => choose(control, "backup type", BACKUPS)?,
        (None, Some(control)) => choose(control, "$VERSION_CONTROL", BACKUPS)?,
        (None, None) => "existing",
    };
    options.backup = match control {
        "none" => Backup::None,
        "simple" => Backup::Simple,
        "numbered" => Backup::Numbered,
        _ => Backup::Existing,
    };
    let suffix = given
        .suffix
        .clone()
        .or_else(|| std::env::var_os("SIMPLE_BACKUP_SUFFIX"));
    if let Some(suffix) = suffix.filter(|suffix| !suffix.is_empty()) {
        // A backup must be beside what it is of.
        if !suffix.as_encoded_bytes().contains(&b'/') {
            options.suffix = suffix;
        }
    }
    Ok(())
}

fn set_context(options: &Options, given: &Given, program: &str) -> Result<(), Wrong> {
    if options.preserve.context_required {
        let text = "cannot set target context and preserve it";
        return Err(Wrong::Plain(text.to_owned()));
    }
    let wanted = given.context.as_deref().unwrap_or_default();
    let text = if has_contexts() {
        "setting security contexts is left to the kernel's rules for new files"
    } else if wanted.is_empty() {
        // As GNU's: without a value it is for scripts that run everywhere.
        return Ok(());
    } else {
        "warning: ignoring --context; it requires an SELinux-enabled kernel"
    };
    let _ = writeln!(std::io::stderr(), "{program}: {text}");
    Ok(())
}

fn has_contexts() -> bool {
    std::path::Path::new("/sys/fs/selinux/enforce").exists()
}

fn print_stats(summary: &Summary) {
    let text = format!(
        "files         {}\n  by memory     {}\n  in the kernel {}\n  shared        {}\ndirectories   {}\nothers        {}\n\
         links         {}\nskipped       {}\n  whole       {}\ncontinued     {}\nverified      {}\nunverified    {}\nbytes         {}\nfailures      {}\nbackground    {}\ntaken over    {}",
        summary.files,
        summary.by_memory,
        summary.by_range,
        summary.by_reflink,
        summary.directories,
        summary.others,
        summary.linked,
        summary.skipped,
        summary.whole,
        summary.continued,
        summary.verified,
        summary.unverified,
        summary.bytes,
        summary.failures,
        summary.background,
        summary.stolen,
    );
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Whether the command was called as `cp`.
pub(crate) fn is_called() -> bool {
    let name = std::env::args_os().next().map(PathBuf::from);
    name.as_deref()
        .and_then(|name| name.file_name())
        .is_some_and(|name| name == "cp")
}

/// `cp`, by its own name.
pub(crate) fn main() -> ExitCode {
    let command = Command::new("cp")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Copy files and directories");
    let command = Arguments::augment_args(command);
    match command
        .try_get_matches()
        .and_then(|matches| Arguments::from_arg_matches(&matches))
    {
        Ok(arguments) => run(arguments, "cp"),
        Err(error) => {
            let helps = error.exit_code() == 0;
            if let Some(text) = in_gnu_words(&error) {
                let help = "Try 'cp --help' for more information.";
                let _ = writeln!(std::io::stderr(), "cp: {text}\n{help}");
                return ExitCode::FAILURE;
            }
            // Nothing can be done if the stream is gone.
            let _ = error.print();
            if helps {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// What scripts and people know.
fn in_gnu_words(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg)?;
    // `-t <DIR>` or `--sparse <WHEN>`.
    let option = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let letter = option
        .strip_prefix('-')
        .filter(|letter| letter.chars().count() == 1);
    match (error.kind(), letter) {
        (ErrorKind::UnknownArgument, Some(letter)) => Some(format!("invalid option -- '{letter}'")),
        (ErrorKind::UnknownArgument, None) => Some(format!("unrecognized option '{argument}'")),
        (ErrorKind::TooManyValues, _) => {
            Some(format!("option '{option}' doesn't allow an argument"))
        }
        (ErrorKind::InvalidValue, _)
            if context(ContextKind::InvalidValue).is_none_or(|value| value.is_empty()) =>
        {
            Some(match letter {
                Some(letter) => format!("option requires an argument -- '{letter}'"),
                None => format!("option '{option}' requires an argument"),
            })
        }
        _ => None,
    }
}
