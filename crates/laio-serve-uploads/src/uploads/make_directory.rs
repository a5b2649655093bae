//! Making a directory (MKCOL).

use super::Done;
use super::disk::Disk;
use super::problem::Problem;
use super::target::Target;
use super::temporary::sync_directory;
use laio::ops::Mkdir;
use laio_serve_core::site::quota::Reservation;
use laio_serve_core::site::upload_rules::UploadRules;

/// Makes a directory.
pub(super) async fn make_directory(
    disk: Disk<'_>,
    rules: &UploadRules,
    target: &Target,
) -> Result<Done, Problem> {
    let reservation = Reservation::of(rules.quota.as_ref(), 0, 1)?;
    disk.names(Mkdir::new(target.at(), 0o777)).await?;
    reservation.commit(0, None);
    sync_directory(disk, &target.directory, rules.sync).await?;
    Ok(Done::Created(None))
}
