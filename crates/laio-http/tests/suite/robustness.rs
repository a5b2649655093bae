//! Random damage to valid requests: nothing panics, and the invariants hold. The generator is
//! seeded, so failures are reproducible.

use laio_http::*;

const ITERATIONS: usize = 40_000;

const SAMPLES: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"GET /a%20b/../c//%C3%A9?q=1 HTTP/1.1\r\nHost: [::1]:80\r\nRange: bytes=0-4,10-,-5\r\n\
      If-Range: \"1-2-3.4\"\r\nAccept-Encoding: gzip;q=0.5, br, *;q=0\r\n\r\n",
    b"HEAD http://example.org:8080/x HTTP/1.0\r\nConnection: keep-alive\r\n\
      If-None-Match: W/\"a,b\", \"1-2-3.4\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
      Referer: http://x/\r\nUser-Agent: a (b; \"c\")\r\n\r\n",
    b"POST /f HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nIf-Match: *\r\n\r\n\
      5;a=b\r\nhello\r\n0\r\nT: v\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\r\nPUT /f HTTP/1.1\r\nhost:h\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\
      If-Unmodified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n\r\nhello, world",
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Sun Nov  6 08:49:37 1994\r\n\r\n",
];

/// Bytes with a special meaning in some context.
const INTERESTING: &[u8] = b"\r\n\0 \t:;,./%?#*\"\\-=0129afFG\x7f\x80\xc3\xff";

#[test]
fn damaged_requests_are_handled() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut complete = 0;
    for _ in 0..ITERATIONS {
        let mut bytes = random.pick(SAMPLES).to_vec();
        for _ in 0..random.below(5) {
            damage(&mut bytes, &mut random);
        }
        complete += usize::from(serve(&bytes, &mut random));
    }
    assert!(
        complete > ITERATIONS / 10,
        "the damage leaves too little to test: {complete}"
    );
}

#[test]
fn the_split_makes_no_difference() {
    let mut random = Random(42);
    for _ in 0..ITERATIONS / 40 {
        let mut bytes = random.pick(SAMPLES).to_vec();
        for _ in 0..random.below(3) {
            damage(&mut bytes, &mut random);
        }
        let outcome = |len: usize| match parse(&bytes[..len], &Limits::DEFAULT) {
            Ok(Parsed::Partial) => None,
            Ok(Parsed::Complete { request, head_len }) => {
                Some(Ok((format!("{request:?}"), head_len)))
            }
            Err(rejection) => Some(Err(rejection)),
        };
        let stepwise = (0..=bytes.len()).find_map(outcome);
        assert_eq!(stepwise, outcome(bytes.len()), "{}", bytes.escape_ascii());
    }
}

#[test]
fn noise_is_handled() {
    let mut random = Random(7);
    for _ in 0..ITERATIONS / 4 {
        let len = random.below(200);
        let bytes: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        serve(&bytes, &mut random);
        examine_values(&bytes, random.next());
    }
}

/// Processes the bytes as a server would, and checks the invariants. Returns whether there was a
/// request.
fn serve(bytes: &[u8], random: &mut Random) -> bool {
    let Ok(Parsed::Complete { request, head_len }) = parse(bytes, &Limits::DEFAULT) else {
        return false;
    };
    assert!(bytes[..head_len].ends_with(b"\r\n\r\n"));
    assert!(request.version == Version::Http10 || request.host.is_some());
    for (name, value) in request.headers.iter() {
        assert!(!name.is_empty() && name.iter().all(u8::is_ascii_graphic));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert_eq!(value, value.trim_ascii());
        examine_values(value, random.next());
    }

    skip_body(request.framing, &bytes[head_len..], random);
    if let Ok(path) = &request.path {
        examine_path(path.as_str());
    }

    let etag = ETag::of_file(1, 2, 3, 4);
    let current = Validators {
        etag: Some(&etag),
        modified: Some(784_111_777),
        now: 784_111_900,
    };
    let outcome = conditional::evaluate(&request, &current);
    if outcome
        == (ConditionalResult::Proceed {
            range_applies: true,
        })
    {
        assert!(request.method == Method::Get && request.headers.get("range").is_some());
    }
    let _ = Coding::negotiate(&request.headers, &[Coding::Brotli, Coding::Gzip]);

    let mut out = Vec::new();
    let record = LogRecord::from_request(&request, &HttpDate::EPOCH);
    let fields: Vec<LogField> = [
        "path",
        "query",
        "host",
        "req:Cookie",
        "req:Accept",
        "resp:X",
    ]
    .iter()
    .map(|name| name.parse().unwrap())
    .collect();
    let mut response = Output::default();
    ResponseHead::new(&mut response, Status::OK)
        .header("X", bytes)
        .finish();
    let record = LogRecord {
        response_fields: Some(&response.fields_from(0)),
        ..record
    };
    for (format, chosen) in [
        (LogFormat::Common, false),
        (LogFormat::Combined, false),
        (LogFormat::Json, false),
        (LogFormat::Logfmt, false),
        (LogFormat::Json, true),
        (LogFormat::Logfmt, true),
    ] {
        out.clear();
        if chosen {
            log::write_fields(format, &fields, &record, &mut out);
            out.push(b'\n');
        } else {
            log::write_line(format, &record, &mut out);
        }
        let line = str::from_utf8(&out).unwrap();
        assert_eq!(
            line.find(|c: char| c.is_ascii_control()),
            Some(line.len() - 1),
            "{line:?}"
        );
    }
    true
}

