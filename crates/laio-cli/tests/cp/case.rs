//! A scenario: what is there, one command line, who runs it and how.

/// One scenario, to be run by both programs.
///
/// The lines that make the world are those of [`world`](crate::world); the command line is that of cp,
/// without the `cp`, and may begin with variables: `VERSION_CONTROL=t -b a b`.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) setup: String,
    pub(crate) command: String,
    /// Options that only ours is given.
    pub(crate) added: String,
    /// A shell script in place of GNU cp's command line.
    pub(crate) against: Option<String>,
    pub(crate) stdin: String,
    pub(crate) user: bool,
    /// The directory that the command is run in, below the world's root.
    pub(crate) inside: String,
    /// A FIFO and what is written into it while the command runs.
    pub(crate) feed: Option<(String, String)>,
    pub(crate) output: bool,
    /// What a shell does before it becomes the command, and where it sends its output.
    pub(crate) shell: (String, String),
}

/// A scenario run by the user who runs the tests, with everything as usual.
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
        shell: (String::new(), String::new()),
    }
}

impl Case {
    /// Gives these options to ours only: whatever they are, the result is as without them.
    pub(crate) fn added(self, options: impl Into<String>) -> Case {
        let added = options.into();
        Case { added, ..self }
    }

    /// Compares with what this shell script does, in which `cp` is GNU cp.
    pub(crate) fn against(self, script: impl Into<String>) -> Case {
        let against = Some(script.into());
        Case { against, ..self }
    }

    /// What the command reads from its standard input; nothing otherwise.
    pub(crate) fn stdin(self, text: &str) -> Case {
        let stdin = text.into();
        Case { stdin, ..self }
    }

    /// Run by an ordinary user, who owns the world except what its lines give to others.
    pub(crate) fn user(self) -> Case {
        Case { user: true, ..self }
    }

    pub(crate) fn umask(self, umask: u32) -> Case {
        self.after(&format!("umask {umask:o}"))
    }

    /// Runs this in the shell that becomes the command: `ulimit`, `umask`.
    pub(crate) fn after(mut self, preparation: &str) -> Case {
        self.shell.0.push_str(preparation);
        self.shell.0.push_str("; ");
        self
    }

    /// Sends its output elsewhere, in the words of a shell.
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

    /// Compares trees and exit status only.
    pub(crate) fn any_output(self) -> Case {
        Case {
            output: false,
            ..self
        }
    }
}

/// Scenarios of one subject: its name goes before theirs.
pub(crate) fn named(subject: &str, cases: Vec<Case>) -> Vec<Case> {
    let name = |case: Case| Case {
        name: format!("{subject}::{}", case.name),
        ..case
    };
    cases.into_iter().map(name).collect()
}
