//! Declares the options of `laio cp`. The module `options` translates them.

use super::distributed::DistributedArgs;
use super::values::{advice, size};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use laio::BackendKind;
use laio::ops::Advice;
use laio_cp::{Follow, Method};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

// Options whose order does not matter. Not a doc comment: clap would show it as the summary of the
// command.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(super) struct PlainOptions {
    /// The sources, followed by the destination or the directory for the copies
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<OsString>,
    /// Copy directories with their contents
    #[arg(short = 'r', short_alias = 'R', long)]
    pub(super) recursive: bool,
    /// Copy the data of FIFOs and devices, also with -r
    #[arg(long)]
    pub(super) copy_contents: bool,
    /// Stay on the file system of each argument
    #[arg(short = 'x', long)]
    pub(super) one_file_system: bool,
    /// Copy attributes only, no data
    #[arg(long)]
    pub(super) attributes_only: bool,
    /// Create hard links instead of copies
    #[arg(short = 'l', long)]
    pub(super) link: bool,
    /// Create symbolic links instead of copies
    #[arg(short = 's', long)]
    pub(super) symbolic_link: bool,
    /// Remove a destination that cannot be opened, and try again
    #[arg(short = 'f', long)]
    pub(super) force: bool,
    /// Remove each existing destination first
    #[arg(long)]
    pub(super) remove_destination: bool,
    /// Follow symbolic links to directories in the destination
    #[arg(long)]
    pub(super) keep_directory_symlink: bool,
    /// Back up existing destinations: none, numbered, existing or simple [default: VERSION_CONTROL,
    /// else existing]
    #[arg(long, value_name = "CONTROL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(super) backup: Option<String>,
    /// Like --backup without a value
    #[arg(short = 'b')]
    pub(super) backup_default: bool,
    /// The suffix of simple backups [default: SIMPLE_BACKUP_SUFFIX, else ~]
    #[arg(short = 'S', long, value_name = "SUFFIX")]
    pub(super) suffix: Option<OsString>,
    /// Copy all sources into DIR
    #[arg(short = 't', long, value_name = "DIR", action = ArgAction::Append)]
    pub(super) target_directory: Vec<PathBuf>,
    /// Treat the destination as a file
    #[arg(short = 'T', long)]
    pub(super) no_target_directory: bool,
    /// Keep the full paths of sources below the destination
    #[arg(long)]
    pub(super) parents: bool,
    /// Remove trailing slashes of sources
    #[arg(long)]
    pub(super) strip_trailing_slashes: bool,
    /// Create holes: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) sparse: String,
    /// Share blocks with the source (reflink): auto, always or never
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
        default_missing_value = "always")]
    pub(super) reflink: String,
    /// Set the security context of copies to the default type
    #[arg(short = 'Z')]
    pub(super) default_context: bool,
    /// Like -Z, or set the context CTX
    #[arg(long, value_name = "CTX", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(super) context: Option<String>,
    /// Print each copied file
    #[arg(short = 'v', long)]
    pub(super) verbose: bool,
    /// Print how each file was copied
    #[arg(long)]
    pub(super) debug: bool,
    /// Print what would be copied, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Write each file under a temporary name, and rename it when it is complete
    #[arg(long)]
    pub(super) atomic: bool,
    /// Sync each file to the device before it gets its name
    #[arg(long)]
    pub(super) fsync: bool,
    /// Hash files while they are copied, read the copies back, and compare
    #[arg(long)]
    pub(super) verify: bool,
    /// Write the SHA-256 of each copy to FILE (- for standard output), for `sha256sum -c`
    #[arg(long, value_name = "FILE")]
    pub(super) manifest: Option<PathBuf>,
    /// Continue an interrupted copy; implies --atomic and --preserve=timestamps
    #[arg(long)]
    pub(super) resume: bool,
    /// Read the sources from FILE (- for standard input), each terminated by a zero byte; with two
    /// operands they are relative to the first
    #[arg(long, value_name = "FILE")]
    pub(super) files_from0: Option<PathBuf>,
    /// Maximum number of bytes per second; K, M or G multiply by 1024, 1024², 1024³
    #[arg(long, value_name = "RATE", value_parser = size)]
    pub(super) limit_rate: Option<u64>,
    /// Show progress: auto (if standard error is a terminal), always or never
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
        default_missing_value = "always", value_parser = ["auto", "always", "never"])]
    pub(super) progress: String,
    /// Print statistics at the end
    #[arg(long)]
    pub(super) stats: bool,
    /// Back end for calls that would block: sync, threads, hybrid, posix-aio, linux-aio, uring or
    /// lazy [default: LAIO_BACKEND, else lazy]
    #[arg(long, value_name = "NAME")]
    pub(super) backend: Option<BackendKind>,
    /// Make calls on the destination through the back end, too
    #[arg(long)]
    pub(super) backend_writes: bool,
    /// Copy method: auto, reflink, copy-file-range or read-write
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(super) method: Method,
    /// Number of worker threads [default: one more than processors]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,
    /// Number of files in flight per worker
    #[arg(long, value_name = "N")]
    pub(super) depth: Option<NonZeroUsize>,
    /// Number of bytes per read or write
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) buffer: Option<u64>,
    /// Reserve disk space before data is written
    #[arg(long)]
    pub(super) fallocate: bool,
    /// Announce the access pattern of sources to the kernel: sequential, willneed or noreuse before
    /// reading, or dontneed after it
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "sequential", value_parser = advice)]
    pub(super) fadvise: Option<Advice>,
    /// Number of pieces of a large file in flight [default: 8 with a --backend other than sync and
    /// lazy, else 1]
    #[arg(long, value_name = "N")]
    pub(super) queue: Option<NonZeroUsize>,
    /// Bypass the page cache (O_DIRECT), if the file systems support it
    #[arg(long)]
    pub(super) direct: bool,
    #[command(flatten)]
    pub(super) distributed: DistributedArgs,
}

