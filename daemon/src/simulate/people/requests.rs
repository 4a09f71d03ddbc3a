//! The requests of people, and how they are sent.

use super::{ActAnswer, PersonAct, PersonRequest, name};
use crate::backend::{Answering, Backend, EventOrigin, EventSender, NewEvent, NotStored, Repeated};
use fnd_core::access::Permissions;
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};
use fnd_core::lifecycle::ReleaseChange;
use fnd_core::lifecycle::release::HoldKind;
use fnd_core::records::outcome::Trigger;
use fnd_core::records::{Attributes, InvocationFilter, Payload};
use fnd_core::run::Submit;
use fnd_wire::ids::{FunctionName, InvocationId};
use futures_util::future::LocalBoxFuture;

/// The user to whom all idempotency keys belong.
const USER: u32 = 1000;

/// The media type of all that people send.
const MEDIA: &str = "application/json";

/// An answer that comes later, with the invocation that the person chose.
type LaterAnswer = LocalBoxFuture<'static, (Option<InvocationId>, ActAnswer)>;

/// Sends the request of an act. Nothing for an act without an answer.
pub(super) fn send(act: &PersonAct, backend: &Backend, known: &[InvocationId]) -> Option<LaterAnswer> {
    let backend = backend.clone();
    Some(match act {
        PersonAct::Save(..) | PersonAct::Remove(_) | PersonAct::Leave(_) => return None,
        PersonAct::Submit(request) => answer(None, backend.submit(submit(request, &backend))),
        PersonAct::Publish(id) => publish(backend, *id),
        PersonAct::Cancel(which) => {
            let id = choose(&backend, known, *which)?;
            answer(Some(id), backend.cancel(id))
        }
        PersonAct::Rollback(function, which) => {
            let name = name(*function);
            let release = release(&backend, &name, *which);
            change(backend, name, ReleaseChange::Hold(HoldKind::Rollback, release))
        }
        PersonAct::Pin(function, which) => {
            let name = name(*function);
            let release = release(&backend, &name, *which);
            change(backend, name, ReleaseChange::Hold(HoldKind::Pin, release))
        }
        PersonAct::Unpin(function) => change(backend, name(*function), ReleaseChange::EndHold),
        PersonAct::Canary(function, percent) => {
            change(backend, name(*function), ReleaseChange::Canary(u32::from(*percent)))
        }
        PersonAct::Promote(function) => change(backend, name(*function), ReleaseChange::Promote),
        PersonAct::StopCanary(function) => change(backend, name(*function), ReleaseChange::StopCanary),
        PersonAct::SetEnabled(function, enabled) => answer(None, backend.set_enabled(&name(*function), *enabled, 0)),
        PersonAct::Pause(function, paused) => pause(backend, name(*function), *paused),
        PersonAct::Drain => {
            let drained = backend.drain();
            Box::pin(async move { (None, drained.await.map_or(ActAnswer::Gone, ActAnswer::Changed)) })
        }
        PersonAct::CancelDrain => {
            let is_cancelled = backend.cancel_drain();
            Box::pin(std::future::ready((None, ActAnswer::Changed(is_cancelled))))
        }
        PersonAct::Redrive(which) => of_dead_letter(backend, *which, true),
        PersonAct::Discard(which) => of_dead_letter(backend, *which, false),
        PersonAct::Replay(which) => {
            let id = choose(&backend, known, *which)?;
            Box::pin(async move { (Some(id), repeat(backend, id, Trigger::Replay).await) })
        }
        PersonAct::Reload => Box::pin(async move {
            let reloaded = backend.reload(false).await;
            (None, reloaded.map_or(ActAnswer::Failed, |_| ActAnswer::Done))
        }),
        PersonAct::Rebuild(function, clean) => {
            let built = backend.build(&name(*function), *clean);
            Box::pin(async move {
                let heard = match built {
                    Some(built) => built.await.map_or(ActAnswer::Failed, |()| ActAnswer::Done),
                    None => ActAnswer::Nothing,
                };
                (None, heard)
            })
        }
    })
}

fn answer(id: Option<InvocationId>, answering: Answering) -> LaterAnswer {
    Box::pin(async move { (id, heard(answering).await) })
}

async fn heard(answering: Answering) -> ActAnswer {
    answering.await.map_or(ActAnswer::Gone, ActAnswer::Answer)
}

