//! The settings that systemd 257 knows in the sections of services and timers (its `load-fragment-gperf.gperf.in`): a name that is
//! not here is misspelt.

use crate::names::lists;
use crate::rows::{KeyTexts, unknown_key};

/// The settings of `[Service]`.
const SERVICE: &str = "\
    AllowedCPUs AllowedMemoryNodes AmbientCapabilities AppArmorProfile BPFProgram BindLogSockets BindPaths BindReadOnlyPaths \
    BlockIOAccounting BlockIODeviceWeight BlockIOReadBandwidth BlockIOWeight BlockIOWriteBandwidth BusName CPUAccounting CPUAffinity \
    CPUQuota CPUQuotaPeriodSec CPUSchedulingPolicy CPUSchedulingPriority CPUSchedulingResetOnFork CPUShares CPUWeight CacheDirectory \
    CacheDirectoryMode Capabilities CapabilityBoundingSet ConfigurationDirectory ConfigurationDirectoryMode CoredumpFilter \
    CoredumpReceive DefaultMemoryLow DefaultMemoryMin DefaultStartupMemoryLow Delegate DelegateSubgroup DeviceAllow DevicePolicy \
    DisableControllers DynamicUser Environment EnvironmentFile ExecCondition ExecPaths ExecReload ExecSearchPath ExecStart \
    ExecStartPost ExecStartPre ExecStop ExecStopPost ExitType ExtensionDirectories ExtensionImagePolicy ExtensionImages \
    FailureAction FileDescriptorStoreMax FileDescriptorStorePreserve FinalKillSignal Group GuessMainPID IOAccounting \
    IODeviceLatencyTargetSec IODeviceWeight IOReadBandwidthMax IOReadIOPSMax IOSchedulingClass IOSchedulingPriority IOWeight \
    IOWriteBandwidthMax IOWriteIOPSMax IPAccounting IPAddressAllow IPAddressDeny IPCNamespacePath IPEgressFilterPath \
    IPIngressFilterPath IgnoreSIGPIPE ImportCredential InaccessibleDirectories InaccessiblePaths KeyringMode KillMode KillSignal \
    LimitAS LimitCORE LimitCPU LimitDATA LimitFSIZE LimitLOCKS LimitMEMLOCK LimitMSGQUEUE LimitNICE LimitNOFILE LimitNPROC LimitRSS \
    LimitRTPRIO LimitRTTIME LimitSIGPENDING LimitSTACK LoadCredential LoadCredentialEncrypted LockPersonality LogExtraFields \
    LogFilterPatterns LogLevelMax LogNamespace LogRateLimitBurst LogRateLimitIntervalSec LogsDirectory LogsDirectoryMode \
    ManagedOOMMemoryPressure ManagedOOMMemoryPressureDurationSec ManagedOOMMemoryPressureLimit ManagedOOMPreference ManagedOOMSwap \
    MemoryAccounting MemoryDenyWriteExecute MemoryHigh MemoryKSM MemoryLimit MemoryLow MemoryMax MemoryMin MemoryPressureThresholdSec \
    MemoryPressureWatch MemorySwapMax MemoryZSwapMax MemoryZSwapWriteback MountAPIVFS MountFlags MountImagePolicy MountImages NFTSet \
    NUMAMask NUMAPolicy NetClass NetworkNamespacePath Nice NoExecPaths NoNewPrivileges NonBlocking NotifyAccess OOMPolicy \
    OOMScoreAdjust OpenFile PAMName PIDFile PassEnvironment PermissionsStartOnly Personality PrivateBPF PrivateDevices PrivateIPC \
    PrivateMounts PrivateNetwork PrivatePIDs PrivateTmp PrivateUsers ProcSubset ProtectClock ProtectControlGroups ProtectHome \
    ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables ProtectProc ProtectSystem ReadOnlyDirectories \
    ReadOnlyPaths ReadWriteDirectories ReadWritePaths RebootArgument ReloadSignal RemainAfterExit RemoveIPC Restart \
    RestartForceExitStatus RestartKillSignal RestartMaxDelaySec RestartMode RestartPreventExitStatus RestartSec RestartSteps \
    RestrictAddressFamilies RestrictFileSystems RestrictNamespaces RestrictNetworkInterfaces RestrictRealtime RestrictSUIDSGID \
    RootDirectory RootDirectoryStartOnly RootEphemeral RootHash RootHashSignature RootImage RootImageOptions RootImagePolicy \
    RootVerity RuntimeDirectory RuntimeDirectoryMode RuntimeDirectoryPreserve RuntimeMaxSec RuntimeRandomizedExtraSec SELinuxContext \
    SecureBits SendSIGHUP SendSIGKILL SetCredential SetCredentialEncrypted SetLoginEnvironment Slice SmackProcessLabel \
    SocketBindAllow SocketBindDeny Sockets StandardError StandardInput StandardInputData StandardInputText StandardOutput \
    StartLimitAction StartLimitBurst StartLimitInterval StartupAllowedCPUs StartupAllowedMemoryNodes StartupBlockIOWeight \
    StartupCPUShares StartupCPUWeight StartupIOWeight StartupMemoryHigh StartupMemoryLow StartupMemoryMax StartupMemorySwapMax \
    StartupMemoryZSwapMax StateDirectory StateDirectoryMode SuccessExitStatus SupplementaryGroups SyslogFacility SyslogIdentifier \
    SyslogLevel SyslogLevelPrefix SysVStartPriority SystemCallArchitectures SystemCallErrorNumber SystemCallFilter SystemCallLog \
    TTYColumns TTYPath TTYReset TTYRows TTYVHangup TTYVTDisallocate TasksAccounting TasksMax TemporaryFileSystem TimeoutAbortSec \
    TimeoutCleanSec TimeoutSec TimeoutStartFailureMode TimeoutStartSec TimeoutStopFailureMode TimeoutStopSec TimerSlackNSec Type \
    UMask USBFunctionDescriptors USBFunctionStrings UnsetEnvironment User UtmpIdentifier UtmpMode WatchdogSec WatchdogSignal \
    WorkingDirectory";

