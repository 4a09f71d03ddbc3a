//! The names of pm2's keys: those of `lib/API/schema.json` of pm2 6, with their other spellings.

use crate::rows::KeyTexts;
use crate::tree::NamedValue;

/// Keys without which pm2 does something else than fnd, and the difference.
pub(super) const ABSENT: KeyTexts = fnd_manifest::texts! {
    "filter_env env": "pm2 passes on the environment of the shell that starts it; a function gets only `[env]`",
    "shutdown_with_message":
        "pm2 ends a program with SIGINT, and fnd a script with SIGTERM: what cleans up at SIGINT has to do so at SIGTERM",
    "autorestart mode":
        "pm2 starts it again at once, and gives up after 16 ends within a second each; fnd waits 1s and longer each time, and never \
         gives up",
};

/// The rows of keys whose value does not matter, or is not one of those that `App::item` names.
pub(super) const ROWS: KeyTexts = fnd_manifest::texts! {
    "works autostart": "",
    "differs:mode autorestart": "a script: it runs by its schedule, or once when it is saved",
    "refused exec_mode": "it is neither `fork` nor `cluster`",
    "not-here cron_restart":
        "fnd does not restart a service at a time; a crontab can: `fndctl restart F`",
    "differs:env filter_env": "a function gets only `[env]`",
    "differs max_restarts min_uptime stop_exit_codes":
        "fnd never gives up; after five ends in a minute a service is `crash-looping`",
    "not-here wait_ready listen_timeout": "`[service] ready` asks a path of the program",
    "differs shutdown_with_message": "fnd sends SIGTERM, and no message",
    "not-here watch ignore_watch watch_delay watch_options":
        "fnd notices a saved function; it does not watch code in other directories",
    "not-here out_file error_file log_file pid_file merge_logs log_date_format log_type time disable_logs":
        "fnd keeps the output itself: `fndctl logs`",
    "works name namespace vizion automation pmx io v8 event_loop_inspector deep_monitoring append_env_to_name treekill \
     execute_command username windows_hide kill_retry_time": "",
    "not-here name_prefix install_url source_map_support disable_source_map_support instance_var increment_var post_update \
     force trace disable_trace write": "fnd has nothing like it",
};

/// Keys whose value is a text, a number, or `true` or `false`.
pub(super) const SCALARS: &str = "\
    name script cwd exec_interpreter exec_mode instances max_memory_restart restart_delay \
    exp_backoff_restart_delay kill_timeout cron_restart autostart port uid";

/// Keys that are neither in [`ROWS`] nor in [`SCALARS`].
pub(super) const OTHERS: &str = "args env node_args";

/// Returns the name of a key in pm2's schema. pm2 takes each name in `camelCase`, too, and knows other names for some.
pub(super) fn canonical(key: &str) -> String {
    // The rest of these names is that of an environment.
    if key.starts_with("env_") {
        return key.to_owned();
    }
    let mut snake = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    let known = match snake.as_str() {
        "exec" | "cmd" | "command" => "script",
        "interpreter" => "exec_interpreter",
        "interpreter_args" => "node_args",
        "out" | "output" | "out_log" => "out_file",
        "error" | "err" | "err_file" | "err_log" => "error_file",
        "log" => "log_file",
        "pid" => "pid_file",
        "cron" => "cron_restart",
        "combine_logs" => "merge_logs",
        "user" => "uid",
        _ => return snake,
    };
    known.to_owned()
}

/// Returns a key of an app, by any of its names.
pub(super) fn entry<'a>(app: &NamedValue<'a>, key: &str) -> Option<NamedValue<'a>> {
    app.get(key)
        .or_else(|| app.items().into_iter().find(|item| canonical(item.key) == key))
}