fn submit(request: &PersonRequest, backend: &Backend) -> Submit {
    let now_ms = backend.now_ms();
    let body = format!(r#"{{"order":{}}}"#, request.priority);
    // The backend gives it its id.
    let mut submit = Submit::new(InvocationId(0), name(request.function), Trigger::Manual);
    submit.idempotency_key = request.key.map(|key| {
        let content: [&[u8]; 1] = [body.as_bytes()];
        IdempotencyKey::new(KeyOwner::User(USER), &key.to_string(), content)
    });
    submit.payload = Payload {
        data: Some(body.into_bytes().into()),
        content_type: Some(MEDIA.into()),
        ..Payload::default()
    };
    submit.wait = request.wait;
    submit.not_before_ms = (request.delay_ms > 0).then(|| now_ms + request.delay_ms);
    submit.expires_ms = request.patience_ms.map(|patience_ms| now_ms + patience_ms);
    submit.priority = request.priority;
    submit
}

/// Sends an event. The same id always has the same data.
fn publish(backend: Backend, id: u8) -> LaterAnswer {
    let event = NewEvent {
        attributes: Attributes {
            id: id.to_string(),
            source: "/people".to_owned(),
            kind: "order".to_owned(),
            datacontenttype: Some(MEDIA.to_owned()),
            ..Attributes::default()
        },
        data: Some(format!(r#"{{"order":{}}}"#, id % 3).into_bytes().into()),
        content_type: Some(MEDIA.to_owned()),
        trace: None,
        depth: 0,
    };
    let origin = EventOrigin {
        reach: Permissions::own(),
        sender: EventSender::User(0),
    };
    Box::pin(async move { (None, ActAnswer::Published(backend.publish(vec![event], origin).await)) })
}

/// Chooses one of the invocations that have not ended, or else one that people know.
fn choose(backend: &Backend, known: &[InvocationId], which: u8) -> Option<InvocationId> {
    let live: Vec<InvocationId> = backend.settled().supervisor.live_invocations().collect();
    let from = if live.is_empty() { known } else { &live };
    from.get(usize::from(which) % from.len().max(1)).copied()
}

/// Returns the name of one of the releases of a function.
fn release(backend: &Backend, name: &FunctionName, which: Option<u8>) -> Option<String> {
    let releases = backend.releases(name).ok()?.versions;
    let release = releases.get(usize::from(which?) % releases.len().max(1))?;
    Some(release.version.hex())
}

fn change(backend: Backend, name: FunctionName, change: ReleaseChange) -> LaterAnswer {
    Box::pin(async move { (None, ActAnswer::Release(backend.change_release(&name, change).await)) })
}

fn pause(backend: Backend, name: FunctionName, paused: bool) -> LaterAnswer {
    Box::pin(async move {
        let heard = match backend.pause_schedules(&name, paused).await {
            Ok(has_schedules) => has_schedules.map_or(ActAnswer::Nothing, ActAnswer::Changed),
            Err(NotStored(_)) => ActAnswer::Failed,
        };
        (None, heard)
    })
}

/// Runs one of the dead letters again, or discards it.
fn of_dead_letter(backend: Backend, which: u8, redrives: bool) -> LaterAnswer {
    Box::pin(async move {
        let filter = InvocationFilter {
            reach: Permissions::own(),
            ..InvocationFilter::default()
        };
        let letters = match backend.dead_letters(filter).await {
            Ok(list) => list.dead_letters,
            Err(_) => return (None, ActAnswer::Failed),
        };
        let Some(letter) = letters.get(usize::from(which) % letters.len().max(1)) else {
            return (None, ActAnswer::Nothing);
        };
        let id = letter.invocation.id;
        let heard = if redrives {
            repeat(backend, id, Trigger::Redrive).await
        } else {
            match backend.drop_dead_letter(id).await {
                Ok(Ok(was_dead)) => ActAnswer::Changed(was_dead),
                Ok(Err(NotStored(_))) => ActAnswer::Failed,
                Err(_) => ActAnswer::Failed,
            }
        };
        (Some(id), heard)
    })
}

async fn repeat(backend: Backend, id: InvocationId, trigger: Trigger) -> ActAnswer {
    match backend.repeat(id, trigger).await {
        Ok(Repeated::Asked(_, answering)) => heard(answering).await,
        Ok(
            Repeated::Unknown
            | Repeated::NotEnded(..)
            | Repeated::NotDead(..)
            | Repeated::NotKept(_)
            | Repeated::Superseded(..),
        ) => ActAnswer::Nothing,
        Err(_) => ActAnswer::Failed,
    }
}
