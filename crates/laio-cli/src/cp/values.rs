//! Values of options: words that can be abbreviated, and sizes.

use super::CliError;
use laio::ops::Advice;
use laio_cp::Options;

/// The words that an option accepts. Words on one line are synonyms.
pub(super) type Choices = &'static [&'static [&'static str]];

pub(super) const WHEN: Choices = &[&["auto"], &["always"], &["never"]];
pub(super) const UPDATES: Choices = &[&["all"], &["none"], &["none-fail"], &["older"]];
pub(super) const BACKUPS: Choices = &[
    &["none", "off"],
    &["simple", "never"],
    &["existing", "nil"],
    &["numbered", "t"],
];
pub(super) const ATTRIBUTES: Choices = &[
    &["mode"],
    &["timestamps"],
    &["ownership"],
    &["links"],
    &["context"],
    &["xattr"],
    &["all"],
];

/// Returns the first synonym of the word that was given.
pub(super) fn choose(given: &str, option: &str, words: Choices) -> Result<&'static str, CliError> {
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
        CliError::Usage(text)
    })
}

/// Parses the value of `--fadvise`.
pub(super) fn advice(text: &str) -> Result<Advice, String> {
    let mut words = Options::ADVICE.into_iter();
    let found = words.find(|(word, _)| *word == text);
    let found = found.map(|(_, advice)| advice);
    found.ok_or_else(|| "expected sequential, willneed, noreuse or dontneed".to_owned())
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok().filter(|number| *number > 0);
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "expected a positive number, optionally followed by K, M or G".to_owned())
}
