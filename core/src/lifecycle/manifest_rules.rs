//! Converts a manifest to the rules of the supervisor.

use crate::backoff::{Backoff, Jitter};
use crate::input::InputSchema;
use crate::records::Payload;
use crate::records::outcome::Class;
use crate::run::{FunctionKind, Http, Overlap, Poll, Pool, QueueRules, Retry, Rules, Service};
use fnd_manifest::function::route::RequestPlace;
use fnd_manifest::function::{self as manifest, HttpServer, Listen, Manifest, Mode, RetryOn};
use fnd_wire::units::spell_size;
use std::sync::Arc;
use std::time::Duration;

/// Returns the rules of a manifest on the node `host`. A function for other nodes only is not enabled here.
#[must_use]
pub fn rules(manifest: &Manifest, host: &str) -> Rules {
    let limits = &manifest.limits;
    Rules {
        enabled: manifest.enabled && is_for(&manifest.nodes, host),
        run_on_load: manifest.on_load,
        default_payload: Payload {
            data: manifest.data.as_ref().map(|data| data.to_string().into_bytes().into()),
            content_type: manifest.data.as_ref().map(|_| "application/json".into()),
            context: manifest.context.as_ref().map(|context| Arc::from(context.get())),
            ..Payload::default()
        },
        input: manifest
            .input_schema
            .as_ref()
            .map(|schema| Arc::new(InputSchema::new(schema))),
        // A service runs without end.
        timeout: limits.timeout.filter(|_| manifest.service.is_none()),
        grace: limits.grace,
        deadline: limits.deadline.filter(|_| manifest.service.is_none()),
        memory: limits.memory,
        cpu_milli: limits.cpu,
        memory_text: spell_size(limits.memory),
        max_running: manifest.pool.max,
        kind: kind(manifest),
        retry: retry(&manifest.retry),
        poll: manifest.poll.as_ref().map(|poll| Poll {
            repeat: poll.repeat,
            until: poll.until,
        }),
        queue: QueueRules {
            max: manifest.queue.max,
            overlap: overlap(manifest.queue.overlap),
            rate: manifest.queue.rate.map(|rate| (rate.count, rate.per)),
            // A service is not invoked; `[defaults]` may name a group all the same.
            group: manifest.queue.group.clone().filter(|_| manifest.service.is_none()),
            key: key(manifest).filter(|_| manifest.service.is_none()),
        },
        result_max: limits.result,
        pids: limits.pids,
        output_max: limits.output,
        has_hooks: !manifest.hooks.is_empty(),
        unchecked: !manifest.release.check,
        runtime: manifest.runtime.clone(),
    }
}

fn key(manifest: &Manifest) -> Option<(RequestPlace, u32)> {
    let place = manifest.queue.key.clone()?;
    Some((place, manifest.queue.per_key.unwrap_or(1)))
}

/// Returns the overlap policy of the supervisor for that of a manifest.
#[must_use]
pub fn overlap(overlap: manifest::OverlapKey) -> Overlap {
    match overlap {
        manifest::OverlapKey::Queue => Overlap::Queue,
        manifest::OverlapKey::Skip => Overlap::Skip,
        manifest::OverlapKey::Replace => Overlap::Replace,
        manifest::OverlapKey::Reject => Overlap::Reject,
    }
}

fn kind(manifest: &Manifest) -> FunctionKind {
    let pool = |server| pool(&manifest.pool, server);
    match (manifest.mode, &manifest.http_server, &manifest.service) {
        (Mode::Handler | Mode::Http, Some(server), _) => FunctionKind::Http(
            pool(Some(server)),
            Http {
                listen: server.listen,
                ready: server.ready.clone(),
            },
        ),
        (Mode::Handler | Mode::Http, None, _) => FunctionKind::Handler(pool(None)),
        (Mode::Service, _, Some(service)) => FunctionKind::Service(Service {
            replicas: service.replicas,
            ready: service.ready.clone(),
            start_timeout: service.start_timeout,
        }),
        (Mode::Script | Mode::Service, _, _) => FunctionKind::Script,
    }
}

/// How long a handler's worker may take from the start of its process until its code is loaded: as long as the default
/// of a program that serves HTTP (`start_timeout`).
const LOAD_MAX: Duration = Duration::from_secs(30);

fn pool(pool: &manifest::PoolKeys, server: Option<&HttpServer>) -> Pool {
    let alone = pool.isolation == manifest::Isolation::Invocation;
    let spare = alone.then_some(pool.spare);
    Pool {
        min: pool.min,
        // Spares are processes, too: all of them together have to fit into the memory limit of the function.
        most: pool.max.saturating_add(spare.unwrap_or(0)).min(pool.fit),
        concurrency: pool.concurrency,
        idle: pool.idle,
        max_invocations: pool.max_invocations,
        max_age: pool.max_age,
        spare,
        load_max: server.map_or(LOAD_MAX, |server| server.start_timeout),
        // Only one process at a time can listen on a port.
        alone: server.is_some_and(|server| matches!(server.listen, Listen::Port(_))),
    }
}

fn retry(retry: &manifest::RetryKeys) -> Retry {
    Retry {
        retries: retry.retries,
        backoff: Backoff {
            interval: retry.interval,
            factor: match retry.backoff {
                manifest::BackoffKeys::Exponential => retry.factor,
                // A fixed pause is one that does not grow.
                manifest::BackoffKeys::Fixed => 1.0,
            },
            max_interval: retry.max_interval,
            jitter: match retry.jitter {
                manifest::JitterKey::Equal => Jitter::Equal,
                manifest::JitterKey::Full => Jitter::Full,
                manifest::JitterKey::None => Jitter::None,
            },
        },
        on: retry.on.iter().map(|class| class_of(*class)).collect(),
        not_on_exit: retry.not_on_exit.clone(),
    }
}

fn class_of(on: RetryOn) -> Class {
    match on {
        RetryOn::Error => Class::Error,
        RetryOn::Transient => Class::Transient,
        RetryOn::Timeout => Class::Timeout,
        RetryOn::Oom => Class::Oom,
        RetryOn::Signal => Class::Signal,
        RetryOn::Spawn => Class::Spawn,
        RetryOn::Interrupted => Class::Interrupted,
    }
}

/// Returns whether a function with these `nodes` is for `host`; `*` matches any part of a name, an empty list every
/// host.
fn is_for(nodes: &[String], host: &str) -> bool {
    nodes.is_empty() || nodes.iter().any(|pattern| matches(pattern, host))
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text
            .strip_prefix(head)
            .is_some_and(|rest| (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| matches(tail, rest)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_matched_by_name_with_stars() {
        let nodes = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(is_for(&[], "web-1"));
        assert!(is_for(&nodes(&["web-*"]), "web-1"));
        assert!(is_for(&nodes(&["db", "*-1"]), "web-1"));
        assert!(is_for(&nodes(&["*e*-*"]), "web-1"));
        assert!(!is_for(&nodes(&["web"]), "web-1"));
        assert!(!is_for(&nodes(&["db-*", "*-2"]), "web-1"));
    }
}
