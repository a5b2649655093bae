//! Which part of the background makes a call; `docs/system-calls.md` has the table.

use crate::harness::*;
use laio::{BackendKind, Context, Options};
use laio_testing::temp::stream_pair;

#[test]
fn a_ring_connects_and_receives_without_a_helper() {
    for kind in [BackendKind::Lazy, BackendKind::Uring] {
        // With settled rights no call goes to a one-shot thread, which would have ended by then.
        let options = Options::new().backend(kind).rights(laio::Rights::Settled);
        let mut context = match Context::new(options) {
            Ok(context) if context.info().has_ring() => context,
            _ => return laio_testing::skip("io_uring", "no ring"),
        };
        let listener = lonely_listener();
        let address = tcp_address(&listener);
        let stream = libc::SOCK_STREAM as usize;
        let client = own(plain(libc::SYS_socket, [libc::AF_INET as usize, stream, 0]));
        let args = [client.arg(), at(&address), size_of_val(&address)];
        assert_eq!(call(&mut context, libc::SYS_connect, args), Ok(0));
        let (near, far) = stream_pair();
        let mut byte = [0_u8];
        let args = [near.arg(), at_mut(&mut byte), 1, 0, 0, 0];
        let handle = pending(&mut context, libc::SYS_recvfrom, args);
        assert_eq!(rustix::io::write(&far, b"x"), Ok(1));
        assert_eq!(wait_for(&mut context, handle).result, Ok(1));
        assert_eq!(context.info().helper_threads(), 0, "{kind}");
    }
}
