//! The keys of a configuration file, as they are written.

use crate::serve::config::ConfigurationReader;
use std::fmt::Write;
use toml::Value;

/// The keys of the main site or of a host, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    keys: Vec<(&'static str, Value)>,
}

impl Table {
    /// Sets a key.
    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match self.keys.iter_mut().find(|(own, _)| *own == key) {
            Some((_, own)) => *own = value,
            None => self.keys.push((key, value)),
        }
    }

    /// Adds a value to those of a key, unless it has it.
    pub(super) fn add(&mut self, key: &'static str, value: impl Into<String>) {
        let value = Value::String(value.into());
        match self.keys.iter_mut().find(|(own, _)| *own == key) {
            Some((_, Value::Array(values))) => {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            Some((_, own)) => *own = Value::Array(vec![value]),
            None => self.keys.push((key, Value::Array(vec![value]))),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.keys
            .iter()
            .find(|(own, _)| *own == key)
            .map(|(_, value)| value)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets the keys that a host would otherwise have from the main site to what they are without a setting.
    /// Returns the keys that cannot be unset.
    pub(super) fn unset_those_of(&mut self, main: &Table) -> Vec<&'static str> {
        let mut left = Vec::new();
        for (key, value) in &main.keys {
            if self.has(key) {
                continue;
            }
            match (*key, value) {
                ("index", _) => self.set("index", vec!["index.html".to_owned()]),
                ("hsts", _) => self.set("hsts", "off"),
                (_, Value::Array(_)) => self.set(key, Value::Array(Vec::new())),
                (_, Value::Boolean(_)) => self.set(key, false),
                // Without the file of users it has no meaning.
                ("auth-realm", _) => {}
                // Without an auth server it has no meaning.
                ("auth-request-login", _) => {}
                _ => left.push(*key),
            }
        }
        left
    }

    /// Removes the keys whose values the server does not read. Returns them, with the reasons.
    pub(super) fn leave_malformed_out(
        &mut self,
        reader: &ConfigurationReader,
    ) -> Vec<(&'static str, String)> {
        let mut removed = Vec::new();
        self.keys.retain(|(key, value)| {
            let wrong = reader.check(&format!("{key} = {value}")).err();
            removed.extend(wrong.iter().map(|why| (*key, why.to_string())));
            wrong.is_none()
        });
        removed
    }

    /// Returns the keys as lines.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.keys {
            match value {
                Value::Array(values) if values.len() > 1 => {
                    let _ = writeln!(text, "{key} = [");
                    for value in values {
                        let _ = writeln!(text, "    {value},");
                    }
                    text += "]\n";
                }
                value => {
                    let _ = writeln!(text, "{key} = {value}");
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_hosts_do_not_inherit() {
        let mut main = Table::default();
        main.set("root", "/a\"b");
        main.set("listing", true);
        main.add("redirect", "/a=/b");
        main.add("redirect", "/a=/b");
        main.set("hsts", 60);
        main.set("auth", "/users");
        assert_eq!(
            main.text(),
            "root = '/a\"b'\nlisting = true\nredirect = [\"/a=/b\"]\nhsts = 60\nauth = \"/users\"\n"
        );
        let mut host = Table::default();
        host.set("root", "/c");
        assert_eq!(host.unset_those_of(&main), ["auth"]);
        assert_eq!(
            host.text(),
            "root = \"/c\"\nlisting = false\nredirect = []\nhsts = \"off\"\n"
        );
    }
}
