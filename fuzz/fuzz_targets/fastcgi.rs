#![no_main]
//! Fuzzes the records of a FastCGI responder.

use laio_http::fastcgi::{self, BadRecord, CONTENT_MAX, END_REQUEST, Event, HEAD, Head, REQUEST, Records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (step, bytes) = input;
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(whole, read(bytes, usize::from(step).max(1)), "the split");
    if let Ok((output, said, done, used)) = whole {
        assert!(output.len() + said.len() + usize::from(done) * 2 * HEAD <= used);
        assert!(done || used == bytes.len());
        if done {
            assert_eq!(plainly(&bytes[..used]), Some((output, said)), "two readers see different answers");
        }
    }
    if let Some(params) = fastcgi::params(bytes) {
        let mut again = Vec::new();
        params.iter().for_each(|(name, value)| fastcgi::push_param(&mut again, name, value));
        assert_eq!(fastcgi::params(&again), Some(params));
    }
    let mut out = Vec::new();
    fastcgi::push_stream(&mut out, fastcgi::STDOUT, bytes);
    assert_eq!(out.len(), bytes.len() + bytes.len().div_ceil(CONTENT_MAX) * HEAD);
    assert_eq!(read(&out, usize::from(step).max(1)).map(|read| read.0), Ok(bytes.to_vec()));
});

fn read(bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>, bool, usize), BadRecord> {
    let (mut records, mut output, mut said, mut used) = (Records::new(), vec![], vec![], 0);
    for part in bytes.chunks(step) {
        used += records.advance(part, |event| match event {
            Event::Output(piece) => output.extend_from_slice(piece),
            Event::Error(piece) => said.extend_from_slice(piece),
        })?;
    }
    Ok((output, said, records.is_done(), used))
}

/// Reads record by record from bytes that end with the request.
fn plainly(mut bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut output, mut said) = (vec![], vec![]);
    loop {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let head = Head::parse(*head).ok()?;
        let (content, rest) = rest.split_at_checked(usize::from(head.content))?;
        bytes = rest.get(usize::from(head.padding)..)?;
        match (head.request, head.kind) {
            (REQUEST, fastcgi::STDOUT) => output.extend_from_slice(content),
            (REQUEST, fastcgi::STDERR) => said.extend_from_slice(content),
            (REQUEST, END_REQUEST) => return bytes.is_empty().then_some((output, said)),
            _ => {}
        }
    }
}
