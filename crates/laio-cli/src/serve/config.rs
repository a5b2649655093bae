//! The configuration file of `laio serve`. Each flag is a key of the file; a flag on the command
//! line overrides its key.

mod text;

use super::Arguments;
use crate::{Failure, numbers};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use laio_serve::{Host, Options, Site};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The errors of a configuration file, one line for each.
#[derive(Debug)]
pub struct Mistakes(Vec<String>);

impl Mistakes {
    /// Returns the one error of a command line.
    pub(super) fn from_error(error: &dyn fmt::Display) -> Mistakes {
        Mistakes(vec![error.to_string()])
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Mistakes {}

/// The settings of the command line and the file.
pub(super) struct Settings {
    pub(super) arguments: Arguments,
    /// The hosts of the file.
    hosts: Vec<Host>,
    /// The parsed flags and keys.
    given_flags: GivenFlags,
}

/// The parsed flags and keys.
struct GivenFlags {
    main: ArgMatches,
    hosts: Vec<(String, ArgMatches)>,
}

impl Settings {
    /// Returns the options of the server.
    ///
    /// # Errors
    /// When settings cannot be combined.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        self.arguments.options(&self.hosts)
    }
}

/// Flags that are not keys, because they name the file or do something other than serve.
const NO_KEYS: [&str; 10] = [
    "config",
    "check",
    "explain",
    "explain-client",
    "explain-header",
    "explain-json",
    "explain-method",
    "help",
    "list-presets",
    "print-config",
];

/// Parses the flags after `laio serve`, and the configuration file that they name.
///
/// # Errors
/// All errors, with file and line.
pub(super) fn load(flags: &[OsString]) -> Result<Settings, Mistakes> {
    let reader = ConfigurationReader::new();
    let given = reader.main.parse(flags.to_vec());
    let parsed = given.and_then(|main| {
        let arguments = Arguments::from_arg_matches(&main).map_err(|error| explain(&error))?;
        Ok((main, arguments))
    });
    let (main, arguments) = parsed.map_err(|what| Mistakes(vec![what]))?;
    let Some(file) = arguments.operation.config.clone() else {
        let given_flags = GivenFlags {
            main,
            hosts: Vec::new(),
        };
        return Ok(Settings {
            arguments,
            hosts: Vec::new(),
            given_flags,
        });
    };
    let name = file.display();
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Mistakes(vec![format!("cannot read {name}: {error}")]))?;
    reader
        .read(&text, flags)
        .map_err(|mistakes| with_positions(mistakes, &name, &text))
}

/// Reads configuration files. It keeps the declarations of the flags, which take longer to make than a file takes to
/// read.
#[derive(Debug)]
pub struct ConfigurationReader {
    /// The keys outside the hosts.
    main: Keys,
    /// The keys of a host.
    site: Keys,
}

impl Default for ConfigurationReader {
    fn default() -> ConfigurationReader {
        ConfigurationReader::new()
    }
}

impl ConfigurationReader {
    /// Makes the declarations of all flags.
    #[must_use]
    pub fn new() -> ConfigurationReader {
        let main = Keys::of::<Arguments>("laio serve");
        let mut site = Keys::of::<Site>("laio serve");
        let names = main.command.get_arguments().filter_map(Arg::get_long);
        site.outside_hosts = names.map(str::to_owned).collect();
        ConfigurationReader { main, site }
    }

    /// Returns the text of a configuration file with all defaults added.
    ///
    /// # Errors
    /// All errors, with their lines.
    pub fn text(&self, text: &str) -> Result<String, Mistakes> {
        self.settings(text)?.text(self)
    }

    fn settings(&self, text: &str) -> Result<Settings, Mistakes> {
        self.read(text, &[])
            .map_err(|mistakes| with_positions(mistakes, &"configuration", text))
    }

