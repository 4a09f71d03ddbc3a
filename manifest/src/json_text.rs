//! JSON whose text is kept: members of objects stay in the order in which somebody wrote them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A text that is JSON. In JSON it is the value itself, not a string.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// Returns the text; nothing if it is not JSON.
    #[must_use]
    pub fn new(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self)
    }

    /// Returns the JSON as it was given, with its spaces.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        // The order of the members counts (`KEPTN_CONTEXT`), so the texts are compared and not the values.
        self.get() == other.get()
    }
}

#[cfg(test)]
mod tests {
    use super::JsonText;

    #[test]
    fn members_stay_in_order() {
        let text = r#"{"context":{"b":1,"a":[{"d":2,"c":3}]}}"#;
        let read: std::collections::BTreeMap<String, JsonText> = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(JsonText::new("{".to_owned()), None);
    }
}