/// Parses any value as every kind of value.
fn examine_values(value: &[u8], size: u64) {
    let size = size >> (size % 64);
    let inside = |range: &ByteRange| !range.is_empty() && range.end <= size;
    match Ranges::parse(value, size) {
        Ranges::Single(range) => assert!(inside(&range)),
        Ranges::Multiple(set) => {
            let set = set.as_slice();
            assert!(set.len() > 1 && set.iter().all(inside));
            for (index, one) in set.iter().enumerate() {
                assert!(
                    set[..index]
                        .iter()
                        .all(|two| one.end < two.start || two.end < one.start)
                );
            }
        }
        Ranges::None | Ranges::Unsatisfiable => {}
    }
    let etag = ETag::of_file(1, 2, 3, 4);
    let strong = etag::list_matches(value, Some(&etag), etag::Comparison::Strong);
    let weak = etag::list_matches(value, Some(&etag), etag::Comparison::Weak);
    assert!(weak || !strong);
    if let Some(seconds) = date::parse(value) {
        assert!(HttpDate::from_unix(seconds).is_some());
    }
    let _ = ContentType::of_path(value);

    let mut head = Output::default();
    ResponseHead::new(&mut head, Status::FOUND)
        .location(value)
        .finish();
    assert_eq!(head.fields().count(), 1);
    assert_eq!(head.bytes.iter().filter(|&&byte| byte == b'\n').count(), 3);
    let mut page = Vec::new();
    response::error_body(
        &mut page,
        Status::NOT_FOUND,
        &String::from_utf8_lossy(value),
    );
    assert_eq!(page.iter().filter(|&&byte| byte == b'<').count(), {
        let mut plain = Vec::new();
        response::error_body(&mut plain, Status::NOT_FOUND, "x");
        let paragraph = if value.is_empty() { 2 } else { 0 };
        plain.iter().filter(|&&byte| byte == b'<').count() - paragraph
    });
    examine_path(&format!("/{}", String::from_utf8_lossy(value)));
}

fn examine_path(path: &str) {
    let mut relative = Vec::new();
    let Ok(normal) = path::normalize(path, &mut relative) else {
        return;
    };
    assert!(!relative.contains(&0));
    if relative.is_empty() {
        assert!(normal.trailing_slash);
    } else {
        let mut components = relative.split(|&byte| byte == b'/');
        assert!(components.all(|name| !matches!(name, b"" | b"." | b"..")));
    }
    let mut location = Vec::new();
    path::encode(&relative, normal.trailing_slash, None, &mut location);
    assert!(location.iter().all(u8::is_ascii_graphic) && !location.starts_with(b"//"));
    let mut again = Vec::new();
    let location = String::from_utf8(location).unwrap();
    assert_eq!(path::normalize(&location, &mut again), Ok(normal));
    assert_eq!(again, relative);
}

/// Skipping in pieces and at once have the same result.
fn skip_body(framing: Framing, bytes: &[u8], random: &mut Random) {
    let Ok(mut whole) = BodySkip::new(framing, BodySkip::BYTES_MAX) else {
        return;
    };
    let mut pieces = whole.clone();
    let expected = whole.advance(bytes).map(|len| (len, whole.is_done()));
    let mut rest = bytes;
    let stepwise = loop {
        let piece = &rest[..rest.len().min(1 + random.below(4))];
        match pieces.advance(piece) {
            Err(rejection) => break Err(rejection),
            Ok(len) => rest = &rest[len..],
        }
        if rest.is_empty() || pieces.is_done() {
            break Ok((bytes.len() - rest.len(), pieces.is_done()));
        }
    };
    assert_eq!(stepwise, expected);
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(8) {
        0 => bytes[at] = random.byte(),
        1 => bytes[at] = *random.pick(INTERESTING),
        2 => bytes[at] ^= 1 << random.below(8),
        3 => bytes.insert(at, *random.pick(INTERESTING)),
        4 => drop(bytes.remove(at)),
        5 => bytes.truncate(at),
        6 => {
            let end = (at + random.below(20)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            let end = (at + random.below(20)).min(bytes.len());
            bytes.drain(at..end);
        }
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
