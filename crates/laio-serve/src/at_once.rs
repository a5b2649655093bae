//! The answer to the request that is made most: for all of a file that is kept, without conditions, where nobody is
//! asked for a password. It is what [`Worker::answer`] would come to, without a step that could wait.

use crate::observe::{self, Stage};
use crate::reply::{Asked, Reply, has_conditions, whole_behind};
use crate::resolve::{enter, resolve};
use crate::worker::Worker;
use laio_http::{Method, Status};

impl Worker {
    /// Puts the head, and the body if it is short, into `out`. None, and nothing done, if it takes more than this.
    pub(crate) fn answer_at_once(
        &self,
        asked: Asked<'_>,
        out: &mut Vec<u8>,
        name: &mut Vec<u8>,
    ) -> Option<Reply> {
        let (request, site) = (asked.request, asked.site);
        let cache = self.cache.as_ref()?;
        let simple = matches!(request.method, Method::Get | Method::Head)
            && site.users.is_none()
            && site.precompressed.is_empty()
            && !site.compress
            && !has_conditions(request);
        if !simple {
            return None;
        }
        let begun = observe::begin();
        let resolved = resolve(site, request.path.as_ref().ok()?, name).ok()?;
        let moved = site.redirects.of(name, resolved.directory, request.query);
        if moved.is_some() {
            return None;
        }
        if resolved.directory {
            enter(name, site.index.first()?.as_bytes());
        }
        let opened = cache.get(site.number, name)?;
        let fields = opened.fields.as_ref()?.get()?;
        observe::end(Stage::Resolve, begun);
        let head = asked.head(out, Status::OK).again(fields);
        Some(whole_behind(asked, head, &opened))
    }
}