/// The settings of `[Unit]`, without `Condition...` and `Assert...`.
const UNIT: &str = "\
    After AllowIsolate Before BindTo BindsTo CollectMode Conflicts DefaultDependencies Description Documentation FailureAction \
    FailureActionExitStatus IgnoreOnIsolate JobRunningTimeoutSec JobTimeoutAction JobTimeoutRebootArgument JobTimeoutSec \
    JoinsNamespaceOf OnFailure OnFailureIsolate OnFailureJobMode OnSuccess OnSuccessJobMode PartOf PropagateReloadFrom \
    PropagateReloadTo PropagatesReloadTo PropagatesStopTo RebootArgument RefuseManualStart RefuseManualStop ReloadPropagatedFrom \
    Requires RequiresMountsFor RequiresOverridable Requisite RequisiteOverridable SourcePath StartLimitAction StartLimitBurst \
    StartLimitInterval StartLimitIntervalSec StopPropagatedFrom StopWhenUnneeded SuccessAction SuccessActionExitStatus \
    SurviveFinalKillSignal Upholds Wants WantsMountsFor";

/// The settings of `[Install]`.
const INSTALL: &str = "Alias Also DefaultInstance RequiredBy UpheldBy WantedBy";

/// The note on a signal that systemd ignores for a program unless the unit says otherwise.
const SIGPIPE: &str = "systemd ignores SIGPIPE for the program; here a write to a closed pipe or socket ends a program that does not ignore it \
                       itself";

/// The rows of settings of `[Service]` whose value does not matter.
pub(super) const SERVICE_ROWS: KeyTexts = fnd_manifest::texts! {
    "works CPUAccounting MemoryAccounting TasksAccounting IOAccounting IPAccounting BlockIOAccounting SyslogIdentifier \
     SyslogFacility SyslogLevel GuessMainPID PIDFile NonBlocking": "",
    "differs CapabilityBoundingSet DeviceAllow DevicePolicy IPAddressAllow IPAddressDeny MemoryDenyWriteExecute \
     RestrictAddressFamilies RestrictFileSystems SystemCallArchitectures SystemCallErrorNumber SystemCallFilter":
        "the sandbox has a list of its own for every function (docs/sandbox.md)",
    "not-here StandardOutput StandardError StandardInput TTYPath":
        "fnd keeps the output itself (`fndctl logs`); redirect it in the script if a file needs it",
    "differs StateDirectory": "$STATE_DIRECTORY is a directory of the function's own: copy the files there",
    "differs CacheDirectory": "$CACHE_DIRECTORY is a directory of the function's own: copy the files there",
    "not-here RuntimeDirectory LogsDirectory ConfigurationDirectory":
        "a function has `$STATE_DIRECTORY`, `$CACHE_DIRECTORY` and `$TMPDIR`",
    "not-here LoadCredential LoadCredentialEncrypted SetCredential SetCredentialEncrypted ImportCredential":
        "give fnd the secret (`fndctl secret set`), and name it in `secrets`: the script finds it in `$CREDENTIALS_DIRECTORY`, too",
    "not-here AmbientCapabilities": "a function of root may have some: `[sandbox] capabilities`, as `[users] capabilities` of fnd.toml allows",
    "not-here RemainAfterExit": "the state of a function is that of its last run",
    "not-here SuccessExitStatus RestartPreventExitStatus RestartForceExitStatus":
        "0 is success; for others, write it in the script, or use `retry.not_on_exit`",
    "not-here WatchdogSec NotifyAccess BusName Sockets FileDescriptorStoreMax":
        "fnd takes no messages of a service: use `[service] ready`",
    "not-here LogRateLimitIntervalSec LogRateLimitBurst LogLevelMax": "`limits.output` and `[logs]` bound the output",
    "refused RootDirectory RootImage":
        "its programs are those of another root: name the program with its path on this machine",
    "not-here PassEnvironment UnsetEnvironment": "a function gets only what its manifest says",
    "not-here ExecStop ExecStopPost":
        "fnd runs nothing after the end: write it into the script, behind the command or in a `trap`",
    "not-here ExecReload": "fnd sends no signal for a reload: a saved function is started anew",
    "differs IgnoreSIGPIPE": SIGPIPE,
    "differs RestartSteps": "the pause doubles up to `retry.max_interval`",
    "not-here SendSIGKILL FinalKillSignal SendSIGHUP": "after `limits.grace` fnd sends SIGKILL",
};

/// The rows of the values of `Type=`.
pub(super) const TYPES: KeyTexts = fnd_manifest::texts! {
    "works:mode simple exec idle oneshot": "",
    "differs:mode notify notify-reload dbus": "fnd takes it for ready when it has started; `[service] ready` asks it",
    // A wrapper could wait until every process has ended. But a program that forks into the background closes its output, writes
    // to `/run` and changes its user, which the sandbox forbids: it would only seem to be taken over.
    "refused forking":
        "fnd takes the end of the first process for the end of the service, and then ends the others: start the program \
         with its option to stay in the foreground (its manual names it), and write `Type=simple`",
};

/// The rows of settings of `[Timer]`.
pub(super) const TIMER: KeyTexts = fnd_manifest::texts! {
    "works Unit": "",
    "not-here RandomizedOffsetSec":
        "`H` in `cron` is a number of this function and host; `jitter` is another delay for each run",
    "not-here FixedRandomDelay": "the delay of each run is another one; `H` in `cron` is fixed for a host",
    "not-here WakeSystem": "fnd does not wake the machine; `catch_up` makes up for the run",
    "not-here RemainAfterElapse DeferReactivation": "a schedule stays while its function exists",
    "refused OnClockChange OnTimezoneChange": "fnd runs nothing when the clock or the zone changes",
};

/// The rows of settings of `[Unit]`.
pub(super) const UNIT_ROWS: KeyTexts = fnd_manifest::texts! {
    "works Documentation SourcePath": "",
    "not-here OnFailure": "name a function in `[hooks] on_failure`, or use `[alert]`",
    "not-here OnSuccess": "name a function in `[hooks] on_success`",
};

/// Settings without which systemd does something else than fnd.
pub(super) const ABSENT: KeyTexts = fnd_manifest::texts! {
    "Restart service": "without it systemd leaves a service that has ended; fnd starts it again",
    "RestartSec retry.interval": "systemd waits 100ms each time; fnd waits 1s, and longer each time",
    "StartLimitBurst": "after five starts in ten seconds systemd gives up; fnd never does",
    "IgnoreSIGPIPE": SIGPIPE,
    "PATH env.PATH": "systemd's has /usr/local/sbin and /usr/sbin, too; a function's is /usr/local/bin:/usr/bin:/bin",
};

/// Returns the settings of a section.
fn names_of(section: &str) -> &'static str {
    match section {
        "Service" => SERVICE,
        "Unit" => UNIT,
        "Install" => INSTALL,
        _ => "",
    }
}

/// Says whether systemd knows a setting.
pub(super) fn is_known(section: &str, key: &str) -> bool {
    let is_condition = section == "Unit" && (key.starts_with("Condition") || key.starts_with("Assert"));
    is_condition || lists(names_of(section), key)
}

/// Returns the note on a setting that systemd does not know, with the one that may be meant.
pub(super) fn unknown(section: &str, key: &str) -> String {
    let what = format!("systemd has no such setting in `[{section}]`");
    unknown_key(&what, key, &[], names_of(section))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::testing::check_rows;

    #[test]
    fn a_misspelt_setting_is_none() {
        for (section, key) in [
            ("Service", "ExecStart"),
            ("Service", "WorkingDirectory"),
            ("Unit", "ConditionPathExists"),
            ("Unit", "StartLimitIntervalSec"),
            ("Install", "WantedBy"),
        ] {
            assert!(is_known(section, key), "{section} {key}");
        }
        assert_eq!(
            unknown("Service", "RestartSecs"),
            "systemd has no such setting in `[Service]`; did you mean `RestartSec`?"
        );
        for (section, key) in [
            ("Service", "ExecStartt"),
            ("Service", "After"),
            ("Unit", "Afters"),
            ("Odd", "User"),
        ] {
            assert!(!is_known(section, key), "{section} {key}");
        }
    }

    #[test]
    fn rows_have_verdicts() {
        check_rows(&[SERVICE_ROWS, UNIT_ROWS, TIMER, TYPES]);
    }
}
