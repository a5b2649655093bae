//! Deleting a file or an empty directory (DELETE).

use super::disk::Disk;
use super::problem::Problem;
use super::target::Target;
use super::temporary::sync_directory;
use super::{Done, UploadRules, conditions};
use crate::request::response::RequestContext;
use laio::ops::Unlink;

/// Deletes what has the name. Of a symbolic link that is the link itself.
pub(super) async fn delete(
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    rules: &UploadRules,
    target: &Target,
) -> Result<Done, Problem> {
    let limit = disk.services.limits.open_time;
    let names = &disk.services.names_in_change;
    let _entered = names.enter(ctx.site.identity, &target.name, limit).await?;
    let present = target.status(disk).await?.ok_or(Problem::NOT_FOUND)?;
    conditions::check(ctx, Some(&present))?;
    let unlink = match present.is_dir() {
        true => Unlink::directory(target.at()),
        false => Unlink::new(target.at()),
    };
    disk.names(unlink).await?;
    sync_directory(disk, &target.directory, rules.sync).await?;
    Ok(Done::Changed(None))
}
