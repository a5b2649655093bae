//! Translates the arguments to the options of the copy.

use super::arguments::{OrderedOption, PlainOptions};
use super::values::{ATTRIBUTES, BACKUPS, UPDATES, WHEN, choose};
use super::{CliError, messages};
use laio_cp::{Backup, Existing, Filter, Follow, Make, Options, Preserve, Reflink, Sparse, Writes};
use std::io::IsTerminal;

pub(super) fn options(
    given: &PlainOptions,
    ordered: &[OrderedOption],
    program: &str,
) -> Result<Options, CliError> {
    let mut options = Options {
        recursive: given.recursive,
        one_file_system: given.one_file_system,
        attributes_only: given.attributes_only,
        force: given.force,
        remove_destination: given.remove_destination,
        keep_directory_symlink: given.keep_directory_symlink,
        through_dangling: std::env::var_os("POSIXLY_CORRECT").is_some(),
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
        queue: given.queue,
        direct: given.direct,
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
            return Err(CliError::Usage(text.to_owned()));
        }
        (true, false) => Make::HardLinks,
        (false, true) => Make::SymbolicLinks,
        (false, false) => Make::Copies,
    };
    let follow = apply(&mut options, ordered)?;
    options.follow = match follow {
        Some(follow) => follow,
        None if options.recursive && options.make != Make::HardLinks => Follow::Never,
        None => Follow::Always,
    };
    options.contents_of_special = !options.recursive || given.copy_contents;
    set_backup(&mut options, given)?;
    if options.reflink == Reflink::Always && options.sparse != Sparse::Auto {
        let text = "--reflink can be used only with --sparse=auto";
        return Err(CliError::Usage(text.to_owned()));
    }
    if given.default_context || given.context.is_some() {
        set_context(&options, given, program)?;
    }
    Ok(options)
}

/// Applies the options whose order matters. Returns their rule for symbolic links.
fn apply(options: &mut Options, ordered: &[OrderedOption]) -> Result<Option<Follow>, CliError> {
    let mut follow = None;
    let mut globs = Vec::new();
    for option in ordered {
        match option {
            OrderedOption::Archive => {
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
            OrderedOption::Links => {
                follow = Some(Follow::Never);
                options.preserve.links = true;
            }
            OrderedOption::Follow(which) => follow = Some(*which),
            OrderedOption::Preserve(list) => {
                preserve(&mut options.preserve, list, true)?;
                options.preserve.required = true;
            }
            OrderedOption::NoPreserve(list) => preserve(&mut options.preserve, list, false)?,
            OrderedOption::Ask => options.existing = Existing::Ask,
            OrderedOption::NoClobber => options.existing = Existing::Skip,
            OrderedOption::Update(when) => update(options, when)?,
            OrderedOption::Glob(includes, glob) => globs.push((*includes, glob.as_str())),
        }
    }
    options.filter = Filter::new(globs).map_err(CliError::Plain)?;
    Ok(follow)
}

fn preserve(preserve: &mut Preserve, list: &str, on: bool) -> Result<(), CliError> {
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
                    return Err(CliError::Plain(text.to_owned()));
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

fn update(options: &mut Options, when: &str) -> Result<(), CliError> {
    // -n takes precedence.
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

fn set_backup(options: &mut Options, given: &PlainOptions) -> Result<(), CliError> {
    if given.backup.is_none() && !given.backup_default && given.suffix.is_none() {
        return Ok(());
    }
    if matches!(options.existing, Existing::Skip | Existing::Fail) {
        let text = "--backup is mutually exclusive with -n or --update=none-fail";
        return Err(CliError::Usage(text.to_owned()));
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
        // A backup must be in the directory of its file.
        if !suffix.as_encoded_bytes().contains(&b'/') {
            options.suffix = suffix;
        }
    }
    Ok(())
}

fn set_context(options: &Options, given: &PlainOptions, program: &str) -> Result<(), CliError> {
    if options.preserve.context_required {
        let text = "cannot set target context and preserve it";
        return Err(CliError::Plain(text.to_owned()));
    }
    let wanted = given.context.as_deref().unwrap_or_default();
    let text = if has_contexts() {
        "ignoring -Z and --context: the kernel's rules for new files set the security context"
    } else if wanted.is_empty() {
        // As in GNU's cp: without a value the option is for portable scripts.
        return Ok(());
    } else {
        "warning: ignoring --context; it requires an SELinux-enabled kernel"
    };
    messages::warn(program, text);
    Ok(())
}

fn has_contexts() -> bool {
    std::path::Path::new("/sys/fs/selinux/enforce").exists()
}
