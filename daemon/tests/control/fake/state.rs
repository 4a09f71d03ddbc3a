//! Its state: two values, and what is written to them. The decisions are the real ones.

use super::{BEGAN, Fake, later};
use fnd_core::api::{StateEntry, StateKeyView, StateKeys, StateScope, StateScopes, StateWritten};
use fnd_core::kv::{BYTES_MAX, KvCondition, KvRefusal, KvRequest, KvResponse, StoredValue, Totals};
use fnd_daemon::backend::{Failure, Pending, StateBackend};
use fnd_manifest::state_key::StateKey;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Version and value of each key.
pub(super) type Values = BTreeMap<StateKey, (u64, String)>;

fn first() -> Values {
    let value = |key: &str, version, value: &str| (StateKey::parse(key).unwrap(), (version, value.to_owned()));
    [
        value("shop/orders", 7, "{\"open\": 12345678901234567890}"),
        value("shop/cart/1", 1, "\"tea\""),
    ]
    .into()
}

fn bytes(key: &StateKey, value: &str) -> u64 {
    (key.to_string().len() - 1 + value.len()) as u64
}

fn written(key: &StateKey, version: u64) -> KvResponse {
    KvResponse::Written(StateWritten {
        scope: key.scope().to_owned(),
        key: key.key().to_owned(),
        version,
        changed_at: fnd_core::instant::text(*BEGAN),
    })
}

impl Fake {
    fn told(&self, ask: KvRequest) -> Result<KvResponse, KvRefusal> {
        let mut values = self.values.borrow_mut();
        let values = values.get_or_insert_with(first);
        let present = |key: &StateKey, values: &Values| {
            let found = values.get(key);
            found.map(|(version, value)| StoredValue {
                version: *version,
                bytes: bytes(key, value),
            })
        };
        // A scope that is full.
        let totals = |key: &StateKey| Totals {
            bytes: if key.scope() == "full" { BYTES_MAX } else { 0 },
            ..Totals::default()
        };
        Ok(match ask {
            KvRequest::Get(key) => {
                let (version, value) = values.get(&key).cloned().ok_or(KvRefusal::Missing)?;
                KvResponse::Entry(StateEntry {
                    scope: key.scope().to_owned(),
                    key: key.key().to_owned(),
                    value: RawValue::from_string(value).unwrap(),
                    version,
                    changed_at: fnd_core::instant::text(*BEGAN),
                })
            }
            KvRequest::Put { key, value, condition } => {
                let found = present(&key, values);
                let (version, _) = totals(&key).put(found, condition, bytes(&key, &value))?;
                values.insert(key.clone(), (version, value));
                written(&key, version)
            }
            KvRequest::Delete { key, condition } => {
                totals(&key).delete(present(&key, values), condition)?;
                written(&key, values.remove(&key).map_or(0, |(version, _)| version))
            }
            KvRequest::Keys {
                scope,
                prefix,
                after,
                limit,
            } => {
                let mut keys: Vec<StateKeyView> = values
                    .iter()
                    .filter(|(key, _)| key.scope() == scope && key.key().starts_with(&prefix))
                    .filter(|(key, _)| after.as_ref().is_none_or(|after| key.key() > after.as_str()))
                    .map(|(key, (version, value))| StateKeyView {
                        key: key.key().to_owned(),
                        version: *version,
                        bytes: bytes(key, value),
                        changed_at: fnd_core::instant::text(*BEGAN),
                    })
                    .collect();
                let limit = usize::try_from(limit).unwrap();
                let more = keys.len() > limit;
                keys.truncate(limit);
                let next = keys.last().filter(|_| more).map(|last| last.key.clone());
                KvResponse::Keys(StateKeys { keys, next })
            }
            KvRequest::Scopes => {
                let of = |key: &StateKey| StateScope {
                    scope: key.scope().to_owned(),
                    keys: 0,
                    bytes: 0,
                };
                let mut scopes: BTreeMap<&str, StateScope> = BTreeMap::new();
                for (key, (_, value)) in values.iter() {
                    let scope = scopes.entry(key.scope()).or_insert_with(|| of(key));
                    scope.keys += 1;
                    scope.bytes += bytes(key, value);
                }
                let scopes = scopes.into_values().collect();
                KvResponse::Scopes(StateScopes { scopes })
            }
        })
    }
}

impl StateBackend for Fake {
    fn state(&self, ask: KvRequest) -> Pending<Result<Result<KvResponse, KvRefusal>, Failure>> {
        // The disk has failed for this one.
        if matches!(&ask, KvRequest::Put { key, condition: KvCondition::Any, .. } if key.scope() == "broken") {
            return later(Err(Failure("disk I/O error".to_owned())));
        }
        later(Ok(self.told(ask)))
    }
}