    fn read(&self, text: &str, flags: &[OsString]) -> Result<Settings, Vec<Mistake>> {
        let root = DeTable::parse(text).map_err(|error| {
            let place = error.span().map(|span| span.start);
            vec![(place, error.message().to_owned())]
        })?;
        let ConfigurationReader { main, site } = self;
        let (mut entries, mut hosts, mut mistakes) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in in_order(root.get_ref()) {
            if key.get_ref() == "host"
                && let DeValue::Table(table) = value.get_ref()
            {
                for (name, value) in in_order(table) {
                    match value.get_ref() {
                        DeValue::Table(table) => {
                            hosts.push((name, site.entries(table, &mut mistakes)));
                        }
                        _ => main.add("host", &[(name, value)], &mut entries, &mut mistakes),
                    }
                }
            } else {
                main.add_key(key, value, &mut entries, &mut mistakes);
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let given = main
            .parse(flags.to_vec())
            .map_err(|what| vec![(None, what)])?;
        let mut words: Vec<OsString> = Vec::new();
        for entry in entries {
            if given.value_source(&entry.id) != Some(ValueSource::CommandLine) {
                words.extend(entry.words);
            }
        }
        words.extend_from_slice(flags);
        let matches = main.parse(words).map_err(|what| vec![(None, what)])?;
        let inherited = site.given(&matches);
        let hosts = hosts.into_iter().map(|(name, entries)| {
            let other = |entry: &&Entry| !entries.iter().any(|own| own.id == entry.id);
            let kept = inherited.iter().filter(other);
            let words = kept.chain(&entries).flat_map(|entry| entry.words.clone());
            let place = Some(name.span().start);
            let matches = site.parse(words.collect()).map_err(|what| (place, what))?;
            let parsed = Site::from_arg_matches(&matches);
            let parsed = parsed.map_err(|error| (place, explain(&error)))?;
            let names = name
                .get_ref()
                .split([',', ' '])
                .filter(|name| !name.is_empty());
            let host = Host {
                names: names.map(str::to_owned).collect(),
                site: parsed,
            };
            Ok((host, (name.get_ref().to_string(), matches)))
        });
        let hosts = hosts
            .collect::<Result<Vec<_>, Mistake>>()
            .map_err(|it| vec![it])?;
        let arguments =
            Arguments::from_arg_matches(&matches).map_err(|error| vec![(None, explain(&error))])?;
        let (hosts, given_flags) = hosts.into_iter().unzip();
        let given_flags = GivenFlags {
            main: matches,
            hosts: given_flags,
        };
        Ok(Settings {
            arguments,
            hosts,
            given_flags,
        })
    }
}

fn with_positions(mut mistakes: Vec<Mistake>, name: &dyn fmt::Display, text: &str) -> Mistakes {
    mistakes.sort_by_key(|(place, _)| *place);
    let lines = mistakes.into_iter().map(|(place, what)| match place {
        Some(place) => format!("{name}:{}: {what}", line(text, place)),
        None => format!("{name}: {what}"),
    });
    Mistakes(lines.collect())
}

/// An error, and its byte offset if that is known.
type Mistake = (Option<usize>, String);

fn line(text: &str, place: usize) -> usize {
    1 + text.as_bytes()[..place]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

/// The flags for one key of the file.
struct Entry {
    id: String,
    words: Vec<OsString>,
}

type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

/// The flags of a command, as keys.
#[derive(Debug)]
struct Keys {
    command: Command,
    /// The same, for parsing, to which clap needs exclusive access.
    parser: RefCell<Command>,
    /// For the keys of a host: the keys of the whole file.
    outside_hosts: HashSet<String>,
}

impl Keys {
    fn of<A: Args>(name: &'static str) -> Keys {
        let mut command = A::augment_args(Command::new(name)).no_binary_name(true);
        command.build();
        Keys {
            parser: RefCell::new(command.clone()),
            command,
            outside_hosts: HashSet::new(),
        }
    }

    fn find(&self, key: &str) -> Option<&Arg> {
        let is = |arg: &&Arg| match arg.get_long() {
            Some(long) => long == key && !NO_KEYS.contains(&key),
            None => arg.is_positional() && arg.get_id() == key,
        };
        self.command.get_arguments().find(is)
    }

    fn entries(&self, table: &DeTable<'_>, mistakes: &mut Vec<Mistake>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (key, value) in in_order(table) {
            if key.get_ref() == "host" {
                let text = "a host has no hosts of its own".to_owned();
                mistakes.push((Some(key.span().start), text));
            } else {
                self.add_key(key, value, &mut entries, mistakes);
            }
        }
        entries
    }

    fn add_key(
        &self,
        key: &Key<'_>,
        value: &Value<'_>,
        entries: &mut Vec<Entry>,
        mistakes: &mut Vec<Mistake>,
    ) {
        let name = key.get_ref();
        match value.get_ref() {
            // A table is another way to write values that contain a =.
            DeValue::Table(table) if self.find(name).is_some() => {
                self.add(name, &in_order(table), entries, mistakes);
            }
            DeValue::Array(array) if self.find(name).is_some_and(takes_several) => {
                let mut all = Entry::new(self, name);
                for value in array.iter() {
                    match self.words(name, None, value) {
                        Ok(words) => all.words.extend(words),
                        Err(what) => mistakes.push((Some(value.span().start), what)),
                    }
                }
                entries.push(all);
            }
            _ => match self.words(name, None, value) {
                Ok(words) => entries.push(Entry {
                    words,
                    ..Entry::new(self, name)
                }),
                Err(what) => {
                    let Range { start, .. } = match self.find(name) {
                        Some(_) => value.span(),
                        None => key.span(),
                    };
                    mistakes.push((Some(start), what));
                }
            },
        }
    }

    /// Adds the pairs of a table as values with a =.
    fn add(
        &self,
        name: &str,
        pairs: &[(&Key<'_>, &Value<'_>)],
        entries: &mut Vec<Entry>,
        mistakes: &mut Vec<Mistake>,
    ) {
        let mut all = Entry::new(self, name);
        for (key, value) in pairs {
            let several = match value.get_ref() {
                DeValue::Array(array) if self.find(name).is_some_and(takes_several) => array.iter(),
                _ => std::slice::from_ref(*value).iter(),
            };
            for value in several {
                match self.words(name, Some(key.get_ref()), value) {
                    Ok(words) => all.words.extend(words),
                    Err(what) => mistakes.push((Some(key.span().start), what)),
                }
            }
        }
        entries.push(all);
    }

    /// Returns the command line words for a key.
    fn words(
        &self,
        name: &str,
        part: Option<&str>,
        value: &Value<'_>,
    ) -> Result<Vec<OsString>, String> {
        let arg = self.find(name).ok_or_else(|| self.unknown(name))?;
        let optional = arg
            .get_num_args()
            .is_some_and(|range| range.min_values() == 0);
        let flag = format!("--{name}");
        let words = match value.get_ref() {
            DeValue::Boolean(true) if optional && part.is_none() => vec![flag],
            DeValue::Boolean(false) if optional && part.is_none() => vec![],
            _ if !arg.get_action().takes_values() => {
                return Err(format!("{name} is either true or false"));
            }
            value => {
                let text =
                    scalar(value).ok_or_else(|| format!("{name} does not take {}", kind(value)))?;
                let text = part.map_or(text.clone(), |part| format!("{part}={text}"));
                match arg.is_positional() {
                    // A positional argument must not look like a flag.
                    true if text.starts_with('-') => vec![format!("./{text}")],
                    true => vec![text],
                    false => vec![format!("{flag}={text}")],
                }
            }
        };
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        match self.parser.borrow_mut().try_get_matches_from_mut(&words) {
            // Check dependencies between keys later, when all are known.
            Err(error) if !depends_on_others(error.kind()) => Err(explain(&error)),
            _ => Ok(words),
        }
    }

    fn unknown(&self, name: &str) -> String {
        if NO_KEYS.contains(&name) {
            return format!("{name} is a flag, not a key");
        }
        let mut text = format!("there is no key {name}");
        if self.outside_hosts.contains(name) {
            text += " of a host; write it before the first [host], for all hosts";
            return text;
        }
        let dashes = name.replace('_', "-");
        let similar = if self.find(&dashes).is_some() {
            Some(dashes)
        } else {
            let mut parser = self.parser.borrow_mut();
            let error = parser.try_get_matches_from_mut([format!("--{name}")]).err();
            error.and_then(|error| match error.get(ContextKind::SuggestedArg) {
                Some(ContextValue::String(flag)) => Some(flag.trim_start_matches('-').to_owned()),
                _ => None,
            })
        };
        if let Some(similar) = similar {
            text += &format!("; did you mean {similar}?");
        }
        text
    }

    fn parse(&self, words: Vec<OsString>) -> Result<ArgMatches, String> {
        let parsed = self.parser.borrow_mut().try_get_matches_from_mut(words);
        parsed.map_err(|error| explain(&error))
    }

    /// Returns the given flags of this command as words.
    fn given(&self, matches: &ArgMatches) -> Vec<Entry> {
        let ours = self.command.get_arguments().filter(|arg| {
            let id = arg.get_id().as_str();
            id != "help" && matches.value_source(id) == Some(ValueSource::CommandLine)
        });
        let entry = |arg: &Arg| {
            let id = arg.get_id().as_str();
            let flag = arg.get_long().map(|long| format!("--{long}"));
            let words = match (flag, matches.get_raw(id)) {
                (Some(flag), _) if !arg.get_action().takes_values() => vec![flag.into()],
                (Some(flag), Some(values)) => values
                    .map(|value| {
                        let mut word = OsString::from(format!("{flag}="));
                        word.push(value);
                        word
                    })
                    .collect(),
                (None, Some(values)) => values.map(OsString::from).collect(),
                (_, None) => Vec::new(),
            };
            let id = id.to_owned();
            Entry { id, words }
        };
        ours.map(entry).collect()
    }
}

impl Entry {
    fn new(keys: &Keys, name: &str) -> Entry {
        let id = keys.find(name).map_or(name, |arg| arg.get_id().as_str());
        Entry {
            id: id.to_owned(),
            words: Vec::new(),
        }
    }
}

fn takes_several(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn depends_on_others(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ArgumentConflict | ErrorKind::MissingRequiredArgument
    )
}

/// Returns the message of clap without its decoration.
fn explain(error: &clap::Error) -> String {
    let text = numbers::explained(error).unwrap_or_else(|| error.render().to_string());
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = text.split("\n\nUsage").next().unwrap_or(text);
    let text = text.split("\n\nFor more").next().unwrap_or(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}

fn in_order<'t, 'a>(table: &'t DeTable<'a>) -> Vec<(&'t Key<'a>, &'t Value<'a>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            let value = i64::from_str_radix(number.as_str(), number.radix());
            value.ok().map(|value| value.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Array(_) => "several values",
        DeValue::Table(_) => "a table",
        DeValue::Integer(_) => "a number of this size",
        _ => "this value",
    }
}
