//! Probes whether io_uring can be set up, and which features it has.

use super::{Refusal, context, setting};
use io_uring::{Parameters, Probe, opcode};
use laio::{BackendKind, Errno};

/// The io_uring of this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoUring {
    /// The features it reports, by the names of `io_uring_setup(2)` in small letters.
    pub features: Vec<&'static str>,
    /// The number of operations it has.
    pub operations: usize,
    /// The operations that the engine uses and that it lacks: helpers make such calls.
    pub missing: Vec<&'static str>,
}

impl IoUring {
    pub(super) fn probe() -> Result<IoUring, Refusal> {
        // Set up by the engine, which needs more than this probe.
        context(BackendKind::Uring).map_err(refusal)?;
        let plain = io_uring::IoUring::new(8).map_err(|error| refusal(error.into()))?;
        let mut probe = Probe::new();
        let known = plain.submitter().register_probe(&mut probe);
        known.map_err(|error| refusal(error.into()))?;
        Ok(IoUring {
            features: features(plain.params()),
            operations: (0..=u8::MAX)
                .filter(|&code| probe.is_supported(code))
                .count(),
            missing: USED
                .iter()
                .filter(|(_, code)| !probe.is_supported(*code))
                .map(|(name, _)| *name)
                .collect(),
        })
    }
}

fn refusal(errno: Errno) -> Refusal {
    let meaning = match errno {
        Errno::NOSYS => "not in this kernel, or hidden by a filter".to_owned(),
        Errno::PERM => match setting::<u32>("/proc/sys/kernel/io_uring_disabled") {
            Some(2) => "forbidden to all by sysctl kernel.io_uring_disabled = 2".to_owned(),
            Some(1) => {
                "sysctl kernel.io_uring_disabled = 1 allows it only to privileged processes \
                        and to the group kernel.io_uring_group"
                    .to_owned()
            }
            _ => "forbidden by a seccomp filter, as in most containers".to_owned(),
        },
        Errno::ACCES => "forbidden by a security module or a filter".to_owned(),
        Errno::NOMEM => "not enough memory, or of locked memory (RLIMIT_MEMLOCK)".to_owned(),
        Errno::MFILE | Errno::NFILE => "no descriptor left for it".to_owned(),
        Errno::OPNOTSUPP => "lacks a required feature: older than Linux 5.11".to_owned(),
        errno => errno.to_string(),
    };
    Refusal::new(errno, meaning)
}

fn features(parameters: &Parameters) -> Vec<&'static str> {
    let all = [
        ("single_mmap", parameters.is_feature_single_mmap()),
        ("nodrop", parameters.is_feature_nodrop()),
        ("submit_stable", parameters.is_feature_submit_stable()),
        ("rw_cur_pos", parameters.is_feature_rw_cur_pos()),
        ("cur_personality", parameters.is_feature_cur_personality()),
        ("fast_poll", parameters.is_feature_fast_poll()),
        ("poll_32bits", parameters.is_feature_poll_32bits()),
        ("sqpoll_nonfixed", parameters.is_feature_sqpoll_nonfixed()),
        ("ext_arg", parameters.is_feature_ext_arg()),
        ("native_workers", parameters.is_feature_native_workers()),
        ("rsrc_tags", parameters.is_feature_resource_tagging()),
        ("cqe_skip", parameters.is_feature_skip_cqe_on_success()),
        ("linked_file", parameters.is_feature_linked_file()),
        ("recvsend_bundle", parameters.is_feature_recvsend_bundle()),
        ("min_timeout", parameters.is_feature_min_timeout()),
        ("no_iowait", parameters.is_feature_no_iowait()),
    ];
    let there = all.into_iter().filter(|(_, there)| *there);
    there.map(|(name, _)| name).collect()
}

/// The operations that the engine puts on a ring.
const USED: &[(&str, u8)] = &[
    ("Accept", opcode::Accept::CODE),
    ("AsyncCancel", opcode::AsyncCancel::CODE),
    ("Close", opcode::Close::CODE),
    ("Connect", opcode::Connect::CODE),
    ("Fadvise", opcode::Fadvise::CODE),
    ("Fallocate", opcode::Fallocate::CODE),
    ("FgetXattr", opcode::FGetXattr::CODE),
    ("FsetXattr", opcode::FSetXattr::CODE),
    ("Fsync", opcode::Fsync::CODE),
    ("Ftruncate", opcode::Ftruncate::CODE),
    ("GetXattr", opcode::GetXattr::CODE),
    ("LinkAt", opcode::LinkAt::CODE),
    ("Madvise", opcode::Madvise::CODE),
    ("MkdirAt", opcode::MkDirAt::CODE),
    ("OpenAt", opcode::OpenAt::CODE),
    ("OpenAt2", opcode::OpenAt2::CODE),
    ("PollAdd", opcode::PollAdd::CODE),
    ("Read", opcode::Read::CODE),
    ("ReadV", opcode::Readv::CODE),
    ("Recv", opcode::Recv::CODE),
    ("RecvMsg", opcode::RecvMsg::CODE),
    ("RenameAt", opcode::RenameAt::CODE),
    ("Send", opcode::Send::CODE),
    ("SendMsg", opcode::SendMsg::CODE),
    ("SetXattr", opcode::SetXattr::CODE),
    ("Splice", opcode::Splice::CODE),
    ("Statx", opcode::Statx::CODE),
    ("SymlinkAt", opcode::SymlinkAt::CODE),
    ("SyncFileRange", opcode::SyncFileRange::CODE),
    ("Tee", opcode::Tee::CODE),
    ("Timeout", opcode::Timeout::CODE),
    ("UnlinkAt", opcode::UnlinkAt::CODE),
    ("WaitId", opcode::WaitId::CODE),
    ("Write", opcode::Write::CODE),
    ("WriteV", opcode::Writev::CODE),
];

#[cfg(test)]
mod tests {
    use super::*;
    use laio::table::{Class, ROWS};

    #[test]
    fn every_operation_of_the_table_is_looked_for() {
        // Instant calls have operations too, but never go to the background.
        for row in ROWS.iter().filter(|row| row.class != Class::Instant) {
            if let Some(opcode) = row.opcode {
                let name = format!("{opcode:?}");
                assert!(
                    USED.iter().any(|(used, _)| *used == name),
                    "{name} of {}",
                    row.name
                );
            }
        }
    }

    #[test]
    fn reports_support_or_a_reason() {
        match IoUring::probe() {
            Ok(ring) => {
                assert!(ring.features.contains(&"nodrop"));
                assert!(ring.operations > 30, "{ring:?}");
            }
            Err(refusal) => assert!(!refusal.meaning.is_empty()),
        }
    }
}
