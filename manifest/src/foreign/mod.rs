//! Makes functions of files that people wrote for other systems, and reports what became of each field.
//!
//! Files:
//! - `made`: a function that was made, and its manifest
//! - `report`: what became of each field
//! - `yaml`: documents of YAML with places

pub mod made;
pub mod report;
pub mod yaml;

pub use made::{Made, MadeFile, Manifest};
pub use report::{Field, Report, Row, Verdict};
