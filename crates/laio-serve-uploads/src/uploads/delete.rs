//! Deleting a file or a directory (DELETE).

use super::disk::Disk;
use super::problem::Problem;
use super::target::Target;
use super::temporary::sync_directory;
use super::{Done, conditions};
use laio::ops::Unlink;
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::site::upload_rules::UploadRules;

/// Deletes what has the name. Of a symbolic link that is the link itself.
pub(super) async fn delete(
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    rules: &UploadRules,
    target: &Target,
) -> Result<Done, Problem> {
    let limit = disk.services.limits.open_time;
    let names = &disk.changes.names_in_change;
    let _entered = names.enter(ctx.site.identity, &target.name, limit).await?;
    let present = target.status(disk).await?.ok_or(Problem::NOT_FOUND)?;
    conditions::check(ctx, Some(&present))?;
    if !present.is_dir() {
        disk.names(Unlink::new(target.at())).await?;
        let bytes = if present.is_file() { present.size() } else { 0 };
        rules.quota.iter().for_each(|quota| quota.release(bytes, 1));
    } else if let Some(extension) = disk.changes.extension_of(ctx.site) {
        if let Some(failed) = extension.remove_tree(disk, target, rules).await? {
            return Ok(failed);
        }
    } else {
        disk.names(Unlink::directory(target.at())).await?;
        rules.quota.iter().for_each(|quota| quota.release(0, 1));
    }
    if let Some(extension) = disk.changes.extension() {
        extension.forget(ctx.site.identity, &target.name);
    }
    sync_directory(disk, &target.directory, rules.sync).await?;
    Ok(Done::Changed(None))
}
