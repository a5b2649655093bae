//! The arguments that describe a site.

use crate::Failure;
use laio_serve::{
    Auth, Coding, Cors, Dotfiles, ErrorPage, FieldRule, Host, Redirect, Site, Status, Symlinks,
};
use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct SiteArguments {
    /// The directory to serve
    #[arg(default_value = ".", value_name = "DIR")]
    root: PathBuf,
    /// Serve another directory under a host name, or under every name below *.NAME; all other
    /// options are those of DIR
    #[arg(long, value_name = "NAME=DIR", value_parser = pair, help_heading = "Files")]
    host: Vec<(String, String)>,
    /// Index file of a directory; the first that exists
    #[arg(
        long,
        value_name = "NAME",
        default_value = "index.html",
        value_delimiter = ',',
        help_heading = "Files"
    )]
    index: Vec<String>,
    /// List directories without an index file
    #[arg(long, help_heading = "Files")]
    listing: bool,
    /// Answer with this file, and 200, for missing pages (single-page applications)
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    fallback: Option<String>,
    /// Answer an error with this file of DIR
    #[arg(long, value_name = "STATUS=FILE", value_parser = pair, help_heading = "Files")]
    error_page: Vec<(String, String)>,
    /// Serve names that begin with a dot
    #[arg(long, help_heading = "Files")]
    dotfiles: bool,
    /// Where symbolic links may lead: within DIR, nowhere (refuse), or anywhere (follow)
    #[arg(long, value_name = "WHERE", default_value = "within", value_parser = symlinks, help_heading = "Files")]
    symlinks: Symlinks,
    /// Serve FILE.br, FILE.zst or FILE.gz instead of FILE to clients that accept it, in this order
    /// of preference
    #[arg(long, value_name = "CODINGS", value_parser = coding, value_delimiter = ',', num_args = 0..=1,
        require_equals = true, default_missing_value = "br,zst,gz", help_heading = "Answers")]
    precompressed: Vec<Coding>,
    /// Compress text while it is sent
    #[arg(long, help_heading = "Answers")]
    compress: bool,
    /// Set a header field for files that match the glob; without a slash it matches names in every
    /// directory
    #[arg(long, value_name = "GLOB=NAME: VALUE", value_parser = field, help_heading = "Answers")]
    header: Vec<FieldRule>,
    /// Set Cache-Control for files that match the glob
    #[arg(long, value_name = "GLOB=DIRECTIVES", value_parser = pair, help_heading = "Answers")]
    cache_control: Vec<(String, String)>,
    /// Redirect a path, with 301 or another status; a * at the end of FROM replaces the * in TO
    #[arg(long, value_name = "FROM=TO[=STATUS]", value_parser = redirect, help_heading = "Answers")]
    redirect: Vec<Redirect>,
    /// Let pages of this origin, or of all (*), read the files
    #[arg(long, value_name = "ORIGIN", help_heading = "Access")]
    cors: Vec<String>,
    /// Seconds that a browser may cache the answer to a preflight request
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 86_400,
        help_heading = "Access"
    )]
    cors_max_age: u32,
    /// Require names and passwords, from this file (made by `htpasswd -B`)
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    auth: Option<PathBuf>,
    /// Realm that browsers show
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "laio",
        help_heading = "Access"
    )]
    auth_realm: String,
    /// Require passwords only for paths that match this glob
    #[arg(long, value_name = "GLOB", help_heading = "Access")]
    auth_path: Vec<String>,
}

impl SiteArguments {
    /// Returns the default site, and the sites with host names.
    pub(super) fn sites(self) -> Result<(Site, Vec<Host>), Failure> {
        let mut fields = self.header;
        fields.extend(
            self.cache_control
                .into_iter()
                .map(|(glob, value)| FieldRule {
                    glob,
                    name: "Cache-Control".to_owned(),
                    value,
                }),
        );
        let page = |(status, file): (String, String)| match status.parse() {
            Ok(status) => Ok(ErrorPage { status, file }),
            Err(_) => Err(format!(
                "--error-page {status}={file}: {status} is not a status"
            )),
        };
        let auth = |users| Auth {
            users,
            realm: self.auth_realm,
            paths: self.auth_path,
        };
        let cors = Cors {
            origins: self.cors,
            max_age: self.cors_max_age,
        };
        let site = Site {
            root: self.root,
            dotfiles: if self.dotfiles {
                Dotfiles::Serve
            } else {
                Dotfiles::Hide
            },
            symlinks: self.symlinks,
            index: self.index,
            listing: self.listing,
            fallback: self.fallback,
            error_pages: self
                .error_page
                .into_iter()
                .map(page)
                .collect::<Result<_, _>>()?,
            redirects: self.redirect,
            fields,
            cors: (!cors.origins.is_empty()).then_some(cors),
            auth: self.auth.map(auth),
            precompressed: self.precompressed,
            compress: self.compress,
            ..Site::default()
        };
        let host = |(name, root): (String, String)| Host {
            names: vec![name],
            site: Site {
                root: root.into(),
                ..site.clone()
            },
        };
        let hosts = self.host.into_iter().map(host).collect();
        Ok((site, hosts))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a = is missing")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn field(text: &str) -> Result<FieldRule, String> {
    let (glob, field) = pair(text)?;
    let (name, value) = field
        .split_once(':')
        .ok_or("a : is missing after the name of the field")?;
    let [name, value] = [name, value].map(|part| part.trim().to_owned());
    Ok(FieldRule { glob, name, value })
}

fn redirect(text: &str) -> Result<Redirect, String> {
    let (from, to) = pair(text)?;
    // The target may contain a = too.
    let (to, status) = match to.rsplit_once('=') {
        Some((to, digits)) if digits.len() == 3 && digits.starts_with('3') => (to, digits),
        _ => (to.as_str(), "301"),
    };
    let status = status.parse().ok().and_then(Status::from_code);
    Ok(Redirect {
        from,
        to: to.to_owned(),
        status: status.ok_or("the status must be 301, 302, 307 or 308")?,
    })
}

fn symlinks(name: &str) -> Result<Symlinks, String> {
    match name {
        "within" => Ok(Symlinks::Within),
        "refuse" => Ok(Symlinks::Refuse),
        "follow" => Ok(Symlinks::Follow),
        _ => Err("the value must be within, refuse or follow".to_owned()),
    }
}

fn coding(name: &str) -> Result<Coding, String> {
    match name {
        "br" => Ok(Coding::Brotli),
        "zst" | "zstd" => Ok(Coding::Zstd),
        "gz" | "gzip" => Ok(Coding::Gzip),
        _ => Err("the codings are br, zst and gz".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_and_fields() {
        let moved = redirect("/a=/b?c=d").unwrap();
        assert_eq!((moved.to.as_str(), moved.status.code()), ("/b?c=d", 301));
        let moved = redirect("/a=/b=308").unwrap();
        assert_eq!((moved.to.as_str(), moved.status.code()), ("/b", 308));
        assert!(redirect("/a").is_err() && redirect("/a=/b=399").is_err());
        let rule = field("*.css=X-A: b=c: d").unwrap();
        assert_eq!((rule.name.as_str(), rule.value.as_str()), ("X-A", "b=c: d"));
        assert!(field("*.css=X-A").is_err());
    }
}
