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
