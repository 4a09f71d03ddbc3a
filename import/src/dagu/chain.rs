//! The order of steps that are one chain.

use crate::tree::NamedValue;
use fnd_manifest::foreign::Field;

#[derive(Debug, Clone)]
pub(super) struct DagStep<'a> {
    pub(super) name: String,
    pub(super) item: NamedValue<'a>,
    /// Another name by which steps wait for it.
    id: Option<String>,
    depends: Vec<String>,
}

impl DagStep<'_> {
    fn field(&self) -> Field {
        self.item.named(&self.name)
    }
}

/// Says whether no step says which it waits for.
pub(super) fn is_plain(steps: &NamedValue<'_>) -> bool {
    let steps = steps.items();
    steps.len() > 1 && steps.iter().all(|step| step.get("depends").is_none())
}

/// Returns the steps in their order; `in_order` says that it is that of the file.
///
/// # Errors
/// The step that is not in a chain, and why.
pub(super) fn ordered<'a>(steps: &NamedValue<'a>, in_order: bool) -> Result<Vec<DagStep<'a>>, (Field, String)> {
    let mut found: Vec<DagStep<'a>> = steps
        .items()
        .iter()
        .enumerate()
        .map(|(number, item)| step(number, *item))
        .collect();
    // In dagu a list in the place of a step has steps that run at once.
    if let Some(step) = found.iter().find(|step| step.item.is_list()) {
        let why = "these steps run at once, and functions that call each other are one chain: run them in one script";
        return Err((step.field(), why.to_owned()));
    }
    let ids = found
        .iter()
        .filter_map(|step| Some((step.id.clone()?, step.name.clone())));
    let ids: Vec<(String, String)> = ids.collect();
    for name in found.iter_mut().flat_map(|step| &mut step.depends) {
        if let Some((_, named)) = ids.iter().find(|(id, _)| id.as_str() == name.as_str()) {
            named.clone_into(name);
        }
    }
    if let Some(step) = found.iter().find(|step| step.depends.len() > 1) {
        let why = "it waits for several steps, and a function is called by one: run them in one script";
        return Err((step.field(), why.to_owned()));
    }
    for step in &found {
        let is_missing = |name: &&String| found.iter().all(|other| other.name != **name);
        if let Some(name) = step.depends.iter().find(is_missing) {
            return Err((step.field(), format!("there is no step `{name}`")));
        }
    }
    if in_order || found.len() < 2 {
        return Ok(found);
    }
    let mut chain: Vec<DagStep<'a>> = Vec::new();
    while !found.is_empty() {
        // At first there is none: the first step is the one that depends on none.
        let last = chain.last().map(|step| step.name.clone());
        let (mut next, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|step| step.depends.first() == last.as_ref());
        if let Some(second) = next.get(1) {
            let why = "it runs at once with another step, and functions that call each other are one chain: run them in one script";
            return Err((second.field(), why.to_owned()));
        }
        if next.is_empty() {
            let field = others.first().map_or_else(|| steps.field(), DagStep::field);
            return Err((field, "no step is the first one: they wait for each other".to_owned()));
        }
        chain.append(&mut next);
        found = others;
    }
    Ok(chain)
}

/// Steps are a list, or a map whose keys are their names.
fn step(number: usize, item: NamedValue<'_>) -> DagStep<'_> {
    let id = item.text_of("id");
    // A step without a name has that of its `id`.
    let name = item.text_of("name").or_else(|| id.clone());
    let name = name.unwrap_or_else(|| item.key.to_owned());
    let name = Some(name).filter(|name| !name.is_empty());
    let depends = item.get("depends").map(|depends| match depends.text() {
        Some(name) => vec![name],
        None => depends.items().iter().filter_map(NamedValue::text).collect(),
    });
    DagStep {
        name: name.unwrap_or_else(|| format!("step-{}", number + 1)),
        item,
        id,
        depends: depends.unwrap_or_default(),
    }
}
