//! Values at places of a request, an event or a payload: `header.x-tenant`, `body.customer`.
//!
//! Files:
//! - `body`: values inside JSON and form bodies
//! - `conditions`: `when`, and keys

mod body;
pub mod conditions;
