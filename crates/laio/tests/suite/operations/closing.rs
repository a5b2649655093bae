//! Rule 5: closing a descriptor in use, and closing undelivered descriptors.

use crate::harness::*;
use laio::ops::Accept;
use laio::{Outcome, PollOptions};
use laio_testing::{child, process, test_name};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::time::Duration;

const CHILD_LIMIT: Duration = Duration::from_secs(360);

fn connected(count: usize) -> (Rc<TcpListener>, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let clients = (0..count).map(|_| TcpStream::connect(address).expect("a connection"));
    (Rc::new(listener), clients.collect())
}

/// A cancelled `accept` that has been woken may still take the connection from the kernel's queue: the context must
/// not close it.
#[test]
fn a_cancelled_accept_loses_no_connection() {
    for_each_pending(|way| {
        let mut context = way.context();
        for wait in [false, true] {
            let (listener, _) = connected(0);
            let address = listener.local_addr().expect("its address");
            let Outcome::Pending(ticket) = context.submit(Accept::new(listener.clone())) else {
                panic!("accepted without a client");
            };
            context.flush().expect("flush");
            let mut client = TcpStream::connect(address).expect("a connection");
            if wait {
                // Gives helpers the time to reach `accept`.
                std::thread::yield_now();
            }
            let _ = context.cancel(ticket.handle());
            collect(&mut context, 1);
            let mut server = match context.take(ticket).expect("delivered") {
                Ok((socket, _)) => TcpStream::from(socket),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
                    listener.accept().expect("it is in the queue still").0
                }
            };
            server.write_all(b"a").expect("the client is there");
            client.read_exact(&mut [0]).expect("it was not cut off");
        }
    });
}

#[test]
fn undelivered_descriptors_are_closed() {
    child::check(CHILD_LIMIT, test_name!(), "", || {
        for_each_pending(|way| {
            let before = process::fd_count();
            for deliver in [false, true] {
                let (listener, clients) = connected(3);
                let mut context = way.context();
                let mut tickets = Vec::new();
                let mut done = Vec::new();
                for _ in 0..4 {
                    match context.submit(Accept::new(listener.clone())) {
                        Outcome::Pending(ticket) => tickets.push(ticket),
                        Outcome::Done(output) => done.push(output.expect("a connection")),
                    }
                }
                let wanted = if deliver { 1 } else { 0 };
                let mut delivered = 0;
                while delivered < wanted {
                    let count = context.poll_with(
                        PollOptions {
                            timeout: Some(LIMIT),
                            most: 1,
                            ..PollOptions::default()
                        },
                        |_| (),
                    );
                    delivered += count.expect("poll");
                }
                std::thread::sleep(Duration::from_millis(1));
                // Some are undelivered or not taken; one is abandoned.
                if let Some(ticket) = tickets.pop() {
                    context.abandon(ticket);
                }
                drop(context);
                drop((tickets, done, listener, clients));
            }
            assert_eq!(process::fd_count(), before);
        });
    });
}