/// Replaces the comments of a text in JSON by blanks: pm2 reads `.json` as an expression of JavaScript.
pub(super) fn without_comments(bytes: &mut [u8]) {
    let mut at = 0;
    let mut quote = None;
    while at < bytes.len() {
        let rest = bytes.get_mut(at..).unwrap_or_default();
        let step = match (quote, &*rest) {
            (Some(_), [b'\\', ..]) => 2,
            (Some(open), [byte, ..]) => {
                quote = Some(open).filter(|open| open != byte);
                1
            }
            (None, [byte @ (b'"' | b'\''), ..]) => {
                quote = Some(*byte);
                1
            }
            (None, [b'/', b'/', ..]) => {
                let end = rest_until(rest, b"\n");
                blank(rest, end)
            }
            (None, [b'/', b'*', ..]) => {
                let end = rest_until(rest, b"*/") + 2;
                blank(rest, end)
            }
            _ => 1,
        };
        at += step;
    }
}

/// Returns the place of a mark, or the end.
fn rest_until(rest: &[u8], mark: &[u8]) -> usize {
    let found = rest.windows(mark.len()).position(|part| part == mark);
    found.unwrap_or(rest.len())
}

/// Writes blanks up to a place, and returns the place. Lines stay where they are.
fn blank(rest: &mut [u8], end: usize) -> usize {
    let inside = rest.iter_mut().take(end).filter(|byte| **byte != b'\n');
    inside.for_each(|byte| *byte = b' ');
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::testing::{check_absent, check_rows, keys_of};

    /// Keys that a file may lack without a row, and why.
    const WITHOUT: KeyTexts = fnd_manifest::texts! {
        "name script exec_interpreter args node_args exec_mode instances env port uid":
            "the same without it, or the row of the script tells of it",
        "cwd": "a row of its own tells where the app begins",
        "kill_timeout": "the importer writes pm2's time",
        "max_memory_restart": "the row of the script tells of the default limits",
        "max_restarts min_uptime stop_exit_codes restart_delay exp_backoff_restart_delay":
            "the row of `autorestart`, there or not, tells of the restarts",
        "disable_logs error_file log_date_format log_file log_type merge_logs out_file pid_file time":
            "fnd keeps the output itself",
        "autostart": "both start it",
        "append_env_to_name automation cron_restart deep_monitoring disable_source_map_support disable_trace \
         event_loop_inspector execute_command force ignore_watch increment_var install_url instance_var io \
         kill_retry_time listen_timeout name_prefix namespace pmx post_update source_map_support trace treekill \
         username v8 vizion wait_ready watch watch_delay watch_options windows_hide write": "both have nothing of it",
    };

    #[test]
    fn every_spelling_of_a_key_is_known() {
        for (key, name) in [
            ("errorFile", "error_file"),
            ("err_file", "error_file"),
            ("out", "out_file"),
            ("maxMemoryRestart", "max_memory_restart"),
            ("interpreterArgs", "node_args"),
            ("windowsHide", "windows_hide"),
            ("cmd", "script"),
            ("user", "uid"),
            ("env_productionEU", "env_productionEU"),
            ("odd", "odd"),
        ] {
            assert_eq!(canonical(key), name, "{key}");
        }
    }

    #[test]
    fn comments_become_blanks() {
        for (text, expected) in [
            ("{ // don't\n\"a\": 1 }", "{         \n\"a\": 1 }"),
            ("{/* a\n\"*/\"b\": \"//c\\\"//\"}", "{    \n   \"b\": \"//c\\\"//\"}"),
            ("'//'//x", "'//'   "),
            ("/* open", "       "),
        ] {
            let mut bytes = text.as_bytes().to_vec();
            without_comments(&mut bytes);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn rows_have_verdicts() {
        check_rows(&[ROWS]);
    }

    #[test]
    fn every_key_has_a_verdict_where_it_is_absent() {
        let keys = [SCALARS, OTHERS]
            .into_iter()
            .flat_map(str::split_ascii_whitespace)
            .chain(keys_of(ROWS))
            .collect();
        check_absent(keys, ABSENT, WITHOUT);
    }
}
