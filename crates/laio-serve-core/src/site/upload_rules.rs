//! How the files of a site may be changed.

use super::quota::{CountedDirectories, Quota};
use laio_serve_base::options::{Protocol, Site as Description, UploadSync, Uploaders};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How the files of a site may be changed.
#[derive(Clone, Debug)]
pub struct UploadRules {
    pub who: Uploaders,
    /// Bytes of one file.
    pub bytes: u64,
    /// Bytes of the file system that stay free.
    pub keep_free: u64,
    pub sync: UploadSync,
    /// The limit on all files together.
    pub quota: Option<Quota>,
}

impl UploadRules {
    /// Compiles the rules. Returns `None` if nothing may be changed.
    ///
    /// # Errors
    /// When another option of the site contradicts them.
    pub(super) fn new(
        site: &Description,
        root: &OwnedFd,
        counted: &CountedDirectories,
    ) -> io::Result<Option<UploadRules>> {
        let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        let uploads = &site.uploads;
        let Some(who) = uploads.who else {
            if uploads.quota.is_some() || uploads.files.is_some() {
                return refuse(
                    "--upload-quota and --upload-files limit what --upload allows; add --upload",
                );
            }
            return Ok(None);
        };
        let asks = site.auth_requests.rules.iter();
        let asks = asks.filter(|rule| rule.server.is_some()).count() > 0;
        if who == Uploaders::Users && site.auth.users.is_none() && !asks {
            return refuse(
                "--upload needs --auth FILE with the users who may change files, or --auth-request URL with a server that \
                 knows them; --upload=anyone lets everyone who can connect change every file of DIR",
            );
        }
        if who == Uploaders::Anyone && asks {
            return refuse(
                "--upload=anyone cannot be combined with --auth-request, because anyone could copy or move what an auth \
                 server guards; use --upload for those whom it lets in, or another host for everyone",
            );
        }
        if who == Uploaders::Anyone && site.auth.users.is_some() {
            return refuse(
                "--upload=anyone cannot be combined with --auth, because anyone could copy or move what a password guards; \
                 use --upload for the users of --auth, or another host for everyone",
            );
        }
        if !site.aliases.is_empty() {
            return refuse(
                "--upload cannot be combined with --alias, because changes would lead from one directory into another; use \
                 another host for uploads",
            );
        }
        let mut upstreams = site.upstreams.all();
        let executes = site.upstreams.php.is_some()
            || upstreams.any(|upstream| upstream.protocol == Protocol::FastCgi);
        if executes {
            return refuse(
                "--upload cannot be combined with --php or --fastcgi, because a program could execute uploaded files; \
                 use another host or another server for uploads",
            );
        }
        Ok(Some(UploadRules {
            who,
            bytes: uploads.bytes,
            keep_free: uploads.keep_free,
            sync: uploads.sync,
            // A site with uploads has files.
            quota: Quota::of(
                counted,
                root,
                site.directory().unwrap_or(Path::new(".")),
                uploads.quota,
                uploads.files,
            )?,
        }))
    }
}
