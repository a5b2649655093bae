// The segments that lenient servers and programs read in a path, written independently of the guard's code: this
// model uses lists of segments and loops over habits; the guard rewrites whole paths until nothing new appears. A test
// and a fuzz target include it.

/// The habits of one kind of reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// How often it decodes.
    decodes: usize,
    /// Whether it cuts off parameters: never, before decoding, or after.
    parameters: usize,
    /// Whether a backslash is a slash.
    backslashes: bool,
    /// Whether it finds a query in a decoded path.
    queries: bool,
    /// Whether it removes dots, spaces and a stream name at the end of a name.
    trims: bool,
    /// Whether several slashes are one.
    merges: bool,
}

impl Habits {
    pub(crate) fn all() -> impl Iterator<Item = Habits> {
        (0..3 * 3 * 16).map(|number| Habits {
            decodes: number % 3,
            parameters: number / 3 % 3,
            backslashes: (number / 9) & 1 != 0,
            queries: (number / 9) & 2 != 0,
            trims: (number / 9) & 4 != 0,
            merges: (number / 9) & 8 != 0,
        })
    }

    /// Whether it differs from other readers only if something is encoded.
    fn needs_escapes(self) -> bool {
        self.decodes > 0 || self.backslashes || self.queries || self.parameters == 2
    }

    /// The segments that such a reader arrives at; `None` if it would leave the root.
    pub(crate) fn read(self, path: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut path = path.to_vec();
        if self.parameters == 1 {
            path = without_parameters(&path);
        }
        for _ in 0..self.decodes {
            path = decoded(&path);
        }
        if self.queries {
            path.truncate(path.iter().position(|b| matches!(b, b'?' | b'#')).unwrap_or(path.len()));
        }
        if self.backslashes {
            path.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        }
        if self.parameters == 2 {
            path = without_parameters(&path);
        }
        let mut segments: Vec<Vec<u8>> = Vec::new();
        for segment in path.strip_prefix(b"/").unwrap_or(&path).split(|&byte| byte == b'/') {
            let mut name = segment.to_ascii_lowercase();
            // Some readers check for dots first, others after removing the spaces.
            if self.trims && name != b"." && name != b".." {
                name.truncate(name.iter().position(|&byte| byte == b':').unwrap_or(name.len()));
                while name.last().is_some_and(|byte| *byte <= b' ') {
                    name.pop();
                }
                while name != b".." && name != b"." && matches!(name.last(), Some(b'.' | b' ')) {
                    name.pop();
                }
            }
            match &name[..] {
                b"" if self.merges || self.trims => {}
                b"." => {}
                b".." => drop(segments.pop()?),
                _ => segments.push(name),
            }
        }
        Some(segments)
    }
}

/// Like a framework that takes the last extension for the format of its response.
fn without_format(names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut names = names.to_vec();
    if let Some(last) = names.last_mut() {
        last.truncate(last.iter().rposition(|&byte| byte == b'.').unwrap_or(last.len()));
    }
    names
}

fn without_parameters(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/');
    let names = names.map(|name| name.split(|&byte| byte == b';').next().unwrap_or(name));
    names.collect::<Vec<_>>().join(&b'/')
}

fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = path.iter().copied();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                bytes = ahead;
            }
            _ => out.push(byte),
        }
    }
    out
}

/// A rule of access, in terms that this model can evaluate: a directory, a file, or an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Below(&'static [&'static str]),
    File(&'static [&'static str]),
    Ending(&'static str),
}

impl Rule {
    pub(crate) fn pattern(self) -> String {
        match self {
            Rule::Below(names) => format!("/{}/**", names.join("/")),
            Rule::File(names) => format!("/{}", names.join("/")),
            Rule::Ending(end) => format!("*{end}"),
        }
    }

    /// Whether the rule applies to these names, which are in lower case.
    pub(crate) fn guards(self, names: &[Vec<u8>]) -> bool {
        let is = |rule: &[&str], names: &[Vec<u8>]| {
            rule.len() == names.len() && rule.iter().zip(names).all(|(a, b)| a.as_bytes() == b)
        };
        match self {
            Rule::Below(rule) => names.get(..rule.len()).is_some_and(|names| is(rule, names)),
            Rule::File(rule) => is(rule, names),
            Rule::Ending(end) => names.last().is_some_and(|name| name.ends_with(end.as_bytes())),
        }
    }

    /// Whether the rule applies to these names, or to the first of them.
    pub(crate) fn guards_part(self, names: &[Vec<u8>]) -> bool {
        (0..=names.len()).any(|count| self.guards(&names[..count]))
    }
}

pub(crate) const RULES: [Rule; 4] = [
    Rule::Below(&["admin"]),
    Rule::Below(&["app", "admin"]),
    Rule::File(&["strip", "b"]),
    Rule::Ending(".php"),
];

/// A guard with one rule.
pub(crate) struct Judge {
    rule: Rule,
    guard: laio_http::Guard,
}

impl Judge {
    pub(crate) fn new(rule: Rule) -> Judge {
        let pattern = rule.pattern();
        let guard = laio_http::Guard::new([pattern.as_str()]).expect("a pattern");
        Judge { rule, guard }
    }
}

