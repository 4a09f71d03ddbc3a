//! What starts functions: each trigger brings facts, core decides, and a submission follows.
//!
//! Files:
