//! What a rule finds.

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The name of the rule, as the list of exceptions has it.
    pub(crate) rule: &'static str,
    /// What an exception names: faults with equal keys are counted together. It has no line numbers, so that
    /// other changes of a file leave the list as it is.
    pub(crate) key: String,
    /// File and line.
    pub(crate) place: String,
    /// What is wrong, and what to do.
    pub(crate) what: String,
}
