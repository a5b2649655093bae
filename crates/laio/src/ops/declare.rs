//! The macro `operation!`, which declares a typed operation.

/// Declares an operation: its fields, its options, the system call, and what becomes of the result.
///
/// ```text
/// operation! {
///     /// Sends all of a buffer.
///     pub struct Send<F: AsFd, B: Source> {
///         /// Sends the bytes of `buffer`.
///         new(socket: F, buffer: B);
///         flags: i32 = libc::MSG_NOSIGNAL,
///     }
///
///     /// More `MSG_*` flags.
///     with flags(self, flags: i32) { self.flags |= flags }
///
///     // SAFETY: why the pointers of the call stay valid.
///     unsafe call(self) { Call::new(…) }
///
///     /// The bytes sent, and the buffer.
///     finish(self, result) -> (io::Result<usize>, B) { … }
/// }
/// ```
///
/// expands to this, with each comment at its item:
///
/// ```text
/// #[derive(Debug)]
/// pub struct Send<F, B> { socket: F, buffer: B, flags: i32 }
///
/// impl<F, B> Send<F, B> {
///     pub fn new(socket: F, buffer: B) -> Self {
///         Send { socket, buffer, flags: libc::MSG_NOSIGNAL }
///     }
///     pub fn flags(mut self, flags: i32) -> Self { self.flags |= flags; self }
/// }
///
/// unsafe impl<F: AsFd + 'static, B: Source + 'static> Operation for Send<F, B> {
///     type Output = (io::Result<usize>, B);
///     fn call(&mut self) -> Call { Call::new(…) }
///     fn finish(self, result: Result<usize, Errno>) -> Self::Output { … }
/// }
/// ```
///
/// Without `new`, the struct has ordinary fields, and an `impl` after the declaration has the
/// constructors. Other methods of [`Operation`](crate::Operation) stand after `finish`.
macro_rules! operation {
    (
        $(#[$about:meta])*
        pub struct $name:ident $(<$($param:ident: $bound:ident $(= $default:ty)?),+>)? {
            $(#[$about_new:meta])*
            new($($argument:ident: $argument_type:ty),+)
            $(; $($field:ident: $type:ty = $value:expr,)+)?
        }
        $($operation:tt)+
    ) => {
        impl $(<$($param),+>)? $name $(<$($param),+>)? {
            $(#[$about_new])*
            pub fn new($($argument: $argument_type),+) -> Self {
                $name { $($argument,)+ $($($field: $value,)+)? }
            }
        }

        operation! {
            $(#[$about])*
            pub struct $name $(<$($param: $bound $(= $default)?),+>)? {
                $($argument: $argument_type,)+
                $($($field: $type,)+)?
            }
            $($operation)+
        }
    };
    (
        $(#[$about:meta])*
        pub struct $name:ident $(<$($param:ident: $bound:ident $(= $default:ty)?),+>)? {
            $($field:ident: $type:ty,)+
        }
        $(
            $(#[$about_option:meta])*
            with $option:ident($it:ident $(, $value:ident: $value_type:ty)?) $set:block
        )*
        unsafe call($me:ident) $call:block
        $(#[$about_output:meta])*
        finish($self:ident, $result:ident) -> $output:ty $finish:block
        $($other:item)*
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name $(<$($param $(= $default)?),+>)? {
            $($field: $type,)+
        }

        impl $(<$($param),+>)? $name $(<$($param),+>)? {
            $(
                $(#[$about_option])*
                pub fn $option(mut $it $(, $value: $value_type)?) -> Self {
                    $set;
                    $it
                }
            )*
        }

        // SAFETY: the comment on `call` in each declaration says why its pointers stay valid.
        unsafe impl $(<$($param: $bound + 'static),+>)? $crate::Operation
            for $name $(<$($param),+>)?
        {
            $(#[$about_output])*
            type Output = $output;

            fn call(&mut $me) -> $crate::Call $call

            fn finish($self, $result: Result<usize, $crate::Errno>) -> Self::Output $finish

            $($other)*
        }
    };
}
