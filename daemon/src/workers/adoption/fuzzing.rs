//! The fuzzer's entry to adoption records.

use super::AdoptionRecord;
use fnd_core::run::{Adopted, AdoptedMember, Event, NodeBudget, Now, Restored, Supervisor};
use fnd_wire::ids::WorkerId;
use std::time::Duration;

/// Adopts a worker with this record, and lets all its limits pass.
///
/// # Panics
/// The record that is written is not the one that was read.
pub fn adoption_record(bytes: &[u8]) {
    let Ok(record) = serde_json::from_slice::<AdoptionRecord<'static>>(bytes) else {
        return;
    };
    let text = serde_json::to_string(&record).expect("it was read");
    let again: AdoptionRecord<'static> = serde_json::from_str(&text).expect("it was written");
    assert_eq!(serde_json::to_string(&again).expect("it was read"), text);
    let worker = WorkerId(1);
    let age = Duration::from_secs(10);
    for ended in [false, true] {
        let mut restored = Restored::default();
        match serde_json::from_str(&text).expect("it was written") {
            AdoptionRecord::Attempt { note, .. } => restored.adopted.push(Adopted {
                worker,
                record: *note,
                age,
                termed: None,
                ended,
            }),
            AdoptionRecord::Member(handler) => {
                restored
                    .members
                    .extend(handler.handed_over.map(|member_record| AdoptedMember {
                        worker,
                        record: *member_record,
                        age,
                        ended,
                        is_fenced: false,
                    }))
            }
        }
        let mut supervisor = Supervisor::new(
            1,
            NodeBudget {
                memory: 1 << 30,
                cpu_milli: None,
                workers: 100,
            },
            WorkerId(2),
        );
        let mut now = Now {
            mono: Duration::from_secs(100),
            unix_ms: 1_800_000_000_000,
        };
        let mut actions = Vec::new();
        supervisor.handle(now, Event::Restored(Box::new(restored)), &mut actions);
        supervisor.handle(now, Event::Scanned { whole: true }, &mut actions);
        let _ = (supervisor.script_record(worker), supervisor.member_record(worker));
        for _ in 0..20 {
            let Some(due) = supervisor.next_deadline() else { break };
            now.mono = now.mono.max(due);
            supervisor.handle(now, Event::Tick, &mut actions);
        }
    }
}
