//! The keys of a service in the schema of the compose specification (`schema/compose-spec.json`, July 2026): a name that is not
//! here is misspelt.

use crate::names::lists;

const SERVICE: &str = "\
    annotations attach blkio_config build cap_add cap_drop cgroup cgroup_parent command configs container_name cpu_count cpu_percent \
    cpu_period cpu_quota cpu_rt_period cpu_rt_runtime cpu_shares cpus cpuset credential_spec depends_on deploy develop \
    device_cgroup_rules devices dns dns_opt dns_search domainname entrypoint env_file environment expose extends external_links \
    extra_hosts gpus group_add healthcheck hostname image init ipc isolation label_file labels links logging mac_address mem_limit \
    mem_reservation mem_swappiness memswap_limit models network_mode networks oom_kill_disable oom_score_adj pid pids_limit platform \
    ports post_start pre_stop privileged profiles provider pull_policy pull_refresh_after read_only restart runtime scale secrets \
    security_opt shm_size stdin_open stop_grace_period stop_signal storage_opt sysctls tmpfs tty ulimits use_api_socket user \
    userns_mode uts volumes volumes_from working_dir";

/// Says whether compose knows a key of a service.
pub(super) fn is_known(key: &str) -> bool {
    lists(SERVICE, key)
}
