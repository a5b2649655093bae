//! Memory that the program has freed and the C library keeps.

/// Returns memory that the program has freed to the system.
///
/// glibc keeps freed memory for later allocations, apart for each of several groups of threads. A program that replaces
/// threads again and again keeps what each group needed at most, and can call this when threads have ended. It
/// takes some milliseconds, and other threads that allocate memory may wait for it. With other C libraries it does
/// nothing.
pub fn release_free_memory() {
    // SAFETY: any thread may call it at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Limits the number of arenas from which glibc serves the allocations of all threads; call it before there are threads.
///
/// An arena serves a group of threads and keeps what they have freed, in holes between what is in use. By default there
/// are up to eight for each processor, each of which grows to what its threads have needed at most. Fewer take less
/// memory, but threads of one arena wait for each other. The variable `MALLOC_ARENA_MAX` of the environment has
/// precedence, and so has `GLIBC_TUNABLES` if it names `arena_max`. With other C libraries this does nothing.
pub fn limit_arenas(count: usize) {
    let in_environment = std::env::var_os("MALLOC_ARENA_MAX").is_some()
        || std::env::var_os("GLIBC_TUNABLES")
            .is_some_and(|text| text.to_string_lossy().contains("malloc.arena_max"));
    if in_environment {
        return;
    }
    // SAFETY: it sets a number that the allocator reads; any thread may do so.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count.try_into().unwrap_or(i32::MAX));
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_in_use_stays() {
        let texts: Vec<String> = (0..1000).map(|number| format!("{number:0>1000}")).collect();
        let kept: Vec<String> = texts.into_iter().step_by(7).collect();
        super::release_free_memory();
        let numbers = kept.iter().map(|text| text.trim_start_matches('0'));
        assert!(numbers.eq((0..1000).step_by(7).map(|number| match number {
            0 => String::new(),
            number => number.to_string(),
        })));
    }
}
