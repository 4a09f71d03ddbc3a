//! Functions that are uploaded through the API. They lie in a functions directory of their own, which only fnd writes.
//!
//! ```text
//! body ─▶ form.rs ─▶ staging.rs: .staging/F/new ─▶ judged.rs ─▶ catalog: swap ─▶ spawner ─▶ under_way.rs: verdict
//!                                                                 └─ take back ◀── refused ──┤
//!                                                                      commit ◀── installed ─┘
//! ```
//!
//! `backend/deploy.rs` takes these steps. It decides nothing about a function: the judge and the spawner do, as for every
//! other file.
//!
//! Files:
//! - `form`: reads the body of an upload: which file is code, which one the manifest
//! - `judged`: judges the files before they replace others
//! - `staging`: writes the files beside their place, exchanges them as a whole, and takes them back
//! - `under_way`: the uploads that are under way, and what fnd finds about their files

pub(crate) mod form;
pub(crate) mod judged;
pub(crate) mod staging;
pub(crate) mod under_way;
