//! What triggers decide. The daemon brings the facts; nothing here does I/O.
//!
//! Files:
//! - `cgi`: a request as the variables of CGI/1.1, and the answer of a CGI script

pub mod cgi;
