//! The jobs in the virtual machine, and their results.

use super::Programs;
use crate::repository::Failure;

/// A script, with its name in the summary.
#[derive(Debug)]
pub struct Job {
    /// Unique among the jobs.
    pub name: String,
    script: String,
}

impl Job {
    /// Returns a job that runs this script of the shell.
    pub fn new(name: &str, script: String) -> Job {
        Job {
            name: name.to_owned(),
            script,
        }
    }

    /// Returns a job that runs a test program, and prints its skips.
    pub fn suite(name: String, program: &str, arguments: &str) -> Job {
        let program = quoted(program);
        Job {
            name,
            script: format!(
                "LAIO_TEST_EXTENT=all LAIO_TEST_LIMIT={TEST_LIMIT} LAIO_TEST_SKIPS=/tmp/skips {program} --test-threads 4 {arguments}; status=$?\n\
                 [ -e /tmp/skips ] && sort -u /tmp/skips | sed 's/^/skipped: /'; rm -f /tmp/skips\n\
                 (exit $status)",
            ),
        }
    }
}

/// The result of a job.
#[derive(Debug)]
pub struct Outcome {
    /// The job's name.
    pub job: String,
    /// Whether it ended with status 0.
    pub passed: bool,
    /// The last line of a test program, with its counts, the failed tests, or the reason why there is no
    /// result.
    pub details: String,
}

/// The parts that a user can choose, in the order in which they run.
pub const PARTS: [&str; 3] = ["site", "copy", "suites"];

/// The line that the machine prints after all jobs.
pub const END: &str = "laio-jobs: all ended";

/// Seconds after which a test's watchdog ends the suite, forty times as many as usual: emulated processors are slow, and
/// the machine may do much else. All other limits of tests grow with it.
const TEST_LIMIT: u32 = 12_000;

/// The back ends, as LAIO_BACKEND and `laio serve --backend` name them, that serve the site.
const BACKENDS: [&str; 6] = ["lazy", "uring", "threads", "linux-aio", "posix-aio", "sync"];

/// Whether every part is known.
///
/// # Errors
/// One of them is not.
pub fn check(parts: &[String]) -> Result<(), Failure> {
    match parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        Some(part) => Err(format!("part `{part}` is not one of {}", PARTS.join(", ")).into()),
        None => Ok(()),
    }
}

/// Whether a part was asked for, by name or with all.
pub fn wants(parts: &[String], part: &str) -> bool {
    parts.is_empty() || parts.iter().any(|asked| asked == part)
}

/// The jobs of the parts that were asked for, or of all.
pub fn chosen(parts: &[String], filters: &[String], programs: &Programs) -> Vec<Job> {
    let mut jobs = Vec::new();
    if let Some(command) = &programs.command {
        let command = quoted(&command.display().to_string());
        if wants(parts, "site") {
            jobs.extend(BACKENDS.map(|backend| site(&command, backend)));
        }
        if wants(parts, "copy") {
            jobs.push(copy(&command));
        }
    }
    if wants(parts, "suites") {
        let filters: Vec<String> = filters.iter().map(|filter| quoted(filter)).collect();
        let suites = programs.suites.iter();
        jobs.extend(suites.map(|(name, path)| {
            Job::suite(
                name.clone(),
                &path.display().to_string(),
                &filters.join(" "),
            )
        }));
    }
    jobs
}

/// Serves the example site by one back end and compares every file of it.
fn site(command: &str, backend: &str) -> Job {
    let site = quoted(
        &crate::repository::root()
            .join("examples/site")
            .display()
            .to_string(),
    );
    Job {
        name: format!("site by {backend}"),
        script: format!(
            "{command} serve --backend {backend} --listen 127.0.0.1:8080 {site} >/tmp/log 2>&1 & server=$!\n\
             for i in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:8080/ && break; sleep 0.2; done\n\
             status=0; cd {site}\n\
             for file in $(find . -type f -not -name '.*' | cut -c 3-); do\n\
               curl -sf \"http://127.0.0.1:8080/$file\" | cmp - \"$file\" || {{ echo \"differs: $file\"; status=1; }}\n\
             done\n\
             kill $server; wait $server || status=$?\n\
             [ $status = 0 ] || cat /tmp/log\n\
             (exit $status)"
        ),
    }
}

/// Copies the machine's own /usr and compares.
fn copy(command: &str) -> Job {
    Job {
        name: "copy of /usr".to_owned(),
        script: format!(
            "{command} cp -a /usr /tmp/usr && diff -r --no-dereference /usr /tmp/usr && rm -rf /tmp/usr"
        ),
    }
}

