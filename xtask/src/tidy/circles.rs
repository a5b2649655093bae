//! Rule: no circle of imports leaves a folder.

mod paths;
