//! CGI/1.1 (RFC 3875): a script's view of a request.
//!
//! Files:
//! - `answer`: reads what a CGI script has printed
//! - `variables`: a request as variables

mod answer;
mod variables;

pub use answer::{BadAnswer, read};
pub(in crate::triggers) use variables::server;
pub use variables::{VARIABLES_MAX, variables};
