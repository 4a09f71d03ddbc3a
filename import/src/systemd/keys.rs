//! The settings that systemd 257 knows in the sections of services and timers (its `load-fragment-gperf.gperf.in`): a name that is
//! not here is misspelt.

use crate::names::lists;

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

/// Says whether systemd knows a setting.
pub(super) fn is_known(section: &str, key: &str) -> bool {
    let names = match section {
        "Service" => SERVICE,
        "Unit" if key.starts_with("Condition") || key.starts_with("Assert") => return true,
        "Unit" => UNIT,
        "Install" => INSTALL,
        _ => "",
    };
    lists(names, key)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for (section, key) in [
            ("Service", "ExecStartt"),
            ("Service", "After"),
            ("Unit", "Afters"),
            ("Odd", "User"),
        ] {
            assert!(!is_known(section, key), "{section} {key}");
        }
    }
}