/// Checks one target with a guard. `None`: the target is refused. `Some`: whether it is guarded as a file and for an
/// upstream.
///
/// # Panics
///
/// If a reader would find a guarded path, and the guard did not guard it.
pub(crate) fn judge(target: &str, judge: &Judge) -> Option<(bool, bool)> {
    use laio_http::{Limits, Mount, Parsed, parse};
    let (rule, guard) = (judge.rule, &judge.guard);
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let Ok(Parsed::Complete { request, .. }) = parse(head.as_bytes(), &Limits::DEFAULT) else {
        return None;
    };
    let Ok(path) = &request.path else { return None };
    let pattern = rule.pattern();
    let of_file = guard.guards_file(path);
    let of_upstream = guard.guards_upstream(path);
    let must = |guarded: bool, what: &str, came_out: &[u8], habits: Habits| {
        let came_out = String::from_utf8_lossy(came_out);
        assert!(guarded, "{target:?} under {pattern}: {what} {came_out:?} is guarded for {habits:?}");
    };

    let mut name = Vec::new();
    let has_file = path.file_name(&mut name).is_ok();
    let whole = Mount::new("/", None).expect("a prefix");
    let strip = Mount::new("/strip", Some("/v1")).expect("a prefix");
    let top = Mount::new("/strip", Some("/")).expect("a prefix");
    let there = top.upstream_path(path);
    assert!(!there.starts_with("//"), "{target:?}: {there:?} names a host to some readers");
    let app = Mount::new("/app", None).expect("a prefix");
    let app_info = app.rest(path).map(|_| app.program(path).path_info());
    let app_guarded = guard.guards_program(path, &app);
    let program = whole.program(path);
    let guarded_program = guard.guards_program(path, &whole);
    let (script, info) = (program.script_name(), program.path_info());
    let (uri, file) = (program.document_uri(), program.file());
    assert_eq!([&script[..], &info[..]].concat(), uri);
    let passed = whole.upstream_path(path);
    assert_eq!(passed, program.request_uri(None));
    let escapes = path.as_str().contains('%');
    for habits in Habits::all().filter(|habits| escapes || !habits.needs_escapes()) {
        if habits.decodes == 0 && has_file {
            let names = habits.read(&name);
            let shown = String::from_utf8_lossy(&name);
            let names = names.unwrap_or_else(|| panic!("{target:?}: the file {shown:?} leaves the root for {habits:?}"));
            assert!(!rule.guards(&names) || of_file, "{target:?} under {pattern}: the file {shown:?}");
        }
        let names = habits.read(passed.as_bytes());
        let names = names.unwrap_or_else(|| panic!("{target:?}: {passed:?} leaves the root"));
        let format = without_format(&names);
        if rule.guards_part(&names) || rule.guards_part(&format) {
            must(of_upstream && guarded_program, "the upstream's path", passed.as_bytes(), habits);
        }
        if strip.rest(path).is_some() {
            let there = strip.upstream_path(path);
            let names = habits.read(there.as_bytes()).unwrap_or_default();
            let rest = names.strip_prefix(&[b"v1".to_vec()]);
            let rest = rest.unwrap_or_else(|| panic!("{target:?}: {there:?} leaves /v1 for {habits:?}"));
            let names = [&[b"strip".to_vec()], rest].concat();
            if rule.guards_part(&names) {
                must(of_upstream, "the path there", there.as_bytes(), habits);
            }
        }
        if habits.decodes > 1 {
            continue;
        }
        if let Some(info) = &app_info {
            let names = habits.read(info);
            let names = names.unwrap_or_else(|| panic!("{target:?}: PATH_INFO {info:?} leaves the root"));
            if rule.guards_part(&names) {
                must(app_guarded, "PATH_INFO below /app", info, habits);
            }
        }
        for (what, text) in [("the program", &script), ("PATH_INFO", &info), ("the file", &file)] {
            if text.is_empty() {
                continue;
            }
            let names = habits.read(text);
            let names = names.unwrap_or_else(|| panic!("{target:?}: {what} {text:?} leaves the root"));
            if rule.guards_part(&names) {
                must(guarded_program, what, text, habits);
            }
        }
    }
    Some((of_file, of_upstream))
}

/// The parts of random targets: guarded names, and all constructs that readers interpret differently.
pub(crate) const PIECES: [&str; 57] = [
    ".json",
    "/", "/", "/", "/", "/", "//", "admin", "admin", "Admin", "%61dmin", "%2561dmin", "app", "app", "strip", "b",
    "users", "x", "a.php", "a.php/", "A.PHP", "a%2ephp", ".", "..", "/..", "/../", "/./", "...", "%2e", "%2E%2e",
    "%2f", "%2F", "%5c", "\\", "%252e", "%252f", "%25", "%2525", ";", ";x=1", "..;", "%3b", "%3f", "%23", "%20",
    "%20", "%0a", ":", "::$DATA", "+", "%c0%af", "%c0%ae", "é", "%c3%a9", "%00", "(S(x))", "v1",
];
