//! Another service for the requests for which there is no file.

use super::{Body, ServeDir, answer, head};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

/// Answers with files, and passes on to another service what would be 404; see [`ServeDir::fallback`].
#[derive(Clone, Debug)]
pub struct Fallback<F> {
    files: ServeDir,
    other: F,
    status: Option<StatusCode>,
}

impl<F> Fallback<F> {
    pub(super) fn new(files: ServeDir, other: F, status: Option<StatusCode>) -> Fallback<F> {
        Fallback {
            files,
            other,
            status,
        }
    }
}

impl<B, F, R> Service<Request<B>> for Fallback<F>
where
    B: Send + 'static,
    F: Service<Request<B>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    F::Future: Send,
{
    type Response = Response<FallbackBody<R>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // The other service is asked when it is needed.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Fallback {
            files,
            mut other,
            status,
        } = self.clone();
        Box::pin(async move {
            let answer = answer::answer(&files.0, head(&request)).await;
            if answer.status() != StatusCode::NOT_FOUND {
                return Ok(answer.map(FallbackBody::of_file));
            }
            poll_fn(|context| other.poll_ready(context)).await?;
            let mut answer = other.call(request).await?;
            if let Some(status) = status {
                *answer.status_mut() = status;
            }
            Ok(answer.map(FallbackBody::of_other))
        })
    }
}

pin_project! {
    /// The body of a response of [`Fallback`]: a file's, or that of the other service.
    #[derive(Debug)]
    pub struct FallbackBody<R> {
        #[pin]
        which: Which<R>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = WhichProjection]
    enum Which<R> {
        File { body: Body },
        Other { #[pin] body: R },
    }
}

impl<R> FallbackBody<R> {
    fn of_file(body: Body) -> FallbackBody<R> {
        let which = Which::File { body };
        FallbackBody { which }
    }

    fn of_other(body: R) -> FallbackBody<R> {
        let which = Which::Other { body };
        FallbackBody { which }
    }
}

impl<R> http_body::Body for FallbackBody<R>
where
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project().which.project() {
            WhichProjection::File { body } => Pin::new(body)
                .poll_frame(context)
                .map_err(|error| Box::new(error) as _),
            WhichProjection::Other { body } => body.poll_frame(context).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.which {
            Which::File { body } => body.is_end_stream(),
            Which::Other { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.which {
            Which::File { body } => body.size_hint(),
            Which::Other { body } => body.size_hint(),
        }
    }
}
