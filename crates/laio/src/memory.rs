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
    if !is_in_environment("MALLOC_ARENA_MAX", "malloc.arena_max") {
        set(Parameter::Arenas, count);
    }
}

/// Lets glibc keep up to `bytes` of freed memory at the end of each arena, of allocations of at most `largest` bytes each;
/// call it before there are threads.
///
/// By default glibc returns such memory to the system from some hundred KiB on. A program that allocates and frees buffers
/// of that size again and again then pays for a system call and page faults each time. Larger allocations are requested
/// from the system one by one, and returned when they are freed. The variables `MALLOC_TRIM_THRESHOLD_` and
/// `MALLOC_MMAP_THRESHOLD_` of the environment have precedence, and so has `GLIBC_TUNABLES` if it names `trim_threshold`
/// or `mmap_threshold`. With other C libraries this does nothing.
pub fn keep_freed(bytes: usize, largest: usize) {
    let trim = is_in_environment("MALLOC_TRIM_THRESHOLD_", "malloc.trim_threshold");
    let mmap = is_in_environment("MALLOC_MMAP_THRESHOLD_", "malloc.mmap_threshold");
    if !trim && !mmap {
        set(Parameter::TrimThreshold, bytes);
        set(Parameter::MmapThreshold, largest.saturating_add(1));
    }
}

/// Whether the environment sets a parameter of glibc's allocator, by a variable of its own or a tunable.
fn is_in_environment(variable: &str, tunable: &str) -> bool {
    std::env::var_os(variable).is_some()
        || std::env::var_os("GLIBC_TUNABLES")
            .is_some_and(|text| text.to_string_lossy().contains(tunable))
}

enum Parameter {
    Arenas,
    TrimThreshold,
    MmapThreshold,
}

#[cfg(target_env = "gnu")]
fn set(parameter: Parameter, value: usize) {
    let parameter = match parameter {
        Parameter::Arenas => libc::M_ARENA_MAX,
        Parameter::TrimThreshold => libc::M_TRIM_THRESHOLD,
        Parameter::MmapThreshold => libc::M_MMAP_THRESHOLD,
    };
    // SAFETY: it sets a number that the allocator reads; any thread may do so.
    unsafe {
        libc::mallopt(parameter, value.try_into().unwrap_or(i32::MAX));
    }
}

#[cfg(not(target_env = "gnu"))]
fn set(_: Parameter, _: usize) {}

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
