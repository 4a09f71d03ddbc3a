//! Answers installations. The judge reads one after the other; only the order among different functions is free.

use super::contents::SourceContent;
use super::verdicts::{judge, settings};
use super::*;
use fnd_wire::frame::{Installed, InstalledWithTree, NeedsBuild, PROTOCOL_0_1, Problem, Refused, STORED, StoredFile};
use fnd_wire::plan::{BUILD, CHECK, is_builder};

/// Why a file or a stored version is refused that is gone.
const NOT_THERE: &str = "it is not there";
/// Why a build is refused that an earlier spawner has installed.
const NOT_INSTALLED: &str = "this build was not installed since fnd-spawner was started";

impl SpawnerModel {
    /// Returns the places of the work that the judge may finish now: no work overtakes a reload or other work for the same
    /// function, and a reload overtakes no work at all.
    pub(super) fn judge_work_in_any_order(&self) -> impl Iterator<Item = usize> {
        let function = |work: &JudgeWork| match work {
            JudgeWork::Reload(_) => None,
            JudgeWork::Install(_, install, _) => Some(install.function.clone()),
        };
        let before_reload = self
            .judge_queue
            .iter()
            .take_while(|work| matches!(work, JudgeWork::Install(..)))
            .count();
        let is_first = move |index: &usize| {
            let of = self.judge_queue.get(*index).and_then(function);
            *index == 0
                || !self
                    .judge_queue
                    .iter()
                    .take(*index)
                    .any(|earlier| function(earlier) == of)
        };
        (0..before_reload.max(1).min(self.judge_queue.len())).filter(is_first)
    }

    /// Answers an installation or a reload.
    pub(super) fn finish_judge_work(&mut self, work: JudgeWork, files: &Files) {
        let (id, reply) = match work {
            JudgeWork::Reload(id) => (id, Reply::Settings(settings(self.nats_node.as_deref()))),
            JudgeWork::Install(id, install, purpose) => (id, self.install(&install, purpose, files)),
        };
        self.reply(id, &reply, Vec::new());
    }

    fn install(&mut self, install: &Install, purpose: InstallPurpose, files: &Files) -> Reply {
        let function = &install.function;
        if install.directory != STORED {
            return match files.get(function) {
                Some(content) => self.judged(function, (content, None), purpose),
                None => not_there(install),
            };
        }
        let Some(version) = Version::parse(&install.source) else {
            return not_there(install);
        };
        if is_builder(function.as_str()) {
            return self.lend(install, version);
        }
        if !self.disk.stored.contains(&(function.clone(), version)) {
            return not_there(install);
        }
        let content = SourceContent::of(version);
        if purpose == InstallPurpose::Files {
            return Reply::Files(vec![StoredFile {
                path: format!("{}.py", function.as_str()),
                executable: false,
                length: 1,
                digest: [content.0; 32],
                front: Bytes(vec![content.0]),
            }]);
        }
        self.judged(function, (content, Some(version.0[1])), purpose)
    }

    /// Answers with the judge's verdict on a content; `stored` is the generation of the tree of a stored version.
    fn judged(&mut self, function: &FunctionName, of: (SourceContent, Option<u8>), purpose: InstallPurpose) -> Reply {
        let (content, stored) = of;
        let is_check = purpose == InstallPurpose::Check;
        let judged = judge(self.nats_node.as_deref(), function, content, is_check);
        let document = judged.document.clone();
        // The spawner of fnd 0.1 builds nothing: its judge gives no plan.
        let is_too_old = self.protocol == PROTOCOL_0_1 && judged.run.is_some();
        if !judged.is_accepted || is_too_old {
            return Reply::Refused(Refused {
                function: function.clone(),
                problems: Vec::new(),
                document: Some(document),
            });
        }
        if let Some(run) = judged.run.as_ref().filter(|_| is_check) {
            // Each content has a check of its own, so the result is the same for all functions that wait for this one.
            let build = self.own_version(CHECK, content.version(0), run.clone());
            return Reply::NeedsBuild(NeedsBuild {
                function: function.clone(),
                document,
                build,
            });
        }
        let generation = self.generation(content, stored, purpose == InstallPurpose::Rebuild);
        let tree = content.tree(generation);
        if let Some(run) = judged.run.as_ref().filter(|_| !self.disk.trees.contains(&tree)) {
            let build = self.own_version(BUILD, tree, run.clone());
            let builder = build.function.clone();
            let has_files = self.disk.build_homes.contains(&builder);
            self.homes.admit(&builder, tree, has_files);
            return Reply::NeedsBuild(NeedsBuild {
                function: function.clone(),
                document,
                build,
            });
        }
        let version = content.version(generation);
        self.disk.stored.insert((function.clone(), version));
        let installed = self.installed(function, (version, content.version(0)), document);
        if judged.run.is_some() {
            Reply::InstalledWithTree(InstalledWithTree { installed, tree })
        } else {
            Reply::Installed(installed)
        }
    }

    /// Returns the generation of a content's tree: that of the stored version if its tree is there, else the newest one that is
    /// there, else the newest one. A build that is asked for begins the next one, unless the newest one is not there yet.
    fn generation(&mut self, content: SourceContent, stored: Option<u8>, is_again: bool) -> u8 {
        if !content.has_tree() {
            return 0;
        }
        let newest = self.disk.generations.get(&content.0).copied().unwrap_or(0);
        let trees = &self.disk.trees;
        let is_there = |generation: &u8| trees.contains(&content.tree(*generation));
        if is_again {
            let next = newest.saturating_add(u8::from(newest == 0 || is_there(&newest)));
            self.disk.generations.insert(content.0, next);
            return next;
        }
        let kept = stored.filter(is_there);
        kept.or_else(|| (0..=newest).rev().find(is_there)).unwrap_or(newest)
    }

    /// Installs a version of a function of fnd's own, which builds or checks.
    fn own_version(&mut self, name: &str, version: Version, document: Bytes) -> Installed {
        let own = FunctionName::new(name).expect("the name is a constant");
        self.disk.stored.insert((own.clone(), version));
        self.installed(&own, (version, version), document)
    }

    /// Gives the version that builds a tree to another function that builds.
    fn lend(&mut self, install: &Install, tree: Version) -> Reply {
        let builder = FunctionName::new(BUILD).expect("the name is a constant");
        if !self.homes.admits(&builder, tree) {
            return refused(install, NOT_INSTALLED);
        }
        let function = &install.function;
        let has_files = self.disk.build_homes.contains(function);
        self.homes.admit(function, tree, has_files);
        self.disk.stored.insert((function.clone(), tree));
        Reply::Installed(self.installed(function, (tree, tree), Bytes::default()))
    }

    fn installed(&mut self, function: &FunctionName, of: (Version, Version), document: Bytes) -> Installed {
        let (version, load_key) = of;
        Installed {
            id: self.id(function),
            function: function.clone(),
            version,
            load_key,
            interpreter: "/usr/bin/python3".to_owned(),
            uid: 60000,
            warnings: Vec::new(),
            document,
        }
    }
}

fn not_there(install: &Install) -> Reply {
    refused(install, NOT_THERE)
}

fn refused(install: &Install, message: &str) -> Reply {
    Reply::Refused(Refused {
        function: install.function.clone(),
        problems: vec![Problem {
            file: format!("/functions/{}", install.source),
            message: message.to_owned(),
            help: String::new(),
        }],
        document: None,
    })
}
