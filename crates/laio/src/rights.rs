//! Which calls depend on the rights of the calling thread, what the kernel reports of these rights
//! ([`reported`]), and what follows from what it allows ([`domain`]). [`crate::background`] and
//! [`crate::proactor`] compare them.

mod domain;
mod reported;

pub(crate) use reported::{
    FsRoots, ReportedRights, accesses_as_it_opens, has_filters, is_about_rights, share_fs_state,
    shares_fs_state_with, thread_id,
};

use crate::Call;
use crate::table::{Class, Opcode, Row};
use reported::has_landlock;

/// Whether only a thread that the calling thread starts for this call is known to have its rights:
/// the kernel does not report what they depend on. `reported`: the calling thread's.
pub(crate) fn needs_own_thread(reported: &ReportedRights, row: &Row, call: &Call) -> bool {
    CALLS_IN_NAMESPACES.contains(&row.name)
        || (landlock_may_forbid(row, call) && !has_entered_no_domain(reported))
}

/// Whether the calling thread is known to have entered no Landlock domain since the process began. Then
/// no thread had that it has started.
pub(crate) fn has_entered_no_domain(reported: &ReportedRights) -> bool {
    !reported.allows_landlock() || !has_landlock() || domain::is_first(reported)
}

/// Whether the permissions of the call depend on the thread's rights when it is made, rather than
/// on those with which a descriptor was opened.
pub(crate) fn depends_on_rights(row: &Row) -> bool {
    by_name(row) || row.class == Class::Path
}

/// Whether the call looks up a name. A socket address can contain one too.
pub(crate) fn by_name(row: &Row) -> bool {
    row.file.is_some() || matches!(row.opcode, Some(Opcode::Connect | Opcode::Bind))
}

/// Whether a Landlock domain may forbid the call. Domains of later kernels may forbid more, so all
/// calls by name count.
fn landlock_may_forbid(row: &Row, call: &Call) -> bool {
    let addressed = match row.name {
        "sendto" => call.args[4] != 0,
        "sendmsg" | "sendmmsg" => true,
        _ => false,
    };
    let opens = row.class == Class::Path && row.yields_descriptor;
    by_name(row) || addressed || opens || CALLS_LANDLOCK_SCOPES.contains(&row.name)
}

/// Calls about other processes, which a Landlock domain may scope. Only the `threads` back end makes
/// them in the background.
const CALLS_LANDLOCK_SCOPES: [&str; 7] = [
    "kill",
    "tkill",
    "tgkill",
    "pidfd_getfd",
    "kcmp",
    "process_vm_readv",
    "process_vm_writev",
];

/// Calls that use a namespace of the thread without naming a file: the kernel offers no cheap way
/// to read the namespaces or to notice a change.
const CALLS_IN_NAMESPACES: [&str; 20] = [
    "socket",
    "socketpair",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "shmget",
    "shmat",
    "shmctl",
    "mq_open",
    "mq_unlink",
    "uname",
    "sethostname",
    "setdomainname",
    "listmount",
    "statmount",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ROWS;

    #[test]
    fn listed_calls_are_in_the_table() {
        for name in CALLS_LANDLOCK_SCOPES.iter().chain(&CALLS_IN_NAMESPACES) {
            let listed = |row: &&Row| row.name == *name && row.class != Class::Thread;
            assert!(ROWS.iter().any(|row| listed(&row)), "{name}");
        }
    }

    #[test]
    fn calls_on_open_files_depend_on_no_rights_of_now() {
        let row = |name| ROWS.iter().find(|row| row.name == name).expect(name);
        for name in ["read", "pwrite64", "recvmsg", "fsync", "accept4"] {
            assert!(!depends_on_rights(row(name)), "{name}");
        }
        for name in [
            "openat",
            "fchmod",
            "connect",
            "truncate",
            "open_by_handle_at",
        ] {
            assert!(depends_on_rights(row(name)), "{name}");
        }
    }
}
