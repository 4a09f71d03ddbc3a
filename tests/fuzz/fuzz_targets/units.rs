//! Any text as a quantity, a name or an id; a parsed value is printed as text that has the same value.
#![no_main]

use fnd_manifest::state_key::{StateKey, is_pattern};
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::units::{
    parse_byte_rate, parse_cpu, parse_duration, parse_micros, parse_mode, parse_rate, parse_size, print_byte_rate,
    print_cpu, print_duration, print_micros, print_mode, print_rate, print_size,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(value) = parse_duration(text) {
        assert_eq!(parse_duration(&print_duration(value)), Ok(value));
    }
    if let Ok(value) = parse_size(text) {
        assert_eq!(parse_size(&print_size(value)), Ok(value));
    }
    if let Ok(value) = parse_cpu(text) {
        assert_eq!(parse_cpu(&print_cpu(value)), Ok(value));
    }
    if let Ok(value) = parse_byte_rate(text) {
        assert_eq!(parse_byte_rate(&print_byte_rate(value)), Ok(value));
    }
    if let Ok((count, per)) = parse_rate(text) {
        assert_eq!(parse_rate(&print_rate(count, per)), Ok((count, per)));
    }
    if let Ok(value) = parse_micros(text) {
        assert_eq!(parse_micros(&print_micros(value)), Ok(value));
    }
    if let Ok(value) = parse_mode(text) {
        assert_eq!(parse_mode(&print_mode(value)), Ok(value));
    }
    if let Ok(name) = FunctionName::new(text) {
        assert_eq!(name.as_str(), text);
        assert!(!name.file_form().contains('/'));
    }
    if let Ok(key) = StateKey::parse(text) {
        assert_eq!(key.to_string(), text);
        assert!(text.contains('*') || is_pattern(text));
    }
    if let Some(id) = InvocationId::parse(text) {
        assert_eq!(InvocationId::parse(&id.to_string()), Some(id));
    }
    if let Some(version) = Version::parse(text) {
        assert_eq!(Version::parse(&version.to_string()), Some(version));
    }
});
