//! Rule 1, results are those of the plain call: transfers between descriptors.

use super::results_files::digest;
use crate::harness::{Arg, Sys, at, at_mut, iovec};
use laio_testing::or_skip;
use laio_testing::temp::{drain, pattern, pipe, pipe_of, stream_pair};

scenarios! {
    about_files: true;
    transfers_between_files,
    transfers_between_pipes,
}

fn transfers_between_files(sys: &mut Sys<'_>) {
    let contents = pattern(10_000, 8);
    let from = sys.file("from", &contents);
    let to = sys.file("to", b"");
    let (reader, writer) = pipe();
    let (a, b) = stream_pair();
    let mut offset = 100i64;
    same!(sys, "sendfile to a file" => SYS_sendfile [to.arg(), from.arg(), at_mut(&mut offset), 500]);
    sys.note("offset", offset);
    same!(sys, "sendfile at the position" => SYS_sendfile [to.arg(), from.arg(), 0, 500]);
    same!(sys, "sendfile to a pipe" => SYS_sendfile [writer.arg(), from.arg(), 0, 600]);
    sys.note("arrived", digest(&drain(&reader)));
    same!(sys, "sendfile to a socket" => SYS_sendfile [a.arg(), from.arg(), 0, 700]);
    sys.note("arrived", digest(&drain(&b)));
    offset = 9_900;
    same!(sys, "sendfile over the end" => SYS_sendfile [to.arg(), from.arg(), at_mut(&mut offset), 500]);
    same!(sys, "sendfile at the end" => SYS_sendfile [to.arg(), from.arg(), at_mut(&mut offset), 500]);
    same!(sys, "sendfile from a pipe" => SYS_sendfile [to.arg(), reader.arg(), at_mut(&mut offset), 500]);
    same!(sys, "sendfile from a bad place" => SYS_sendfile [to.arg(), from.arg(), 1, 500]);
    let (mut from_at, mut to_at) = (50i64, 3_000i64);
    let copy = libc::SYS_copy_file_range;
    let both = [
        from.arg(),
        at_mut(&mut from_at),
        to.arg(),
        at_mut(&mut to_at),
        4_000,
        0,
    ];
    let _ = sys.check("copy_file_range", copy, both);
    sys.note("offsets", (from_at, to_at));
    let _ = sys.check(
        "copy_file_range at the positions",
        copy,
        [from.arg(), 0, to.arg(), 0, 400, 0],
    );
    from_at = 100_000;
    let beyond = [
        from.arg(),
        at_mut(&mut from_at),
        to.arg(),
        at_mut(&mut to_at),
        4_000,
        0,
    ];
    let _ = sys.check("copy_file_range at the end", copy, beyond);
    (from_at, to_at) = (0, 10);
    let _ = sys.check(
        "copy_file_range onto itself",
        copy,
        [
            from.arg(),
            at_mut(&mut from_at),
            from.arg(),
            at_mut(&mut to_at),
            400,
            0,
        ],
    );
    let _ = sys.check(
        "copy_file_range, unknown",
        copy,
        [from.arg(), 0, to.arg(), 0, 400, 99],
    );
    let _ = sys.check(
        "copy_file_range to a pipe",
        copy,
        [from.arg(), 0, writer.arg(), 0, 400, 0],
    );
    for (what, file) in [("from", &from), ("to", &to)] {
        sys.note(what, digest(&std::fs::read(sys.dir.join(what)).unwrap()));
        same!(sys, "position" => SYS_lseek [file.arg(), 0, libc::SEEK_CUR as usize]);
    }
}

fn transfers_between_pipes(sys: &mut Sys<'_>) {
    let contents = pattern(5_000, 9);
    let file = sys.file("file", &contents);
    // Each spliced part takes a page.
    let pipes = pipe_of(64 << 10).and_then(|one| Ok((one, pipe_of(64 << 10)?)));
    let Some(((reader, writer), (other_reader, other_writer))) = or_skip(pipes) else {
        return;
    };
    let (a, b) = stream_pair();
    let splice = libc::SYS_splice;
    let mut offset = 100i64;
    let _ = sys.check(
        "file to pipe",
        splice,
        [file.arg(), at_mut(&mut offset), writer.arg(), 0, 2_000, 0],
    );
    sys.note("offset", offset);
    let _ = sys.check(
        "file to pipe at the position",
        splice,
        [file.arg(), 0, writer.arg(), 0, 1_000, 0],
    );
    same!(sys, "tee" => SYS_tee [reader.arg(), other_writer.arg(), 2_500, 0]);
    sys.note("arrived", digest(&drain(&other_reader)));
    let _ = sys.check(
        "pipe to pipe",
        splice,
        [reader.arg(), 0, other_writer.arg(), 0, 1_500, 0],
    );
    sys.note("arrived", digest(&drain(&other_reader)));
    let _ = sys.check(
        "pipe to socket",
        splice,
        [reader.arg(), 0, a.arg(), 0, 500, 0],
    );
    sys.note("arrived", digest(&drain(&b)));
    offset = 4_990;
    let _ = sys.check(
        "pipe to file",
        splice,
        [reader.arg(), 0, file.arg(), at_mut(&mut offset), 500, 0],
    );
    sys.note("offset", offset);
    rustix::io::write(&a, b"from a socket").unwrap();
    let _ = sys.check(
        "socket to pipe",
        splice,
        [b.arg(), 0, writer.arg(), 0, 500, 0],
    );
    sys.note("arrived", digest(&drain(&reader)));
    let _ = sys.check(
        "file to file",
        splice,
        [file.arg(), 0, file.arg(), 0, 500, 0],
    );
    let _ = sys.check(
        "a place in a pipe",
        splice,
        [reader.arg(), at_mut(&mut offset), file.arg(), 0, 5, 0],
    );
    let _ = sys.check(
        "onto itself",
        splice,
        [reader.arg(), 0, writer.arg(), 0, 5, 0],
    );
    offset = 100_000;
    let _ = sys.check(
        "at the end",
        splice,
        [file.arg(), at_mut(&mut offset), writer.arg(), 0, 5, 0],
    );
    let _ = sys.check("nothing", splice, [file.arg(), 0, writer.arg(), 0, 0, 0]);
    same!(sys, "tee of a file" => SYS_tee [file.arg(), writer.arg(), 5, 0]);
    let vector = [iovec(&contents[..700]), iovec(&contents[..50])];
    same!(sys, "vmsplice" => SYS_vmsplice [writer.arg(), at(&vector), 2, 0]);
    sys.note("arrived", digest(&drain(&reader)));
    drop(writer);
    let _ = sys.check(
        "the end of a pipe",
        splice,
        [reader.arg(), 0, other_writer.arg(), 0, 5, 0],
    );
    same!(sys, "tee of the end" => SYS_tee [reader.arg(), other_writer.arg(), 5, 0]);
    sys.note(
        "the file",
        digest(&std::fs::read(sys.dir.join("file")).unwrap()),
    );
}
