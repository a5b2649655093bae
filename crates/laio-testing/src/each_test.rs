//! Tests that differ in an argument: one line for each.

/// Makes a test of each line: its name, and the only expression of its body.
///
/// ```
/// laio_testing::each_test! {
///     in_threads => assert_eq!(1 + 1, 2);
///     in_the_ring => assert_ne!(1, 2);
/// }
/// ```
#[macro_export]
macro_rules! each_test {
    ($($(#[$attribute:meta])* $name:ident => $body:expr;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            $body;
        }
    )*};
}
