//! Writing the settings as a configuration file.

use super::{ConfigurationReader, Keys, Mistakes, NO_KEYS, Settings, takes_several};
use clap::{Arg, ArgMatches};
use std::any::TypeId;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::PathBuf;
use toml::Value;

impl Settings {
    /// Returns all settings in force, including defaults, as a configuration file.
    ///
    /// # Errors
    /// When a file name is not UTF-8, as TOML requires.
    pub(in crate::serve) fn text(&self, reader: &ConfigurationReader) -> Result<String, Mistakes> {
        let mut text = String::new();
        let mut hosts = Vec::new();
        let mut heading = None;
        for arg in reader.main.listed() {
            if arg.get_id() == "host" {
                hosts = values(arg, &self.given_flags.main)?;
                continue;
            }
            let line = line(arg, &self.given_flags.main)?;
            if !line.is_empty() && arg.get_help_heading() != heading {
                heading = arg.get_help_heading();
                let _ = writeln!(text, "\n# {}", heading.unwrap_or("Options"));
            }
            text += &line;
        }
        // Of several directories with one host name, the last one counts. A [host.NAME] table
        // overrides both.
        let mut known: HashSet<&str> = self
            .given_flags
            .hosts
            .iter()
            .map(|(name, _)| &**name)
            .collect();
        let mut pairs: Vec<_> = hosts
            .iter()
            .filter_map(|host| host.split_once('='))
            .collect();
        pairs.reverse();
        pairs.retain(|(name, _)| known.insert(name));
        if !pairs.is_empty() {
            text += "\n[host]\n";
        }
        for (name, directory) in pairs.iter().rev() {
            let _ = writeln!(text, "{} = {}", quoted(name), quoted(directory));
        }
        for (name, matches) in &self.given_flags.hosts {
            let _ = writeln!(text, "\n[host.{}]", quoted(name));
            for arg in reader.site.listed() {
                let own = line(arg, matches)?;
                text += &own;
                // An empty list keeps the values of the main site from the host.
                if own.is_empty()
                    && takes_several(arg)
                    && !values(arg, &self.given_flags.main)?.is_empty()
                {
                    let _ = writeln!(text, "{} = []", key(arg));
                }
            }
        }
        Ok(text.trim_start().to_owned())
    }
}

impl Keys {
    /// Returns the flags that are keys.
    fn listed(&self) -> impl Iterator<Item = &Arg> {
        let keys = self.command.get_arguments();
        keys.filter(|arg| !NO_KEYS.contains(&key(arg)))
    }
}

fn key(arg: &Arg) -> &str {
    arg.get_long().unwrap_or(arg.get_id().as_str())
}

/// Returns the line of a key, or nothing if it has no value.
fn line(arg: &Arg, matches: &ArgMatches) -> Result<String, Mistakes> {
    let values = values(arg, matches)?;
    let mut written = values.iter().map(|value| written(arg, value));
    let value = match &*values {
        [] => return Ok(String::new()),
        _ if takes_several(arg) => format!("[{}]", written.collect::<Vec<_>>().join(", ")),
        _ => written.next().unwrap_or_default(),
    };
    Ok(format!("{} = {value}\n", key(arg)))
}

/// Returns the values of a flag, or its default.
fn values<'a>(arg: &Arg, matches: &'a ArgMatches) -> Result<Vec<&'a str>, Mistakes> {
    let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    let text = |value: &'a OsStr| {
        value.to_str().ok_or_else(|| {
            let text = format!("{} is {value:?}, which TOML cannot represent", key(arg));
            Mistakes(vec![text])
        })
    };
    raw.map(text).collect()
}

