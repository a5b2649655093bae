//! The standard streams and streams of any kind: pipes, terminals, files. Each test runs in a process of its
//! own, whose standard streams are what is tested.

use crate::support::{directory, each_runtime};
use laio_testing::process::replace_stream;
use laio_testing::temp::{pattern, terminal};
use laio_testing::{child, or_skip, test_name};
use laio_tokio::io::{Stream, stderr, stdin, stdout};
use std::future::Future;
use std::io::{Read, Write};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn input_from_a_pipe_arrives_although_handles_are_dropped() {
    child::check(LIMIT, test_name!(), "", || {
        let (from, to) = laio_testing::temp::pipe();
        replace_stream(0, from);
        let text = pattern(200_000, 12);
        let sent = text.clone();
        let writer = std::thread::spawn(move || {
            let mut to = std::fs::File::from(to);
            for piece in sent.chunks(700) {
                to.write_all(piece).unwrap();
            }
        });
        let [first, second] = each_runtime();
        let mut found = Vec::new();
        // Half of it in one runtime, which ends while a read may be in flight, the rest in another one.
        for (runtime, until) in [(first, text.len() / 2), (second, usize::MAX)] {
            runtime.block_on(async {
                while found.len() < until {
                    let mut buffer = [0; 999];
                    let mut handle = stdin();
                    let mut read = std::pin::pin!(handle.read(&mut buffer));
                    let polled = std::future::poll_fn(|context| {
                        Poll::Ready(match read.as_mut().poll(context) {
                            Poll::Ready(count) => Some(count.unwrap()),
                            Poll::Pending => None,
                        })
                    });
                    match polled.await {
                        Some(0) => break,
                        Some(count) => found.extend_from_slice(&buffer[..count]),
                        None => tokio::task::yield_now().await,
                    }
                }
            });
        }
        writer.join().unwrap();
        assert!(found == text, "{} of {}", found.len(), text.len());
    });
}

#[test]
fn a_runtime_does_not_wait_for_a_line() {
    child::check(LIMIT, test_name!(), "", || {
        let (from, _to) = laio_testing::temp::pipe();
        replace_stream(0, from);
        for runtime in each_runtime() {
            runtime.spawn(async { stdin().read_u8().await });
            runtime.block_on(tokio::task::yield_now());
            laio_testing::limit::within(LIMIT, move || drop(runtime));
        }
    });
}

#[test]
fn several_tasks_share_the_input() {
    child::check(LIMIT, test_name!(), "", || {
        let (from, to) = laio_testing::temp::pipe();
        replace_stream(0, from);
        let mut to = std::fs::File::from(to);
        for runtime in each_runtime() {
            let count = 5;
            let readers: Vec<_> = (0..count)
                .map(|_| runtime.spawn(async { stdin().read_u8().await.unwrap() }))
                .collect();
            runtime.block_on(async {
                for number in 0..count {
                    tokio::task::yield_now().await;
                    to.write_all(&[number]).unwrap();
                }
                let mut found = Vec::new();
                for reader in readers {
                    found.push(reader.await.unwrap());
                }
                found.sort_unstable();
                assert!(found.into_iter().eq(0..count));
            });
        }
    });
}

#[test]
fn output_goes_to_a_pipe() {
    child::check(LIMIT, test_name!(), "", || {
        let (from, to) = laio_testing::temp::pipe();
        let before = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 0).unwrap();
        replace_stream(1, &to);
        replace_stream(2, &to);
        let text = pattern(300_000, 13);
        let length = text.len() + END.len();
        let reader = std::thread::spawn(move || {
            let mut found = vec![0; length];
            std::fs::File::from(from).read_exact(&mut found).unwrap();
            found
        });
        say(&text);
        let found = reader.join().unwrap();
        assert!(found[..text.len()] == text && found.ends_with(END));
        replace_stream(1, before);
    });
}

#[test]
fn output_goes_to_a_file() {
    child::check(LIMIT, test_name!(), "", || {
        let (_kept, at) = directory();
        let text = pattern(300_000, 13);
        let file = std::fs::File::create(at.join("file")).unwrap();
        let before = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 0).unwrap();
        replace_stream(1, &file);
        replace_stream(2, &file);
        say(&text);
        replace_stream(1, before);
        let found = std::fs::read(at.join("file")).unwrap();
        assert!(found[..text.len()] == text && found.ends_with(END));
    });
}

const END: &[u8] = b"the end";

fn say(text: &[u8]) {
    let [runtime, _] = each_runtime();
    runtime.block_on(async {
        stdout().write_all(text).await.unwrap();
        stdout().flush().await.unwrap();
        stderr().write_all(END).await.unwrap();
        stderr().flush().await.unwrap();
    });
}

#[test]
fn input_from_a_file_ends() {
    child::check(LIMIT, test_name!(), "", || {
        let (_kept, at) = directory();
        let text = pattern(100_000, 14);
        std::fs::write(at.join("file"), &text).unwrap();
        replace_stream(0, std::fs::File::open(at.join("file")).unwrap());
        let [runtime, _] = each_runtime();
        let mut found = Vec::new();
        runtime.block_on(stdin().read_to_end(&mut found)).unwrap();
        assert!(found == text);
    });
}

#[test]
fn a_closed_input_is_at_its_end() {
    child::check(LIMIT, test_name!(), "", || {
        replace_stream(0, std::fs::File::open("/dev/null").unwrap());
        let [runtime, _] = each_runtime();
        let mut found = Vec::new();
        runtime.block_on(stdin().read_to_end(&mut found)).unwrap();
        assert!(found.is_empty());
    });
}

/// A terminal waits for a line, and a read and a write wait at the same time.
#[test]
fn terminals_are_read_and_written() {
    if or_skip(terminal()).is_none() {
        return;
    }
    for runtime in each_runtime() {
        let (master, slave) = terminal().unwrap();
        runtime.block_on(async move {
            let mut person = Stream::from(master);
            let mut program = Stream::from(slave);
            let reader = tokio::spawn(async move {
                let mut line = [0; 100];
                let count = program.read(&mut line).await.unwrap();
                (program, line[..count].to_vec())
            });
            for piece in ["some", " text", "\n"] {
                tokio::task::yield_now().await;
                person.write_all(piece.as_bytes()).await.unwrap();
                person.flush().await.unwrap();
            }
            let (mut program, line) = reader.await.unwrap();
            assert_eq!(line, b"some text\n", "a whole line");

            // The echo, and then what the program says, while the program waits for the next line.
            let mut first = [0; 100];
            {
                let mut waits = std::pin::pin!(program.read(&mut first));
                std::future::poll_fn(|context| {
                    assert!(waits.as_mut().poll(context).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            program.write_all(b"prompt> ").await.unwrap();
            program.flush().await.unwrap();
            let expected = b"some text\r\nprompt> ";
            let mut shown = vec![0; expected.len()];
            person.read_exact(&mut shown).await.unwrap();
            assert_eq!(shown, expected);
            person.write_all(b"next\n").await.unwrap();
            person.flush().await.unwrap();
            let count = program.read(&mut first).await.unwrap();
            assert_eq!(
                &first[..count],
                b"next\n",
                "the read that was dropped lost nothing"
            );
        });
    }
}

/// The end of a terminal is what a plain read returns.
#[test]
fn a_terminal_that_hangs_up_ends_a_read() {
    let Some((master, slave)) = or_skip(terminal()) else {
        return;
    };
    let [runtime, _] = each_runtime();
    drop(slave);
    let mut master = Stream::from(master);
    let mut buffer = [0; 10];
    let error = runtime.block_on(master.read(&mut buffer)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
}
