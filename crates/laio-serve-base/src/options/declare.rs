//! The declaration of options: the field, the flag, the meaning and the default of each, in one place.

/// Declares a struct of options. With the feature `clap`, a field with an `arg` attribute is a flag:
/// the first paragraph of its documentation is the flag's help, all of it the text in the manual. A
/// field with `field(skip)` has no flag. A field with `command(flatten)` is a struct of options itself;
/// its flags are added to those of this struct. The flag's default is the field's, unless the `arg`
/// attribute has a `default_value`, which overrides it for the command.
macro_rules! options {
    (
        $(#[doc = $about:tt])*
        $(#[command($($command:tt)*)])?
        pub struct $name:ident {$(
            $(#[doc = $doc:tt])*
            $(#[arg($($arg:tt)*)])?
            $(#[command($flatten:ident)])?
            $(#[field($skip:ident)])?
            pub $field:ident: $type:ty = $default:expr,
        )*}
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        $(#[cfg_attr(feature = "clap", command($($command)*))])?
        pub struct $name {$(
            $(#[doc = $doc])*
            $(#[cfg_attr(feature = "clap", arg(
                id = concat!(stringify!($name), ".", stringify!($field)),
                default_value = crate::options::declare::Shown::shown(&$name::default().$field),
                $($arg)*
            ))])?
            $(#[cfg_attr(feature = "clap", command($flatten))])?
            $(#[cfg_attr(feature = "clap", arg($skip = $default))])?
            pub $field: $type,
        )*}

        impl Default for $name {
            fn default() -> Self {
                $name {$($field: $default),*}
            }
        }
    };
}
pub(super) use options;

#[cfg(feature = "clap")]
use clap::builder::{OsStr, Resettable};

/// A value of a field, as the flag's default.
#[cfg(feature = "clap")]
pub(super) trait Shown {
    /// Returns the text, or nothing for flags without a default or with one of their own.
    fn shown(&self) -> Resettable<OsStr> {
        Resettable::Reset
    }
}

#[cfg(feature = "clap")]
mod shown {
    use super::{OsStr, Resettable, Shown};
    use crate::options::{AcmeChallenge, ClientAuth, Sandbox, Symlinks, UploadSync};
    use std::path::PathBuf;
    use std::time::Duration;

    impl Shown for bool {}
    impl Shown for AcmeChallenge {}
    impl Shown for ClientAuth {}
    impl Shown for Symlinks {}
    impl Shown for Sandbox {}
    impl Shown for UploadSync {}
    impl<T> Shown for Option<T> {}
    impl<T> Shown for Vec<T> {}

    macro_rules! as_displayed {
        ($($type:ty)*) => {$(
            impl Shown for $type {
                fn shown(&self) -> Resettable<OsStr> {
                    Resettable::Value(self.to_string().into())
                }
            }
        )*};
    }
    as_displayed!(usize u32 u64 String);

    impl Shown for PathBuf {
        fn shown(&self) -> Resettable<OsStr> {
            Resettable::Value(self.as_os_str().to_owned().into())
        }
    }

    impl Shown for Duration {
        fn shown(&self) -> Resettable<OsStr> {
            Resettable::Value(self.as_secs_f64().to_string().into())
        }
    }
}

/// Parses a time in seconds, with an optional fraction.
#[cfg(feature = "clap")]
pub(super) fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "the value is not a number of seconds")?;
    std::time::Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