/// The script that the machine's first process runs.
pub fn script(jobs: &[Job]) -> String {
    let mut script = String::from(
        "export PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 RUST_BACKTRACE=1\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys\n\
         mkdir -p /dev/pts /dev/shm /dev/mqueue\n\
         mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts\n\
         mount -t tmpfs -o mode=1777 shm /dev/shm; mount -t mqueue mqueue /dev/mqueue\n\
         mount -t securityfs s /sys/kernel/security; mount -t cgroup2 c /sys/fs/cgroup\n\
         mount -t tmpfs -o mode=755 run /run\n\
         ln -sf /proc/self/fd /dev/fd; ln -sf /proc/self/fd/0 /dev/stdin\n\
         ln -sf /proc/self/fd/1 /dev/stdout; ln -sf /proc/self/fd/2 /dev/stderr\n\
         ip link set lo up\n\
         for module in fuse loop xfs btrfs overlay tls virtio_rng; do modprobe $module; done\n\
         mkfs.ext4 -q /dev/vdb && mount /dev/vdb /tmp && chmod 1777 /tmp\n\
         ulimit -n 20000; ulimit -c 0; cd /tmp\n\
         exec </dev/null >/dev/ttyS1 2>&1\n",
    );
    script += &each(jobs, "bash");
    script
}

/// The part of the first process's script that runs each job in a shell, and then ends the machine.
/// `setsid` waits for its program, because no job of a shell without job control leads a group.
pub fn each(jobs: &[Job], shell: &str) -> String {
    let mut script = String::new();
    for (index, job) in jobs.iter().enumerate() {
        script += &format!(
            "echo 'laio-job {index} begins: {}'\nsetsid {shell} -c {}\necho \"laio-job {index} ended: $?\"\n",
            job.name,
            quoted(&job.script)
        );
    }
    script += &format!("echo '{END}'; sync; echo o > /proc/sysrq-trigger; sleep 60\n");
    script
}

/// Quotes a word for the shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Whether a user who waits should see this line.
pub fn is_news(line: &str) -> bool {
    ["laio-job", "test result:", "differs:"]
        .iter()
        .any(|start| line.starts_with(start))
        || line.ends_with("... FAILED")
}

/// Returns the result of each job, from the output of the machine.
pub fn results(jobs: &[Job], output: &str) -> Vec<Outcome> {
    let found = jobs.iter().enumerate().map(|(index, job)| {
        let begin = format!("laio-job {index} begins:");
        let end = format!("laio-job {index} ended: ");
        let (passed, details) = match output.split_once(&begin) {
            None => (false, "did not begin".to_owned()),
            Some((_, rest)) => match rest.split_once(&end) {
                None => (false, format!("did not end; {}", counts(rest))),
                Some((text, status)) => {
                    let status = status.lines().next().unwrap_or_default().trim();
                    (status == "0", details(text, status))
                }
            },
        };
        Outcome {
            job: job.name.clone(),
            passed,
            details,
        }
    });
    found.collect()
}

fn details(text: &str, status: &str) -> String {
    let result = text.lines().find(|line| line.starts_with("test result:"));
    let mut details = result.unwrap_or_default().trim().to_owned();
    if status != "0" {
        details += &format!(" status {status}; {}", counts(text));
    }
    details.trim().to_owned()
}

/// Returns how many tests passed, and the names of those that failed.
fn counts(text: &str) -> String {
    let lines = || text.lines().map(str::trim_end);
    let passed = lines().filter(|line| line.ends_with("... ok")).count();
    let failed: Vec<&str> = lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .collect();
    format!("{passed} passed, failed: {}", failed.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Job {
        Job {
            name: name.to_owned(),
            script: String::new(),
        }
    }

    #[test]
    fn results_are_read_from_what_the_machine_prints() {
        let output = "laio-job 0 begins: a\ntest x ... ok\ntest result: ok. 1 passed\nlaio-job 0 ended: 0\n\
                      laio-job 1 begins: b\ntest y ... FAILED\nlaio-job 1 ended: 101\nlaio-job 2 begins: c\ntest z ... ok\n";
        let results = results(&[job("a"), job("b"), job("c"), job("d")], output);
        let passed: Vec<bool> = results.iter().map(|result| result.passed).collect();
        assert_eq!(passed, [true, false, false, false]);
        assert_eq!(results[0].details, "test result: ok. 1 passed");
        assert!(results[1].details.contains("failed: y"));
        assert!(results[2].details.starts_with("did not end; 1 passed"));
        assert_eq!(results[3].details, "did not begin");
    }

    #[test]
    fn words_of_the_shell_are_quoted() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