/// Writes numbers and booleans of suitable flags without quotes.
fn written(arg: &Arg, value: &str) -> String {
    let kind = arg.get_value_parser().type_id();
    let is_name = [TypeId::of::<String>(), TypeId::of::<PathBuf>()]
        .iter()
        .any(|name| kind == *name);
    let plain = match value.parse::<Value>() {
        Ok(Value::Boolean(_)) => !arg.get_action().takes_values(),
        Ok(Value::Integer(number)) => !is_name && number.to_string() == value,
        Ok(Value::Float(number)) => !is_name && number.is_finite(),
        _ => false,
    };
    if plain {
        value.to_owned()
    } else {
        quoted(value)
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::config::load;
    use laio_serve::Sandbox;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn printed(file: &str) -> Result<String, Mistakes> {
        ConfigurationReader::new().text(file)
    }

    fn read(file: &str) -> Result<Settings, Mistakes> {
        ConfigurationReader::new().settings(file)
    }

    /// Returns the options without the settings of where they were read.
    fn options_of(settings: &Settings) -> String {
        format!("{:#?}", settings.options().unwrap())
    }

    #[test]
    fn a_printed_configuration_is_read_as_the_same() {
        let flags = [
            "--workers=3",
            "--listing",
            "--precompressed",
            "--compress=br,gzip",
            "--cork",
            "--index=a,b \"c\"",
            "--header=*.css=X-A: 'b'\\",
            "--header=*=X-C: d",
            "--redirect=/old/*=/new/*=308",
            "--host=a.example=/tmp",
            "--host=b.example=/tmp",
            "--host=a.example=/var",
            "--policy=open=threads,read=lazy",
            "--idle-timeout=0.25",
            "--log=8080",
            "--auth-realm=true",
            "--listen=127.0.0.1:0",
            "--listen=unix:a b,mode=660",
            "--fastcgi=/php/=unix:/run/php.sock",
            "--chunk=65536",
            "--no-http2",
            "--",
            "a\nb",
        ];
        let settings = load(&flags.map(OsString::from)).unwrap();
        let text = settings.text(&ConfigurationReader::new()).unwrap();
        let again = read(&text).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"));
        assert_eq!(again.text(&ConfigurationReader::new()).unwrap(), text);
        // Except for the first of two hosts with one name, which is never used.
        let first_flags = flags
            .iter()
            .filter(|flag| **flag != "--host=a.example=/tmp");
        let fewer: Vec<_> = first_flags.map(OsString::from).collect();
        let fewer = load(&fewer).unwrap();
        assert_eq!(options_of(&fewer), options_of(&again));
    }

    #[test]
    fn the_defaults_of_flags_are_those_of_the_library() {
        let mut expected = laio_serve::Options::default();
        // The command restricts its workers where the kernel can.
        expected.safety.landlock = Sandbox::Auto;
        expected.safety.seccomp = Sandbox::Auto;
        let options = load(&[]).unwrap().options().unwrap();
        assert_eq!(format!("{options:#?}"), format!("{expected:#?}"));
    }

    #[test]
    fn hosts_have_tables() {
        let file = "listing = true\n[host.'a b']\nroot = 'x'\nindex = ['c']\n[host.'*.d']\nlisting = false";
        let text = printed(file).unwrap();
        assert_eq!(printed(&text).unwrap(), text);
        let (first, second) = (read(file).unwrap(), read(&text).unwrap());
        assert_eq!(options_of(&first), options_of(&second));
        assert!(text.contains("[host.\"a b\"]\nroot = \"x\"\n"), "{text}");
    }

    #[test]
    fn several_upstreams_of_a_prefix_are_an_array() {
        let file = "proxy = { '/a' = ['http://b:1', 'http://c:2,weight=3'], '/d' = 'http://e' }\n\
                    balance = { '/a' = 'hash=cookie:id' }\nhealth-path = '/up'";
        let text = printed(file).unwrap();
        assert_eq!(printed(&text).unwrap(), text);
        let list = r#"["/a=http://b:1", "/a=http://c:2,weight=3", "/d=http://e"]"#;
        assert!(text.contains(&format!("proxy = {list}\n")), "{text}");
        let settings = read(file).unwrap();
        let upstreams = &settings.options().unwrap().site.upstreams;
        let weights: Vec<_> = upstreams.http.iter().map(|it| it.weight).collect();
        assert_eq!(weights, [1, 3, 1]);
        let mistakes = printed("proxy = { '/a' = ['http://b:1', 'c'] }").unwrap_err();
        assert!(mistakes.to_string().contains(":1: "), "{mistakes}");
    }

    #[test]
    fn a_host_without_the_values_of_the_main_site() {
        let file = "redirect = ['/a=/b']\ntry = ['=404']\n[host.a]\nredirect = []\ntry = []";
        let text = printed(file).unwrap();
        assert_eq!(printed(&text).unwrap(), text);
        let (first, second) = (read(file).unwrap(), read(&text).unwrap());
        assert_eq!(options_of(&first), options_of(&second));
        let host = &second.options().unwrap().hosts[0].site;
        assert!(host.redirects.is_empty() && host.candidates.is_empty());
    }

    #[test]
    fn a_name_that_is_not_utf_8_cannot_be_written() {
        let flags = [OsString::from_vec(vec![0xff])];
        let mistakes = load(&flags)
            .unwrap()
            .text(&ConfigurationReader::new())
            .unwrap_err();
        assert!(mistakes.to_string().contains("root is"), "{mistakes}");
    }
}
