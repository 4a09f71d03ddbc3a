//! `fnd-helper`: what reads the bytes of others, or runs as the user of a function.
//!
//! fnd-spawner starts it, one process for each task; `fndctl secret` reaches it through `fnd`. What reads archives, secrets and
//! manifests gives up every right first ([`confine`]); what runs as the user of a function has the rights of that user.
//!
//! Files:
//! - `allocator`: hands memory that is freed back to the kernel
//! - `answer`: a question in, an answer out, without rights
//! - `clock`: the clocks
//! - `confine`: gives up all rights
//! - `decrypt`: decrypts and encrypts secrets, and makes keys
//! - `find_secret`: finds a secret in YAML files
//! - `judge`: judges manifests
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
pub mod measure;
pub mod task;
pub mod unpack;
pub mod watch;
