/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_wild.h - any harmless system call, with random words; and how a program's calls are
 * made.
 */
#ifndef FUZZ_WILD_H
#define FUZZ_WILD_H

#include "fuzz_calls.h"

/*
 * Never made with random words: calls that end, replace, stop or signal a process; change its identity,
 * memory or threads, or other processes; change the machine or leave something behind on it; never end;
 * or return values that are never the same twice.
 */
static const short harmful[] = {
	SYS_clone, SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_kill, SYS_tkill, SYS_tgkill,
	SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_restart_syscall, SYS_ptrace, SYS_seccomp,
	SYS_prctl,
	SYS_personality, SYS_capset, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
	SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_setpgid, SYS_setsid, SYS_setns,
	SYS_unshare,
	SYS_setrlimit, SYS_prlimit64, SYS_setpriority, SYS_ioprio_set, SYS_sched_setparam,
	SYS_sched_setscheduler,
	SYS_sched_setattr, SYS_sched_setaffinity, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq,
	SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_remap_file_pages, SYS_mlock,
	SYS_mlock2, SYS_mlockall, SYS_munlock, SYS_munlockall, SYS_mincore, SYS_msync, SYS_mbind,
	SYS_set_mempolicy,
	SYS_migrate_pages, SYS_move_pages, SYS_pkey_mprotect, SYS_pkey_alloc, SYS_pkey_free,
	SYS_process_vm_readv,
	SYS_process_vm_writev, SYS_userfaultfd, SYS_membarrier, SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl,
	SYS_semget, SYS_semctl, SYS_semop, SYS_semtimedop, SYS_msgget, SYS_msgctl, SYS_msgsnd, SYS_msgrcv,
	SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_add_key,
	SYS_request_key, SYS_keyctl, SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module,
	SYS_delete_module, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_swapon, SYS_swapoff,
	SYS_acct,
	SYS_quotactl, SYS_syslog, SYS_vhangup, SYS_sethostname, SYS_setdomainname, SYS_settimeofday,
	SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_setitimer, SYS_timer_create, SYS_sync,
	SYS_syncfs,
	SYS_bpf, SYS_perf_event_open, SYS_kcmp, SYS_fanotify_init, SYS_fanotify_mark, SYS_open_by_handle_at,
	SYS_name_to_handle_at, SYS_mknodat, SYS_ioctl, SYS_fcntl, SYS_inotify_add_watch, SYS_io_setup,
	SYS_io_destroy, SYS_io_submit,
	SYS_io_getevents, SYS_io_pgetevents, SYS_ppoll, SYS_pselect6, SYS_epoll_pwait, SYS_nanosleep,
	SYS_clock_nanosleep, SYS_futex, SYS_flock, SYS_vmsplice, SYS_getsockopt, SYS_setsockopt, SYS_bind,
	SYS_sendmsg, SYS_sendmmsg, SYS_recvmsg, SYS_recvmmsg, SYS_connect,
#ifdef __x86_64__
	SYS_fork, SYS_vfork, SYS_pause, SYS_alarm, SYS_arch_prctl, SYS_modify_ldt, SYS_iopl, SYS_ioperm,
	SYS_mknod,
	SYS_poll, SYS_select, SYS_epoll_wait, SYS_uselib,
	335, 336, /* uretprobe, uprobe */
#endif
	/* pidfd_send_signal, io_uring_*, open_tree, move_mount, fs*, pidfd_open, clone3, close_range */
	/* pidfd_getfd */
	424, 425, 426, 427, 428, 429, 430, 431, 432, 433, 434, 435, 436, 438,
	/* process_madvise, epoll_pwait2, mount_setattr, quotactl_fd, landlock_*, process_mrelease */
	440, 441, 442, 443, 444, 445, 446, 448,
	/* futex_waitv, set_mempolicy_home_node, cachestat, map_shadow_stack, futex_wait, futex_requeue */
	449, 450, 451, 453, 455, 456,
	/* They query a process by its number, which is random. */
	SYS_sched_rr_get_interval, SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_getaffinity, SYS_getpgid,
	SYS_getsid, SYS_ioprio_get, SYS_get_robust_list,
	/* lsm_set_self_attr, mseal, open_tree_attr, file_getattr, file_setattr */
	460, 462, 467, 468, 469,
};

static int is_harmful(long number)
{
	int i;

	for (i = 0; i < TEST_LENGTH(harmful); i++)
		if (harmful[i] == number)
			return 1;
	return 0;
}

/* The first name of a table row with this number, for people. */
static const char *name_of(long number)
{
	int i;

	for (i = 0; i < TEST_LENGTH(shapes); i++)
		if (shapes[i].number == number)
			return shapes[i].name;
	return "wild";
}

static uintptr_t wild_word(struct maker *m)
{
	static const unsigned short any[] = { FD, FD, PATH, PATH, OUT, LEN, IN, OUTV, CNT, ADDR_LENP,
		TIME, ATTR, MODE, OFF, STRUCT, INT };

	switch (below(&m->dice, 4)) {
	case 0:
		return (uintptr_t)odd_number(m);
	case 1:
		return bad_pointer(m);
	default:
		return argument(m, PICK(&m->dice, any));
	}
}

static void wild_call(struct maker *m)
{
	struct call *call = m->call;
	int i;

	do
		call->number = (long)below(&m->dice, 600);
	while (is_harmful(call->number));
	call->name = name_of(call->number);
	for (i = 0; i < 6; i++) {
		call->words[i] = wild_word(m);
		/* The descriptors of carriers begin there. */
		if ((unsigned)call->words[i] >= 512 && (unsigned)call->words[i] < FUZZ_TABLE)
			call->words[i] -= 512;
	}
}

/* A call with an empty name acts on its descriptor: the library reads the name itself. */
static void keep_names_readable(struct call *call, const struct shape *shape)
{
	int i;

	for (i = 0; i < 6; i++)
		if (shape->args[i] == PATH && !memory_at(call->words[i], 1) && call->words[i] > 1)
			call->words[i] = 0;
}

static void curated_call(struct maker *m)
{
	struct call *call = m->call;
	const struct shape *shape;
	int i;

	do
		shape = &PICK(&m->dice, shapes);
	while (settings.only && !strstr(shape->name, settings.only));
	call->name = shape->name;
	call->number = shape->number;
	call->feed = shape->feed;
	for (i = 0; i < 6; i++) {
		m->last = call->words[i] = argument(m, shape->args[i]);
		/* The rules of O_DIRECT are met from its descriptor on. */
		if (i == 0 && (int)m->last == W_DIRECT)
			m->aligned = !once_in(&m->dice, 8);
	}
	keep_names_readable(call, shape);
	if (once_in(&m->dice, 200))
		call->number |= (long)(roll(&m->dice) << 33);
}

static int wanted_wild(void)
{
	return !settings.only || strcmp(settings.only, "wild") == 0;
}

/* Shows the call with this index, and the memory that its words point to. */
static void compose(uint64_t seed, int index, struct call *call)
{
	struct maker maker;
	int wild;

	memset(call, 0, sizeof(*call));
	memset(&maker, 0, sizeof(maker));
	maker.dice = dice_of(seed, (uint64_t)index);
	maker.call = call;
	call->way = below(&maker.dice, 8);
	maker.gentle = transfers_are_short(seed);
	refill(0, 64);
	refill(ARENA_SIZE - PAGE, PAGE);
	wild = hostile_once_in(&maker, 6);
	if (wanted_wild() && (wild || settings.only))
		wild_call(&maker);
	else
		curated_call(&maker);
	call->used = maker.used;
}

#endif /* FUZZ_WILD_H */
