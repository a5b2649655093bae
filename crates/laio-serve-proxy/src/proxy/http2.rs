//! Requests to upstreams in HTTP/2 (RFC 9113).

use super::fields::{HOP_BY_HOP, VIA};
use super::http2_body::Http2Body;
use super::proxy_request::{ProxyRequest, Source, may_be_repeated};
use super::request::{for_each_field, host};
use super::trailers::takes_trailers;
use super::upload::Upload;
use super::upstream_head::{UpstreamHead, early_hints};
use h2::RecvStream;
use http::header::{CONTENT_LENGTH, TE, VIA as VIA_FIELD};
use http::response::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use laio_http::{Framing, Method, Status, ascii_query};
use laio_rt::time::sleep;
use laio_serve_base::field_names::is_one_of;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::request::body::BodyTime;
use laio_serve_net::stream::Stream;
use laio_serve_upstream::error::{Progress, UpstreamError};
use laio_serve_upstream::http2::Http2Place;
use laio_serve_upstream::link::Deadline;
use laio_serve_upstream::route::Member;
use laio_serve_upstream::target::Target;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

/// Sends a request to one upstream, and receives the head of the response. If the connection turns out to
/// be closed, repeats the request on another one, if that is allowed.
pub(super) async fn ask(
    proxy_request: &ProxyRequest<'_>,
    member: &Rc<Member>,
    source: &mut impl Source,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<(UpstreamHead, Http2Body, Option<Upload>), UpstreamError> {
    let in_flight = member.begin();
    let permit = member.pool.permit(limits, limits.streams).await?;
    let proxy_header = member.target.proxy_header(|| proxy_request.ends());
    if proxy_request.is_multiplexed() {
        // A client may send the messages of a stream one by one.
        source.set_time(BodyTime::EachPiece);
    }
    let mut repeated = false;
    let (place, response, upload) = loop {
        let time = deadline.within(limits.connect_time);
        let connections = &member.http2;
        let place = connections.place(&member.target, &proxy_header, time, limits);
        let place = place.await?;
        let answered = attempt(
            proxy_request,
            &member.target,
            &place,
            source,
            limits,
            deadline,
        );
        match answered.await {
            Ok((response, upload)) => break (place, response, upload),
            Err(error) => {
                let closed = match error.progress {
                    Progress::Stale => true,
                    Progress::NotConnected => place.is_retired(),
                    Progress::NothingReceived | Progress::Final => false,
                };
                if repeated || !closed || !may_be_repeated(proxy_request, &error, source) {
                    return Err(error);
                }
                place.retire();
                repeated = true;
            }
        }
    };
    let (parts, stream) = response.into_parts();
    let to_head = proxy_request.ctx.request.method == Method::Head;
    let head = response_head(&parts, stream.is_end_stream(), to_head)?;
    let ended = head.framing == Some(Framing::None) || stream.is_end_stream();
    let upload = upload.filter(|_| proxy_request.is_multiplexed());
    let body = Http2Body::new(
        stream,
        ended,
        member.clone(),
        limits.clone(),
        deadline,
        (place, permit, in_flight),
    );
    Ok((head, body, upload))
}

/// Selects the fields to pass on. `ended`: no body follows.
///
/// # Errors
/// When the status or the length is none of HTTP.
fn response_head(parts: &Parts, ended: bool, to_head: bool) -> Result<UpstreamHead, UpstreamError> {
    let wrong = || {
        let text = format!("the status or the length is malformed: {}", parts.status);
        UpstreamError::bad_gateway(text)
    };
    let status = Status::from_code(parts.status.as_u16()).ok_or_else(wrong)?;
    let lengths = parts.headers.get_all(CONTENT_LENGTH).iter().count();
    if status.code() < 200 || lengths > 1 {
        return Err(wrong());
    }
    if parts.headers.len() > UpstreamLimits::HEAD.headers {
        let text = "there are too many header fields";
        return Err(UpstreamError::bad_gateway(text));
    }
    let mut upstream_head = UpstreamHead::new(status, None, true);
    for (name, value) in &parts.headers {
        if !is_one_of(name.as_str().as_bytes(), &HOP_BY_HOP) {
            upstream_head.add(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    let bodiless = to_head || status.is_bodiless();
    if ended && !bodiless && upstream_head.length.is_none() {
        upstream_head.length = Some(b"0".as_slice().into());
    }
    let length = upstream_head.length.as_deref().map(|length| {
        let text = std::str::from_utf8(length).ok();
        text.and_then(|text| text.parse().ok()).ok_or_else(wrong)
    });
    upstream_head.framing = match length.transpose()? {
        _ if bodiless => Some(Framing::None),
        length => length.map(Framing::Length),
    };
    Ok(upstream_head)
}

/// Sends the body while waiting for the response. Returns the response, and what sends the rest of the
/// body, if there is more of it.
async fn attempt(
    proxy_request: &ProxyRequest<'_>,
    target: &Target,
    place: &Http2Place,
    source: &mut impl Source,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<(Response<RecvStream>, Option<Upload>), UpstreamError> {
    let framing = proxy_request.ctx.request.framing;
    let bodiless = matches!(framing, Framing::None | Framing::Length(0));
    let request = head(proxy_request, target)?;
    let time = deadline.within(limits.queue_time);
    let (response, stream) = place.begin(request, bodiless, time).await?;
    let mut response = response;
    let mut interim = 0;
    let mut first_byte = None;
    let mut upload = Upload::new(stream, bodiless);
    let answered = {
        let mut pump = pin!(upload.run(source, limits, deadline));
        let mut pumped = false;
        loop {
            let arrived = poll_fn(|context| {
                if !pumped && let Poll::Ready(result) = pump.as_mut().poll(context) {
                    match result {
                        Ok(()) => pumped = true,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                // None: no more interim responses come. An error is that of the response too.
                if let Poll::Ready(Some(Ok(head))) = response.poll_informational(context) {
                    return Poll::Ready(Ok(Arrived::Interim(head)));
                }
                if let Poll::Ready(result) = Pin::new(&mut response).poll(context) {
                    let result = result.map_err(|error| place.explain(&error));
                    return Poll::Ready(result.map(Arrived::Response));
                }
                // The time limit for the response begins when the request is sent.
                if !pumped {
                    return Poll::Pending;
                }
                let limit = || sleep(deadline.within(limits.first_byte_time));
                let limit = Pin::new(first_byte.get_or_insert_with(limit));
                limit
                    .poll(context)
                    .map(|()| Err(UpstreamError::no_answer()))
            })
            .await;
            match arrived {
                Ok(Arrived::Response(response)) => break Ok(response),
                Ok(Arrived::Interim(head)) => {
                    interim += 1;
                    let passed = pass_hints(proxy_request.stream, &head, interim).await;
                    if let Err(error) = passed {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        }
    };
    match answered {
        Ok(response) => {
            let runs = upload.is_running();
            Ok((response, runs.then_some(upload)))
        }
        Err(error) => {
            if error.is_of_upstream() && error.progress == Progress::NothingReceived {
                // The connection may be dead. Its other requests go on, but it gets no new ones.
                place.retire();
            }
            Err(error)
        }
    }
}

/// What arrives for a request.
enum Arrived {
    Interim(Response<()>),
    Response(Response<RecvStream>),
}

/// Passes the early hints of an interim response on to a client that takes them. `number` counts the interim responses.
async fn pass_hints(
    client: Option<&Stream>,
    head: &Response<()>,
    number: usize,
) -> Result<(), UpstreamError> {
    if number > UpstreamLimits::INTERIM {
        let text = "the upstream sent too many interim responses";
        return Err(UpstreamError::bad_gateway(text));
    }
    let Some(client) = client.filter(|client| client.is_multiplexed()) else {
        return Ok(());
    };
    if head.status() != StatusCode::EARLY_HINTS {
        return Ok(());
    }
    let fields = head.headers().iter();
    let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let Some(hints) = early_hints(fields) else {
        return Ok(());
    };
    let (sent, _) = client.send_output(hints).await;
    sent.map(drop).map_err(|_| UpstreamError::client_gone())
}

/// Returns the head of a request.
fn head(proxy_request: &ProxyRequest<'_>, target: &Target) -> Result<Request<()>, UpstreamError> {
    let wrong = |error: http::Error| {
        let text = format!("HTTP/2 cannot express the request: {error}");
        UpstreamError::bad_gateway(text)
    };
    let request = proxy_request.ctx.request;
    let mut path = target.mount.upstream_path(proxy_request.path).into_owned();
    if let Some(query) = request.query {
        path.push('?');
        path.push_str(&ascii_query(query));
    }
    let uri = Uri::builder()
        .scheme(if target.is_encrypted() {
            "https"
        } else {
            "http"
        })
        .authority(host(proxy_request).as_deref().unwrap_or("localhost"))
        .path_and_query(path);
    let mut head = Request::builder()
        .method(request.method.as_str())
        .uri(uri.build().map_err(wrong)?)
        .body(())
        .map_err(wrong)?;
    let fields = head.headers_mut();
    let mut push = |name: &[u8], value: &[u8]| {
        // The parser accepts what these types accept, so nothing is lost.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            fields.append(name, value);
        }
    };
    for_each_field(proxy_request, &mut push);
    let version = proxy_request.stream.and_then(Stream::version);
    let version = version.unwrap_or(request.version.as_str());
    let version = version.trim_start_matches("HTTP/").trim_end_matches(".0");
    let via = format!("{version} {VIA}");
    push(VIA_FIELD.as_str().as_bytes(), via.as_bytes());
    if let Framing::Length(length) = request.framing {
        push(
            CONTENT_LENGTH.as_str().as_bytes(),
            length.to_string().as_bytes(),
        );
    }
    let takes_trailers = proxy_request.stream.is_some() && takes_trailers(request);
    if proxy_request.is_multiplexed() || takes_trailers {
        // Trailers are passed on to such a client. Servers of gRPC insist on the field.
        push(TE.as_str().as_bytes(), b"trailers");
    }
    Ok(head)
}
