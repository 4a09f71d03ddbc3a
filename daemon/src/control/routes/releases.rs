//! `GET /v1/functions/F/versions`, `GET .../versions/V/files`, `POST .../rollback`, `pin` (both `[?version=V]`) and
//! `unpin`; `POST .../canary?percent=N`, `POST .../promote` and `DELETE .../canary`.

use super::{OPERATOR, VIEWER};
use crate::backend::ReleaseChange;
use crate::control::call::ControlCall;
use crate::http::query::wrong;
use crate::http::response::{AGAIN, Answered, Refusal, json, retried_after};
use crate::invoke::refusal::no_function;
use fnd_core::api::problem::Code;
use fnd_core::api::{Problem, ReleaseFile};
use fnd_core::lifecycle::release::{HoldKind, NoRelease, NotHeld};
use fnd_manifest::function::env_values::has_env_values;
use fnd_manifest::settings::Role;
use fnd_wire::ids::FunctionName;

pub(super) static ROUTES: &[super::ControlRoute] = &[
    route!(GET "/v1/functions/{function}/versions" Function VIEWER "releases", list),
    route!(GET "/v1/functions/{function}/versions/{version}/files" Function OPERATOR "diff", files),
    route!(POST "/v1/functions/{function}/rollback" Function OPERATOR "rollback", hold(HoldKind::Rollback), Some(&["version"])),
    route!(POST "/v1/functions/{function}/pin" Function OPERATOR "pin", hold(HoldKind::Pin), Some(&["version"])),
    route!(POST "/v1/functions/{function}/unpin" Function OPERATOR "unpin", change(ReleaseChange::EndHold)),
    route!(POST "/v1/functions/{function}/canary" Function OPERATOR "canary", canary, Some(&["percent"])),
    route!(DELETE "/v1/functions/{function}/canary" Function OPERATOR "stop-canary", change(ReleaseChange::StopCanary)),
    route!(POST "/v1/functions/{function}/promote" Function OPERATOR "promote", change(ReleaseChange::Promote)),
];

pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let function = call.function()?;
    let list = call.backend.releases(&function);
    json(&list.map_err(|why| refused(&function, &why))?)
}

/// Returns the files of a release. The role operator is needed: a viewer may have no right to read the file on the disk.
pub(super) async fn files(call: ControlCall) -> Result<Answered, Refusal> {
    let function = call.function()?;
    let files = call.backend.release_files(&function, call.place(1)).await;
    let files = files.map_err(|why| refused(&function, &why))?;
    let has_values = |file: &ReleaseFile| {
        let text = file.text.as_deref().unwrap_or_default();
        has_env_values(&file.path, text.as_bytes())
    };
    if call.reach.function(&function) < Some(Role::Admin) && files.files.iter().any(has_values) {
        let detail =
            "its manifest has values of `[env]`, which only admins see: this needs the role `admin` for the function";
        return Err(Problem::new(Code::NotAllowed, detail.to_owned()).of(&function).into());
    }
    json(&files)
}

async fn hold(call: ControlCall, kind: HoldKind) -> Result<Answered, Refusal> {
    let version = call.query.text("version", "the hash of a release or its beginning")?;
    change(call, ReleaseChange::Hold(kind, version)).await
}

pub(super) async fn canary(call: ControlCall) -> Result<Answered, Refusal> {
    let expected = "a share of the calls from 1 to 100";
    let percent = call.query.get("percent", expected, |text| {
        text.parse().ok().filter(|percent| (1..=100).contains(percent))
    })?;
    let percent = percent.ok_or_else(|| wrong("percent", expected, ""))?;
    change(call, ReleaseChange::Canary(percent)).await
}

async fn change(call: ControlCall, change: ReleaseChange) -> Result<Answered, Refusal> {
    let function = call.function()?;
    let changed = call.backend.change_release(&function, change).await;
    json(&changed.map_err(|why| refused(&function, &why))?)
}

fn refused(function: &FunctionName, why: &NotHeld) -> Refusal {
    let code = match why {
        NotHeld::NoFunction => return no_function(function),
        NotHeld::NoRelease(NoRelease::Ambiguous { .. }) => Code::BadRequest,
        NotHeld::NoRelease(
            NoRelease::NoneBefore(_) | NoRelease::NoneWaits | NoRelease::HeldIsTried(_) | NoRelease::NoCanary,
        )
        | NotHeld::Serves(_)
        | NotHeld::NothingHeld
        | NotHeld::Failed(_) => Code::Release,
        NotHeld::NoRelease(NoRelease::None | NoRelease::Unknown(_)) => Code::NotFound,
        NotHeld::OldSpawner | NotHeld::NotStored(_) => Code::Unavailable,
    };
    let mut problem = Problem::new(code, format!("`{function}`: {why}"));
    // With 404, it would say that there is no such function.
    if code != Code::NotFound {
        problem = problem.of(function);
    }
    match why {
        // Only the disk may take the change in a moment; an old spawner stays until somebody starts it anew.
        NotHeld::NotStored(_) => retried_after(problem.into(), AGAIN),
        _ => problem.into(),
    }
}
