//! `fnd-helper`: the tasks that read untrusted bytes, and those that run as the user of a function.
//!
//! fnd-spawner starts this program, one process for each task; `fndctl secret` reaches it through `fnd`. The tasks that read
//! archives, secrets and manifests give up every right first ([`confine`]). The tasks that run as the user of a function have the
//! rights of that user.
//!
//! Files:
//! - `allocator`: gives freed memory back to the kernel at once
//! - `answer`: reads one question and writes one answer, without rights
//! - `clock`: reads the clocks; no other file calls now()
//! - `confine`: gives up all rights
//! - `decrypt`: decrypts and encrypts secrets, and makes keys
//! - `find_secret`: finds a secret in YAML files
//! - `judge`: judges manifests
//! - `lambda`: serves a function that is made for AWS Lambda
//! - `measure`: counts what is in a function's home and cache
//! - `task`: reads the command line
//! - `unpack`: unpacks archives
//! - `watch`: watches the files of `[[file]]`

mod allocator;
pub mod answer;
pub mod clock;
pub mod confine;
pub mod decrypt;
pub mod find_secret;
pub mod judge;
pub mod lambda;
pub mod measure;
pub mod task;
pub mod unpack;
pub mod watch;
