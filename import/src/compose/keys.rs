//! The keys whose value does not matter. The last row of a service has all keys of the schema of the compose specification
//! (`schema/compose-spec.json`, July 2026): a name that is not there is misspelt.

use crate::rows::KeyTexts;

/// The rows of keys beside `services`.
pub(super) const FILE: KeyTexts = fnd_manifest::texts! {
    "works version name": "",
    "not-here models": "fnd runs no models",
    "not-here volumes networks": "functions share the machine's files and network",
    "not-here secrets configs":
        "give fnd a secret with `fndctl secret set`, and name it in `secrets`; copy a file into the function",
    "not-here include": "import the files that it names one by one",
};

/// The rows of keys of a service.
pub(super) const SERVICE: KeyTexts = fnd_manifest::texts! {
    "works annotations attach container_name hostname init labels platform pull_policy stdin_open tty": "",
    // The sandbox does so for every function.
    "works:sandbox.profile cap_drop read_only tmpfs": "",
    "refused env_file":
        "remove this line, and import the rest; then copy the file into the function, and name it in `env_file`; secrets are safer in \
         `secrets`",
    "not-here ports expose": "the program listens on the machine's own ports: give it the one on the left",
    "not-here volumes": "it sees the machine's files: show what the sandbox hides with `read_only` and `read_write`",
    "not-here healthcheck": "`[service] ready = \"path:/healthz\"` asks a path of the program",
    "not-here depends_on links": "functions have no order: a service is started again until it works",
    "not-here logging": "fnd keeps the output itself: `fndctl logs`, `[logs]`",
    "not-here privileged cap_add devices security_opt pid ipc": "a function has no privileges; see `[sandbox]`",
    "not-here \
     annotations attach blkio_config build cap_add cap_drop cgroup cgroup_parent command configs container_name cpu_count cpu_percent \
     cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares cpus cpuset credential_spec depends_on deploy develop \
     device_cgroup_rules devices dns dns_opt dns_search domainname entrypoint env_file environment expose extends external_links \
     extra_hosts gpus group_add healthcheck hostname image init ipc isolation label_file labels links logging mac_address mem_limit \
     mem_reservation mem_swappiness memswap_limit models network_mode networks oom_kill_disable oom_score_adj pid pids_limit platform \
     ports post_start pre_stop privileged profiles provider pull_policy pull_refresh_after read_only restart runtime scale secrets \
     security_opt shm_size stdin_open stop_grace_period stop_signal storage_opt sysctls tmpfs tty ulimits use_api_socket user \
     userns_mode uts volumes volumes_from working_dir": "fnd has nothing like it",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::testing::{check_absent, check_rows, keys_of};

    /// Keys that a file may lack without a row, and why.
    const WITHOUT: KeyTexts = fnd_manifest::texts! {
        "image build": "the program of `command` runs",
        "command entrypoint": "a service without both is refused",
        "working_dir": "both begin in the directory of the file",
        "stop_grace_period stop_signal": "the importer writes the time of compose, and both send SIGTERM",
        "deploy scale": "both start one process",
        "mem_limit pids_limit cpus user": "the row of the command tells of the default limits and of the user",
        "logging": "fnd keeps the output itself",
        "annotations attach blkio_config cap_add cap_drop cgroup cgroup_parent configs container_name cpu_count \
         cpu_percent cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares cpuset credential_spec depends_on \
         develop device_cgroup_rules devices dns dns_opt dns_search domainname env_file environment expose extends \
         external_links extra_hosts gpus group_add healthcheck hostname init ipc isolation label_file labels links \
         mac_address mem_reservation mem_swappiness memswap_limit models networks oom_kill_disable oom_score_adj pid \
         platform ports post_start pre_stop privileged profiles provider pull_policy pull_refresh_after read_only \
         runtime secrets security_opt shm_size stdin_open storage_opt sysctls tmpfs tty ulimits use_api_socket \
         userns_mode uts volumes volumes_from": "both have nothing of it",
    };

    #[test]
    fn rows_have_verdicts() {
        check_rows(&[FILE, SERVICE]);
    }

    #[test]
    fn every_key_has_a_verdict_where_it_is_absent() {
        let keys = keys_of(SERVICE);
        check_absent(keys, super::super::ABSENT, WITHOUT);
    }
}
