//! `GET /v1/status[?functions=0]`: the node and its functions, or the node alone, whose numbers are kept and need no list;
//! for a caller without a role for the node only the functions that it may view.

use crate::backend::FunctionFilter;
use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, long_json};

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    let listed = call.request.query(&["functions"])?.switch_or("functions", true)?;
    let mut node = call.backend.node_status();
    // The numbers of a caller without a role for the node are those of its functions, and only the list has them.
    if listed || call.reach.node().is_none() {
        let filter = FunctionFilter {
            reach: call.reach.clone(),
            ..FunctionFilter::default()
        };
        node.functions = call.backend.functions(filter).await;
        node = node.reduced(&call.reach);
    }
    if !listed {
        node.functions = Vec::new();
    }
    let items = node.functions.len();
    long_json(node, items).await
}
