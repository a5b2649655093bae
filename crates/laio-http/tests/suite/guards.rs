//! No path bypasses a guard, whatever its spelling and its reader.

use laio_http::{Guard, Mount, RequestPath};

/// A separate model of how lenient readers interpret a path.
mod model {
    include!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/models/lenient.rs"
    ));
}

use model::{Judge, PIECES, RULES, judge};

/// Xorshift: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn target(&mut self) -> String {
        let mut target = match self.below(16) {
            0 => "http://host/",
            1 => "HTTPS://host:1//",
            _ => "/",
        }
        .to_owned();
        if self.below(2) == 0 {
            let names = [
                "admin",
                "app/admin",
                "strip/b",
                "a.php",
                "strip/",
                "x/a.php/",
                "app/",
            ];
            target.push_str(names[self.below(names.len())]);
        }
        for _ in 0..self.below(9) {
            target.push_str(PIECES[self.below(PIECES.len())]);
        }
        target
    }
}

#[test]
fn no_reading_of_a_random_target_bypasses_the_guard() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let judges = RULES.map(Judge::new);
    let (mut refused, mut guarded, mut open) = (0, 0, 0);
    for _ in 0..20_000 {
        let target = random.target();
        match judge(&target, &judges[random.below(judges.len())]) {
            None => refused += 1,
            Some((false, false)) => open += 1,
            Some(_) => guarded += 1,
        }
    }
    // The property must not hold vacuously.
    assert!(
        refused > 2000 && guarded > 1000 && open > 2000,
        "{refused} refused, {guarded} guarded, {open} open"
    );
}

/// Paths that once bypassed a guard, and similar ones.
#[test]
fn known_ways_past_a_guard_are_refused_or_guarded() {
    for (pattern, target) in [
        ("/admin/**", "/admin"),
        ("/admin/**", "/admin/"),
        ("/admin/**", "/admin/a.php/..%2f..%2fx"),
        ("/app/admin/**", "/app/admin/..%2fx"),
        ("/app/admin/**", "/app/admin/users%2f..%2f..%2fx"),
        ("/strip/**", "/strip/..%2fb"),
        ("/admin/**", "//admin"),
        ("/admin/**", "///admin//x"),
        ("/admin/**", "/./admin"),
        ("/admin/**", "/x/../admin"),
        ("/admin/**", "/x/%2e%2e/admin"),
        ("/admin/**", "/%61dmin"),
        ("/admin/**", "/%2561dmin"),
        ("/admin/**", "/admin%2fa"),
        ("/admin/**", "/admin%5ca"),
        ("/admin/**", "/admin\\a"),
        ("/admin/**", "/admin%252fa"),
        ("/admin/**", "/x/..;/admin"),
        ("/admin/**", "/x/..;a=b/admin"),
        ("/admin/**", "/admin;x"),
        ("/admin/**", "/admin;x/y"),
        ("/admin/**", "/;x/admin"),
        ("/admin/**", "/ADMIN"),
        ("/admin/**", "/admin./x"),
        ("/admin/**", "/admin%20/x"),
        ("/admin/**", "/admin%00"),
        ("/admin/**", "/admin%00.html"),
        ("/admin/**", "/admin%3fx"),
        ("/admin/**", "/admin%23x"),
        ("/admin/**", "/x%c0%afadmin"),
        ("/admin/**", "/%c0%ae%c0%ae/admin"),
        ("/admin/**", "/%ef%bd%81dmin"),
        ("/admin/**", "/index.php/admin/x"),
        ("/admin/**", "/admin.json"),
        ("/admin/**", "/%20admin/x"),
        ("/admin/**", "/(S(x))/admin/y"),
        ("*.php", "/x/a.php::$DATA"),
        ("*.php", "/x/a.php."),
        ("*.php", "/x/a.php/y"),
        ("*.php", "/x/a.PhP"),
        ("/a.php", "/a.php%2fx"),
    ] {
        let Ok(path) = RequestPath::new(target) else {
            continue;
        };
        let guard = Guard::new([pattern]).unwrap();
        let mount = Mount::new("/", None).unwrap();
        assert!(guard.guards_program(&path, &mount), "{pattern} {target}");
    }
}

#[test]
fn unguarded_paths_stay_open() {
    let guard = Guard::new(["/admin/**", "/a.php"]).unwrap();
    let mount = Mount::new("/", None).unwrap();
    for target in [
        "/",
        "/administration",
        "/x/admin",
        "/x/admin/../y",
        "/api/@scope%2Fname",
        "/fetch/http://example.org/a//b",
        "/100%25",
        "/a.phpx",
        "/a;v=1/b",
        "/notes/a%20b.txt",
        "/.well-known/acme-challenge/x",
        "/é/ü",
    ] {
        let path = RequestPath::new(target).unwrap();
        assert!(!guard.guards_program(&path, &mount), "{target}");
        assert!(!guard.guards_file(&path), "{target}");
    }
}

/// A path may be as long as a target; each check of it is bounded.
#[test]
fn long_paths_with_many_readings_are_judged_at_once() {
    let guard = Guard::new(["/admin/**", "*.secret"]).unwrap();
    let mount = Mount::new("/", None).unwrap();
    for piece in [
        "%25",
        "/a;b:c+D%20e",
        ".php/",
        "%2F",
        "/(S(x))",
        "%EF%BC%AF",
        "/..",
    ] {
        let text = format!("/{}", piece.repeat(8000 / piece.len()));
        if let Ok(path) = RequestPath::new(&text) {
            let _ = (
                guard.guards_program(&path, &mount),
                guard.guards_file(&path),
            );
        }
    }
}
