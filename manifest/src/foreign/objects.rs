//! The objects in a set of files: what kind each is, and which of them are functions.

use super::item::Item;
use super::yaml::Document;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Keptn: what a task runs.
    KeptnTaskDefinition,
    /// Keptn: one run of a definition.
    KeptnTask,
    /// Kubeless: a function with its code.
    KubelessFunction,
    /// Kubeless: a schedule.
    CronJobTrigger,
    /// Kubeless: a route.
    HttpTrigger,
    /// Kubeless: a subscription of Kafka, NATS or Kinesis.
    QueueTrigger,
    /// Kyma: a function with its code, or with the repository that has it.
    KymaFunction,
    /// Kyma v1alpha1: a repository that functions name.
    GitRepository,
    /// Kyma: a subscription of events.
    Subscription,
    /// Kyma: routes.
    ApiRule,
    /// Rafay: a driver, of which the type `function` is one.
    Driver,
    /// Kubernetes: values and files without a need of secrecy.
    ConfigMap,
    /// Kubernetes: values that functions get as secrets.
    Secret,
    /// One that these systems have, but that has no meaning on one machine.
    NotHere,
    /// One of something else.
    Other,
}

/// The kinds of each group of the API.
const KINDS: &[(&str, &str, ObjectKind)] = &[
    (
        "lifecycle.keptn.sh",
        "KeptnTaskDefinition",
        ObjectKind::KeptnTaskDefinition,
    ),
    ("lifecycle.keptn.sh", "KeptnTask", ObjectKind::KeptnTask),
    ("lifecycle.keptn.sh", "*", ObjectKind::NotHere),
    ("options.keptn.sh", "*", ObjectKind::NotHere),
    ("metrics.keptn.sh", "*", ObjectKind::NotHere),
    ("kubeless.io", "Function", ObjectKind::KubelessFunction),
    // The first versions of Kubeless, before its resources had a group of their own.
    ("k8s.io", "Function", ObjectKind::KubelessFunction),
    ("kubeless.io", "CronJobTrigger", ObjectKind::CronJobTrigger),
    ("kubeless.io", "HTTPTrigger", ObjectKind::HttpTrigger),
    ("kubeless.io", "NATSTrigger", ObjectKind::QueueTrigger),
    ("kubeless.io", "KafkaTrigger", ObjectKind::QueueTrigger),
    ("kubeless.io", "KinesisTrigger", ObjectKind::QueueTrigger),
    ("serverless.kyma-project.io", "Function", ObjectKind::KymaFunction),
    ("runtime.kyma-project.io", "Function", ObjectKind::KymaFunction),
    ("serverless.kyma-project.io", "GitRepository", ObjectKind::GitRepository),
    ("serverless.kyma-project.io", "*", ObjectKind::NotHere),
    ("operator.kyma-project.io", "*", ObjectKind::NotHere),
    ("eventing.kyma-project.io", "Subscription", ObjectKind::Subscription),
    ("gateway.kyma-project.io", "APIRule", ObjectKind::ApiRule),
    ("eaas.envmgmt.io", "Driver", ObjectKind::Driver),
    ("eaas.envmgmt.io", "*", ObjectKind::NotHere),
    ("", "ConfigMap", ObjectKind::ConfigMap),
    ("", "Secret", ObjectKind::Secret),
    ("", "*", ObjectKind::NotHere),
    ("apps", "*", ObjectKind::NotHere),
    ("batch", "*", ObjectKind::NotHere),
    ("networking.k8s.io", "*", ObjectKind::NotHere),
    ("rbac.authorization.k8s.io", "*", ObjectKind::NotHere),
    ("autoscaling", "*", ObjectKind::NotHere),
];

impl ObjectKind {
    fn of(api: &str, kind: &str) -> Self {
        let group = api.split_once('/').map_or("", |(group, _)| group);
        // The first entry that fits counts, so the `*` of a group stands after its names.
        let fits = |(known, name, _): &&(&str, &str, Self)| *known == group && (*name == kind || *name == "*");
        KINDS.iter().find(fits).map_or(Self::Other, |(.., kind)| *kind)
    }

    /// Says whether such an object is a function.
    #[must_use]
    pub fn is_function(self) -> bool {
        use ObjectKind::{Driver, KeptnTask, KeptnTaskDefinition, KubelessFunction, KymaFunction};
        matches!(
            self,
            KeptnTaskDefinition | KeptnTask | KubelessFunction | KymaFunction | Driver
        )
    }
}

/// An object of a set.
#[derive(Debug, Clone)]
pub struct Object<'d> {
    /// Its value; paths begin here.
    pub root: Item<'d>,
    /// The kind of the object, by `apiVersion` and `kind`.
    pub kind: ObjectKind,
    /// `apiVersion`.
    pub api: &'d str,
    /// `kind`.
    pub word: &'d str,
    /// `metadata.name`; empty if it has none.
    pub name: &'d str,
}

impl<'d> Object<'d> {
    /// Returns where a problem of the whole object is shown: its metadata, or the object if it has none.
    #[must_use]
    pub fn place(&self) -> Item<'d> {
        self.root.get("metadata").unwrap_or_else(|| self.root.clone())
    }
}

/// The objects of a set of files.
#[derive(Debug, Default)]
pub struct Objects<'d>(pub Vec<Object<'d>>);

impl<'d> Objects<'d> {
    /// Finds the objects of documents; a `List` stands for its items.
    #[must_use]
    pub fn of(documents: &'d [Document]) -> Self {
        let mut found = Vec::new();
        for document in documents {
            add(Item::root(document), &mut found);
        }
        Self(found)
    }

    /// Returns the object of a kind and a name.
    #[must_use]
    pub fn find(&self, kind: ObjectKind, name: &str) -> Option<&Object<'d>> {
        self.0.iter().find(|object| object.kind == kind && object.name == name)
    }

    /// Returns the objects of a kind.
    pub fn of_kind(&self, kind: ObjectKind) -> impl Iterator<Item = &Object<'d>> {
        self.0.iter().filter(move |object| object.kind == kind)
    }

    /// Returns the objects that are functions.
    pub fn functions(&self) -> impl Iterator<Item = &Object<'d>> {
        self.0.iter().filter(|object| object.kind.is_function())
    }
}

fn add<'d>(root: Item<'d>, found: &mut Vec<Object<'d>>) {
    let (Some(api), Some(word)) = (root.text_at("apiVersion"), root.text_at("kind")) else {
        return;
    };
    if word.ends_with("List")
        && let Some(items) = root.get("items")
    {
        // A list may be an item of a list. The reader of YAML bounds the depth.
        for item in items.items() {
            add(item.as_root(), found);
        }
        return;
    }
    found.push(Object {
        kind: ObjectKind::of(api, word),
        api,
        word,
        name: root.text_at("metadata.name").unwrap_or_default(),
        root,
    });
}
