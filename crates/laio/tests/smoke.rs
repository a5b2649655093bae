use laio::*;
use std::time::Duration;
fn contexts() -> Vec<(String, Options)> {
    let mut v: Vec<_> = BackendKind::ALL
        .iter()
        .map(|k| (k.to_string(), Options::new().backend(*k)))
        .collect();
    v.push((
        "lazy-noring".into(),
        Options::new().backend(BackendKind::Lazy).without_ring(true),
    ));
    v
}
#[test]
fn pipe_and_file() {
    for (name, options) in contexts() {
        let mut c = Context::new(options).unwrap();
        eprintln!("{name} {c:?}");
        let mut p = [0i32; 2];
        unsafe { libc::pipe(p.as_mut_ptr()) };
        let mut buf = [0u8; 8];
        if name != "sync" {
            let o = unsafe {
                c.call(Call::new(
                    libc::SYS_read,
                    [p[0] as usize, buf.as_mut_ptr() as usize, 8],
                ))
            };
            let Outcome::Pending(h) = o else {
                panic!("{o:?}")
            };
            let w = p[1];
            let t = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                unsafe { libc::write(w, b"hello".as_ptr().cast(), 5) }
            });
            let mut done = vec![];
            assert_eq!(c.poll(&mut done, Some(Duration::from_secs(5))), Ok(1));
            assert_eq!(done[0].handle, h);
            assert_eq!(done[0].result, Ok(5));
            assert_eq!(&buf[..5], b"hello");
            t.join().unwrap();
            // pollable descriptor
            let fd = c.descriptor().unwrap().try_clone_to_owned().unwrap();
            let o = unsafe {
                c.call(Call::new(
                    libc::SYS_read,
                    [p[0] as usize, buf.as_mut_ptr() as usize, 8],
                ))
            };
            assert!(matches!(o, Outcome::Pending(_)));
            use std::os::fd::AsRawFd;
            let mut pf = libc::pollfd {
                fd: fd.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            while unsafe { libc::poll(&mut pf, 1, 0) } > 0 {
                c.poll(&mut done, Some(Duration::ZERO)).unwrap();
            }
            let t = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                unsafe { libc::write(w, b"again".as_ptr().cast(), 5) }
            });
            let t0 = std::time::Instant::now();
            assert_eq!(unsafe { libc::poll(&mut pf, 1, 3000) }, 1, "{name}");
            eprintln!("{name} polled {:?}", t0.elapsed());
            done.clear();
            let mut n = 0;
            for _ in 0..100 {
                n += c.poll(&mut done, Some(Duration::ZERO)).unwrap();
                if n > 0 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(n, 1);
            t.join().unwrap();
            // cancel
            let o = unsafe {
                c.call(Call::new(
                    libc::SYS_read,
                    [p[0] as usize, buf.as_mut_ptr() as usize, 8],
                ))
            };
            let Outcome::Pending(h) = o else { panic!() };
            c.cancel(h).unwrap();
            done.clear();
            assert_eq!(c.poll(&mut done, Some(Duration::from_secs(5))), Ok(1));
            assert_eq!(done[0].result, Err(Errno::CANCELED), "{name}");
        }
        let mut st: libc::stat = unsafe { std::mem::zeroed() };
        for call in [
            Call::new(libc::SYS_getpid, []),
            Call::new(
                libc::SYS_openat,
                [
                    libc::AT_FDCWD as usize,
                    c"/etc/passwd".as_ptr() as usize,
                    libc::O_RDONLY as usize,
                ],
            ),
            Call::new(
                libc::SYS_newfstatat,
                [
                    libc::AT_FDCWD as usize,
                    c"/etc/passwd".as_ptr() as usize,
                    (&raw mut st) as usize,
                    0,
                ],
            ),
            Call::new(
                libc::SYS_openat,
                [
                    libc::AT_FDCWD as usize,
                    c"/nonexistent".as_ptr() as usize,
                    libc::O_RDONLY as usize,
                ],
            ),
            Call::new(
                libc::SYS_faccessat,
                [libc::AT_FDCWD as usize, c"/etc/passwd".as_ptr() as usize, 4],
            ),
        ] {
            let o = unsafe { c.call(call) };
            let r = match o {
                Outcome::Done(r) => r,
                Outcome::Pending(_) => {
                    let mut d = vec![];
                    c.poll(&mut d, None).unwrap();
                    d[0].result
                }
            };
            eprintln!(
                "  {:?} {:?} {}",
                table::row(call.number).name,
                r,
                matches!(o, Outcome::Pending(_))
            );
        }
        assert!(st.st_size > 0);
        eprintln!("  memory {} stats {:?}", c.memory(), c.stats().total());
    }
}