/// Options whose order matters: a later one overrides an earlier one.
#[derive(Clone, Debug)]
pub(super) enum OrderedOption {
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

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(super) plain: PlainOptions,
    pub(super) ordered: Vec<OrderedOption>,
    /// The IDs of all options that were given.
    pub(super) explicit: Vec<String>,
}

const PRESERVE: &str = "mode,ownership,timestamps";

/// The options whose order matters: ID, long name, letter, value, help.
#[rustfmt::skip]
const ORDERED: [(&str, &str, Option<char>, &str, &str); 12] = [
    ("-a", "archive", Some('a'), "", "Like -dr --preserve=all"),
    ("-d", "", Some('d'), "", "Like -P --preserve=links"),
    ("-P", "no-dereference", Some('P'), "", "Follow no symbolic links in sources"),
    ("-L", "dereference", Some('L'), "", "Follow all symbolic links in sources"),
    ("-H", "", Some('H'), "", "Follow symbolic links that are given as sources"),
    ("-p", "", Some('p'), "", "Like --preserve=mode,ownership,timestamps"),
    (
        "preserve",
        "preserve",
        None,
        "LIST",
        "Preserve attributes: mode, ownership, timestamps, links, context, xattr or all",
    ),
    ("no-preserve", "no-preserve", None, "LIST", "Do not preserve these attributes"),
    ("-i", "interactive", Some('i'), "", "Ask before overwriting a file"),
    (
        "-n",
        "no-clobber",
        Some('n'),
        "",
        "Do not overwrite existing files",
    ),
    (
        "update",
        "update",
        None,
        "WHEN",
        "Overwrite existing files: all, none, none-fail or older",
    ),
    ("-u", "", Some('u'), "", "Like --update=older"),
];

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let mut command = PlainOptions::augment_args(command)
            .infer_long_args(true)
            // The heading of the options for shared copies ends here.
            .next_help_heading(None);
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
        #[rustfmt::skip]
        let cases = [
            ("include", "Copy files that match GLOB, even if a later --exclude matches them too"),
            ("exclude", "Do not copy files and directories that match GLOB"),
        ];
        for (name, help) in cases {
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
        let mut ordered = Vec::new();
        for (id, _, _, value, _) in ORDERED {
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            let indices = matches.indices_of(id).into_iter().flatten();
            if value.is_empty() {
                ordered.extend(
                    indices
                        .last()
                        .map(|index| (index, ordered_option(id, String::new()))),
                );
            } else {
                let values = matches.get_many::<String>(id).into_iter().flatten();
                ordered.extend(
                    indices
                        .zip(values)
                        .map(|(index, value)| (index, ordered_option(id, value.clone()))),
                );
            }
        }
        for (name, includes) in [("include", true), ("exclude", false)] {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let indices = matches.indices_of(name).into_iter().flatten();
            let globs = indices.zip(values);
            ordered.extend(
                globs.map(|(index, glob)| (index, OrderedOption::Glob(includes, glob.clone()))),
            );
        }
        ordered.sort_by_key(|(index, _)| *index);
        Ok(Arguments {
            explicit: explicit(matches),
            plain: PlainOptions::from_arg_matches(matches)?,
            ordered: ordered.into_iter().map(|(_, step)| step).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The IDs of all options that were given.
fn explicit(matches: &ArgMatches) -> Vec<String> {
    let plain =
        |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    // The group has the name of the struct.
    let named = |id: &&clap::Id| id.as_str() != "PlainOptions";
    let ids = matches.ids().filter(plain).filter(named);
    ids.map(|id| id.as_str().to_owned()).collect()
}

fn ordered_option(id: &str, value: String) -> OrderedOption {
    match id {
        "-a" => OrderedOption::Archive,
        "-d" => OrderedOption::Links,
        "-P" => OrderedOption::Follow(Follow::Never),
        "-L" => OrderedOption::Follow(Follow::Always),
        "-H" => OrderedOption::Follow(Follow::Arguments),
        "-p" => OrderedOption::Preserve(PRESERVE.to_owned()),
        "preserve" => OrderedOption::Preserve(value),
        "no-preserve" => OrderedOption::NoPreserve(value),
        "-i" => OrderedOption::Ask,
        "-n" => OrderedOption::NoClobber,
        "-u" => OrderedOption::Update("older".to_owned()),
        _ => OrderedOption::Update(value),
    }
}
