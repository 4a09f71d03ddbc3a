//! The consumers of `[[nats]]`: functions that are refused because another function has their consumer.
//!
//! Two functions with one consumer would share its messages: each message would run one of the two, by chance. Of a name that
//! no manifest writes this happens, too: `shop/orders` and `shop_orders` have the same default.

use super::SourceFiles;
use crate::triggers::nats::rules::own_consumer;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::Manifest;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};

/// A consumer: its stream and its name.
type Consumer = (String, String);

/// The consumers of all functions.
#[derive(Debug, Default)]
pub(super) struct FunctionConsumers {
    owners: BTreeMap<Consumer, FunctionName>,
    /// Functions whose consumer another function has.
    refused: BTreeMap<FunctionName, SourceFiles>,
}

impl FunctionConsumers {
    /// Returns the problem if another function has one of the consumers of a function. The function is installed again when
    /// consumers become free.
    pub(super) fn conflict(&mut self, candidate: &SourceFiles, manifest: &Manifest) -> Option<Diagnostic> {
        let name = &candidate.function;
        self.refused.remove(name);
        let taken = of_manifest(name, manifest).into_iter().find_map(|consumer| {
            let owner = self.owners.get(&consumer).filter(|owner| *owner != name)?;
            Some(problem(name, &consumer, owner))
        })?;
        self.refused.insert(name.clone(), candidate.clone());
        Some(taken)
    }

    /// Replaces the consumers of a function by those of its versions that can serve. Returns the functions to install again:
    /// those that were refused, if consumers have become free.
    pub(super) fn set<'a>(
        &mut self,
        function: &FunctionName,
        versions: impl IntoIterator<Item = &'a Manifest>,
    ) -> Vec<SourceFiles> {
        let versions = versions.into_iter();
        let now: BTreeSet<Consumer> = versions.flat_map(|manifest| of_manifest(function, manifest)).collect();
        let before = self.owners.len();
        self.owners
            .retain(|consumer, owner| owner != function || now.contains(consumer));
        let is_freed = self.owners.len() < before;
        for consumer in now {
            // The owner before keeps it: this function was refused then, and serves with an older version.
            self.owners.entry(consumer).or_insert_with(|| function.clone());
        }
        if !is_freed {
            return Vec::new();
        }
        std::mem::take(&mut self.refused).into_values().collect()
    }
}

/// Returns the consumers of a manifest. An entry that answers requests has none.
fn of_manifest(function: &FunctionName, manifest: &Manifest) -> Vec<Consumer> {
    let entries = manifest.nats.iter().filter(|entry| !entry.reply);
    let consumer = entries.filter_map(|entry| {
        let name = entry.consumer.clone().unwrap_or_else(|| own_consumer(function));
        Some((entry.stream.clone()?, name))
    });
    consumer.collect()
}

fn problem(function: &FunctionName, (stream, consumer): &Consumer, owner: &FunctionName) -> Diagnostic {
    let message = format!(
        "`{function}` and `{owner}` both have the consumer `{consumer}` of the stream {stream}, so each message would run one of the \
         two only; `{owner}` keeps it"
    );
    Diagnostic::error("consumer-taken", message).with_help("give one of the two another `consumer` in `[[nats]]`")
}

#[cfg(test)]
mod tests {
    use super::super::tests::candidate;
    use super::*;
    use fnd_manifest::function::NatsTrigger;
    use fnd_manifest::schema::pick::FromValue as _;
    use std::slice::from_ref;

    /// Returns a manifest with an entry for the stream `ORDERS`.
    fn manifest(consumer: Option<&str>, reply: bool) -> Manifest {
        let entry = NatsTrigger {
            subject: "orders.>".to_owned(),
            stream: (!reply).then(|| "ORDERS".to_owned()),
            consumer: consumer.map(str::to_owned),
            reply,
            ..NatsTrigger::from_value(None).unwrap()
        };
        Manifest {
            nats: vec![entry],
            ..Manifest::from_value(None).unwrap()
        }
    }

    #[test]
    fn the_function_that_serves_keeps_its_consumer() {
        let mut consumers = FunctionConsumers::default();
        let [first, second] = ["shop/orders", "shop_orders"].map(candidate);
        let own = manifest(None, false);
        assert_eq!(consumers.conflict(&first, &own), None);
        assert_eq!(consumers.set(&first.function, [&own]), []);
        // Its next version has the same consumer.
        assert_eq!(consumers.conflict(&first, &own), None);
        let problem = consumers.conflict(&second, &own).unwrap();
        assert_eq!(problem.code, "consumer-taken");
        assert!(
            problem.message.contains("`fnd-shop_orders` of the stream ORDERS") && problem.message.ends_with("keeps it"),
            "{}",
            problem.message
        );
        assert_eq!(consumers.conflict(&second, &manifest(Some("other"), false)), None);
    }

    #[test]
    fn a_function_that_was_refused_comes_again_when_the_consumer_is_free() {
        let mut consumers = FunctionConsumers::default();
        let [first, second] = ["a", "b"].map(candidate);
        let shared = manifest(Some("workers"), false);
        let _ = consumers.set(&first.function, [&shared]);
        assert!(consumers.conflict(&second, &shared).is_some());
        // While its new version is on trial, the version before serves.
        let other = manifest(Some("own"), false);
        assert_eq!(consumers.set(&first.function, [&other, &shared]), []);
        assert_eq!(consumers.set(&first.function, [&other]), *from_ref(&second));
        assert_eq!(consumers.conflict(&second, &shared), None);
        let _ = consumers.set(&second.function, [&shared]);
        assert!(consumers.conflict(&first, &shared).is_some());
        assert_eq!(consumers.set(&second.function, []), [first]);
    }

    #[test]
    fn requests_have_no_consumer() {
        let mut consumers = FunctionConsumers::default();
        let [first, second] = ["a", "b"].map(candidate);
        let answers = manifest(None, true);
        let _ = consumers.set(&first.function, [&answers]);
        assert_eq!(consumers.conflict(&second, &answers), None);
    }
}
