//! The problems of a node: their codes, and what each of them means. A code is the label of the metric `fnd_problems`, a field of
//! the events of a problem, and a word of `fndctl explain`.

/// Every code with its meaning, in the order of the codes; `docs/metrics.md` describes each.
pub const NODE_PROBLEMS: &[(&str, &str)] = fnd_manifest::texts! {
    "alert-itself": "`[alert] call` of a function names the function itself: nobody is told when it fails.",
    "audit-failing": "The audit cannot be written, or has a gap since fnd started.",
    "buffers-full": "Bodies and answers of callers fill `[node] buffers`; further ones go to the disk.",
    "clock-ahead":
        "The clock is more than a day ahead of the newest time in the history: no record is forgotten for its age until the clock has \
         been ahead for a day.",
    "configuration": "`fnd.toml` or `conf.d` has a mistake, or `conf.d` or a directory of runtimes cannot be read.",
    "configuration-refused": "The configuration has a mistake, so the last good one is in force.",
    "connections": "The connections of the control socket are used up, by one user or by all.",
    "directory-away": "A functions directory is missing, unreadable or not mounted; its known functions stay.",
    "files": "The files of a function cannot be watched.",
    "functions-directory":
        "A file or directory among the functions cannot be used: its name, its mode, its place, or the files of a directory are a \
         Python project.",
    "functions-unread": "A group or a file in a functions directory cannot be read, or a file is written without end; its known functions stay.",
    "history-failing": "The history cannot be written now.",
    "history-forgotten": "Records of the history were forgotten because the disk was nearly full, since fnd started.",
    "history-incomplete":
        "Queued work could not be read in full from a damaged ledger: durable work is refused until `fndctl verify --repair`.",
    "history-lost": "Records of the history were lost.",
    "history-set-aside":
        "A damaged ledger was set aside and its readable rows are in a new one, until `fndctl verify --repair`.",
    "home-set-aside":
        "The files of a function belong to another owner than before, so it has another home. `fndctl home` hands one over.",
    "hook-cycle": "The hooks of a function are off, because functions call each other in a circle.",
    "http-listener":
        "An address of `[http] listen` cannot be used, a secret has a line that is no credential, connections are scarce, or admitted \
         signatures cannot be written to the disk.",
    "metrics": "`[metrics] listen` or `textfile` does not work.",
    "nats-claim":
        "The claim on a message cannot be read: a newer fnd on another node has written it. The message is given back every minute; \
         update this node. Or the server refuses to write the claim, which is tried again every 5 s: give the bucket, or the account, \
         room. Or a node has a message of a function without a timeout and sends no signs of life, so nothing ends its claim: if the \
         node does not come back, `fndctl nats release F SEQUENCE` lets another one go on.",
    "nats-down":
        "fnd has had no connection to a server of `[events.nats]` for 10 s. Messages wait in their streams, and everything else runs. \
         `fndctl nats` has the server's words; it may be the address, the network, TLS or the credentials. Or three connections were \
         lost within a minute, which whoever may publish to a subject of `reply = true` can do, too. Or `[events.nats]` was \
         removed from fnd.toml before the runs of its messages had ended: the text names them. Put it back, or end them with \
         `fndctl cancel`.",
    "nats-fence":
        "The spawner that runs is older than fnd and cannot end the attempts of a stopped fnd in time. Functions with `interrupted` \
         in `retry.on` get no messages until the spawner is started again with `sudo systemctl stop fnd && sudo systemctl start fnd`.",
    "nats-node":
        "Another fnd, or a copy of this machine, uses the name of this node (`[events.nats] node`, by default the host name) in the same \
         bucket. This one gets no messages until one of the two has another name. Or the configuration has another name or another \
         bucket now, which waits for the end of the messages that are here under the old one.",
    "nats-slow":
        "The server of NATS takes longer for an answer than a sixth of the `ack_wait` of an entry: a longer pause would end attempts. \
         Raise `ack_wait`, or use a server that is nearer.",
    "nats-stalled":
        "The server of NATS answers, and the consumer of an entry of `[[nats]]` does not. fnd asks for its messages anew.",
    "nats-stream":
        "The stream or the consumer of an entry of `[[nats]]`, or the bucket of the claims, is missing or cannot be used; the text says \
         why. fnd looks again every 30 s. Or no stream takes a result or a dead letter; it is published again every five minutes.",
    "no-runtimes": "No directory of runtimes was found, so no function can run.",
    "no-such-function": "`[hooks]` or `[alert]` calls a function that does not exist: nobody is told.",
    "node-cannot-start":
        "The machine has run out of descriptors, processes, memory or room: nothing is started until more is free.",
    "not-operated":
        "`[hooks]` or `[alert]` of a file that is not root's calls a function which the author may not operate: it is not called.",
    "secret":
        "A secret that a route or `[events.nats]` names cannot be read, so the route admits nobody with it, or fnd does not connect.",
    "spawner-silent": "fnd-spawner has not answered for 5 s: nothing can be started.",
    "state-failing": "The values that functions share cannot be read or written.",
    "state-set-aside": "A damaged database of shared values was set aside, until it is removed and `fndctl reload`.",
    "tls": "The certificate or the key of `[http] tls` cannot be read; the last good pair serves.",
};

/// Returns the meaning of a code.
#[must_use]
pub fn node_problem(code: &str) -> Option<&'static str> {
    let found = NODE_PROBLEMS.iter().find(|(known, _)| *known == code);
    found.map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_once_there_and_its_meaning_is_a_sentence() {
        assert!(NODE_PROBLEMS.is_sorted_by(|(one, _), (next, _)| one < next));
        for (code, meaning) in NODE_PROBLEMS {
            assert!(meaning.ends_with('.'), "{code}");
            assert_eq!(node_problem(code), Some(*meaning));
        }
        assert_eq!(node_problem("sunshine"), None);
    }

    #[test]
    fn the_page_describes_the_same_codes() {
        let page = include_str!("../../docs/metrics.md");
        let list = page
            .split("\nEach `code` of `fnd_problems`")
            .nth(1)
            .and_then(|rest| rest.split("\n\n").nth(1))
            .expect("the list");
        let codes = list
            .lines()
            .filter_map(|line| line.strip_prefix("- `")?.split('`').next());
        let mut codes: Vec<&str> = codes.collect();
        codes.sort_unstable();
        let known: Vec<&str> = NODE_PROBLEMS.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, known);
    }
}
