//! A scenario: the files, one command line, the user and the environment.

/// One scenario, to be run by both programs.
///
/// The lines that create the files are described in [`world`](crate::world). The command line is
/// that of cp, without `cp`, and may begin with variables: `VERSION_CONTROL=t -b a b`.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) setup: String,
    pub(crate) command: String,
    /// Options that only `laio cp` gets.
    pub(crate) added: String,
    /// A shell script that replaces GNU cp's command line.
    pub(crate) against: Option<String>,
    pub(crate) stdin: String,
    pub(crate) user: bool,
    /// The working directory, relative to the world's root.
    pub(crate) inside: String,
    /// A FIFO, and the text written into it while the command runs.
    pub(crate) feed: Option<(String, String)>,
    pub(crate) output: bool,
    /// What the scenario needs of the machine: a name in `laio_testing::needs`.
    pub(crate) need: Option<&'static str>,
    /// Shell commands before the program is executed, and redirections of its output.
    pub(crate) shell: (String, String),
}

/// A scenario run by the user who runs the tests, without special settings.
pub(crate) fn case(
    name: impl Into<String>,
    setup: impl Into<String>,
    command: impl Into<String>,
) -> Case {
    Case {
        name: name.into(),
        setup: setup.into(),
        command: command.into(),
        added: String::new(),
        against: None,
        stdin: String::new(),
        user: false,
        inside: String::new(),
        feed: None,
        output: true,
        need: None,
        shell: (String::new(), String::new()),
    }
}

impl Case {
    /// Adds options for `laio cp` only; the result must be the same as without them.
    pub(crate) fn added(self, options: impl Into<String>) -> Case {
        let added = options.into();
        Case { added, ..self }
    }

    /// Compares with this shell script, in which `cp` is GNU cp.
    pub(crate) fn against(self, script: impl Into<String>) -> Case {
        let against = Some(script.into());
        Case { against, ..self }
    }

    /// Sets the standard input; the default is empty.
    pub(crate) fn stdin(self, text: &str) -> Case {
        let stdin = text.into();
        Case { stdin, ..self }
    }

    /// Runs the scenario as an ordinary user, who owns the world except for files that its lines
    /// give to others.
    pub(crate) fn user(self) -> Case {
        Case { user: true, ..self }
    }

    pub(crate) fn umask(self, umask: u32) -> Case {
        self.after(&format!("umask {umask:o}"))
    }

    /// Runs this in the shell before the program: `ulimit`, `umask`.
    pub(crate) fn after(mut self, preparation: &str) -> Case {
        self.shell.0.push_str(preparation);
        self.shell.0.push_str("; ");
        self
    }

    /// Redirects the output, in shell syntax.
    pub(crate) fn redirected(mut self, redirection: &str) -> Case {
        self.shell.1 = redirection.into();
        self
    }

    pub(crate) fn inside(self, directory: &str) -> Case {
        let inside = directory.into();
        Case { inside, ..self }
    }

    pub(crate) fn feed(self, fifo: &str, text: &str) -> Case {
        let feed = Some((fifo.into(), text.into()));
        Case { feed, ..self }
    }

    /// Skips the scenario where the machine lacks this.
    pub(crate) fn needs(self, need: &'static str) -> Case {
        let need = Some(need);
        Case { need, ..self }
    }

    /// Compares only trees and exit status, not the output.
    pub(crate) fn any_output(self) -> Case {
        Case {
            output: false,
            ..self
        }
    }
}

/// Prefixes the names of scenarios with their subject.
pub(crate) fn named(subject: &str, cases: Vec<Case>) -> Vec<Case> {
    let name = |case: Case| Case {
        name: format!("{subject}::{}", case.name),
        ..case
    };
    cases.into_iter().map(name).collect()
}
