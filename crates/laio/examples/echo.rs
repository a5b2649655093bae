//! Sends back what each client sends, on an event loop of its own: `echo 127.0.0.1:7000`.
//!
//! User data of an operation is the number of its connection, and 0 for the listening socket.

use laio::ops::{Accept, Recv, Send};
use laio::{Context, Options, Outcome, Ticket};
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::rc::Rc;

type Socket = Rc<OwnedFd>;

/// What a connection waits for. Dropping it cancels the operation.
enum Connection {
    Receiving(Ticket<Recv<Socket, Vec<u8>>>),
    Sending(Ticket<Send<Socket, Vec<u8>>>),
}

struct Server {
    context: Context,
    connections: HashMap<u64, (Socket, Connection)>,
    accepted: u64,
}

impl Server {
    /// Receives and sends until an operation is pending, or the client is gone.
    fn serve(&mut self, number: u64, socket: Socket, mut buffer: Vec<u8>) {
        loop {
            buffer.clear();
            let receive = Recv::new(socket.clone(), buffer);
            buffer = match self.context.submit_with(receive, number) {
                Outcome::Done((Ok(1..), received)) => received,
                Outcome::Done(_) => return,
                Outcome::Pending(ticket) => {
                    let waiting = Connection::Receiving(ticket);
                    self.connections.insert(number, (socket, waiting));
                    return;
                }
            };
            match self.send(number, socket.clone(), buffer) {
                Some(sent) => buffer = sent,
                None => return,
            }
        }
    }

    /// Returns the buffer if all of it was sent at once.
    fn send(&mut self, number: u64, socket: Socket, buffer: Vec<u8>) -> Option<Vec<u8>> {
        let send = Send::new(socket.clone(), buffer);
        match self.context.submit_with(send, number) {
            Outcome::Done((result, sent)) => result.is_ok().then_some(sent),
            Outcome::Pending(ticket) => {
                let waiting = Connection::Sending(ticket);
                self.connections.insert(number, (socket, waiting));
                None
            }
        }
    }

    /// Continues the connection whose operation has finished.
    fn resume(&mut self, number: u64) {
        let Some((socket, waiting)) = self.connections.remove(&number) else {
            return;
        };
        let buffer = match waiting {
            Connection::Receiving(ticket) => match self.context.take(ticket) {
                Ok((Ok(1..), received)) => self.send(number, socket.clone(), received),
                _ => None,
            },
            Connection::Sending(ticket) => match self.context.take(ticket) {
                Ok((Ok(_), sent)) => Some(sent),
                _ => None,
            },
        };
        if let Some(buffer) = buffer {
            self.serve(number, socket, buffer);
        }
    }

    /// Accepts clients until none is waiting. Returns the operation that waits for the next.
    fn accept(&mut self, listener: &Socket) -> Ticket<Accept<Socket>> {
        loop {
            match self.context.submit_with(Accept::new(listener.clone()), 0) {
                Outcome::Pending(ticket) => return ticket,
                Outcome::Done(accepted) => self.begin(accepted.map(|(socket, _)| socket)),
            }
        }
    }

    fn begin(&mut self, accepted: io::Result<OwnedFd>) {
        match accepted {
            Ok(socket) => {
                self.accepted += 1;
                self.serve(
                    self.accepted,
                    Rc::new(socket),
                    Vec::with_capacity(16 * 1024),
                );
            }
            Err(error) => eprintln!("accept: {error}"),
        }
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:7000"))?;
    println!("listening at {}", listener.local_addr()?);
    let listener = Rc::new(OwnedFd::from(listener));
    let mut server = Server {
        context: Context::new(Options::new())?,
        connections: HashMap::new(),
        accepted: 0,
    };
    let mut next = server.accept(&listener);
    let mut completions = Vec::new();
    loop {
        server.context.poll(&mut completions, None)?;
        for completion in completions.drain(..) {
            if completion.user_data != 0 {
                server.resume(completion.user_data);
                continue;
            }
            let accepted = server.context.take(next).expect("its completion is here");
            server.begin(accepted.map(|(socket, _)| socket));
            next = server.accept(&listener);
        }
    }
}
