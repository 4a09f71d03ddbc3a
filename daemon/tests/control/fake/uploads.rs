//! Its uploads: `invalid` is refused, `ops/backup` lies elsewhere, `stuck` is changed by somebody else.

use super::{Fake, diagnostic, later, name};
use fnd_core::api::RemovedFunction;
use fnd_daemon::backend::{Deployed, FunctionBackend, NotDone, Pending, Upload, UploadBackend, UploadCondition};
use fnd_wire::ids::FunctionName;

impl Fake {
    fn refused(&self, function: &FunctionName, condition: UploadCondition) -> Option<NotDone> {
        let serves = self.function(function).and_then(|detail| detail.status.version);
        match (function.as_str(), condition) {
            ("invalid", _) => Some(NotDone::Refused(vec![diagnostic()])),
            ("ops/backup", _) => Some(NotDone::NotUploaded(
                "`ops/backup` is not an upload but the file `/etc/fnd/functions/ops/backup.py`".to_owned(),
            )),
            ("stuck", _) => Some(NotDone::Conflict("somebody else uploads `stuck`".to_owned())),
            ("full", _) => Some(NotDone::Unavailable("the disk is full".to_owned())),
            (_, UploadCondition::New) if serves.is_some() => Some(NotDone::Conflict("there is one".to_owned())),
            (_, UploadCondition::Version(version)) if serves != Some(version) => {
                Some(NotDone::Conflict("another version serves".to_owned()))
            }
            _ => None,
        }
    }
}

impl UploadBackend for Fake {
    fn deploy(&self, upload: Upload) -> Pending<Result<Deployed, NotDone>> {
        if let Some(why) = self.refused(&upload.function, upload.condition) {
            return later(Err(why));
        }
        if upload.dry_run {
            return later(Ok(Deployed::Judged(Vec::new())));
        }
        let known = self.function(&upload.function).map(Box::new);
        later(match known {
            Some(detail) => Ok(Deployed::Replaced(detail)),
            None => {
                let mut detail = self.function(&name("hello")).ok_or(NotDone::NoFunction);
                if let Ok(detail) = &mut detail {
                    detail.status.function = upload.function;
                    detail.more.uploaded = true;
                }
                detail.map(|detail| Deployed::Created(Box::new(detail)))
            }
        })
    }

    fn remove(&self, function: FunctionName, condition: UploadCondition) -> Pending<Result<RemovedFunction, NotDone>> {
        if let Some(why) = self.refused(&function, condition) {
            return later(Err(why));
        }
        if self.function(&function).is_none() {
            return later(Err(NotDone::NoFunction));
        }
        later(Ok(RemovedFunction {
            files: vec![format!("/var/lib/fnd/functions/{function}.py")],
            serves: None,
            remains: vec!["its history".to_owned()],
            function: function.to_string(),
        }))
    }
}
