//! Services, and timers behind a NUL.

use super::{D, N, PublishedFile, U, W, check};
use crate::Imported;
use crate::systemd::fuzzing;

fn made(text: &str) -> Imported {
    match text.split_once('\0') {
        Some((service, timer)) => fuzzing::made(service, Some(timer)),
        None => fuzzing::made(text, None),
    }
}

#[test]
fn timers() {
    let files: [PublishedFile; 10] = [
        (
            "[Unit]\nDescription=Backup\nAfter=docker.service\n\n[Service]\nType=oneshot\nUser=bot\nExecStart=/opt/bot/backup.sh\n\
             StandardOutput=journal\nStandardError=journal\n\0[Unit]\nDescription=Daily\n\n[Timer]\nOnCalendar=*-*-* 03:00:00 UTC\n\
             Persistent=true\nRandomizedDelaySec=300\n\n[Install]\nWantedBy=timers.target\n",
            1,
            &[
                ("OnCalendar=", W),
                ("User=", D),
                ("AccuracySec=", D),
                ("Persistent=", D),
            ],
        ),
        (
            "[Service]\nType=oneshot\nExecStart=/usr/local/bin/aio --auto-update\nSyslogIdentifier=aio\n\0\
             [Timer]\nOnCalendar=*-*-* 08:00:00\nRandomizedDelaySec=3600\nPersistent=true\n",
            1,
            &[("User=", D), ("SyslogIdentifier=", W), ("RandomizedDelaySec=", W)],
        ),
        (
            "[Service]\nType=oneshot\nWorkingDirectory=/srv/media\nExecStart=/usr/bin/python3 -m poll\n\0\
             [Timer]\nOnCalendar=*-*-* 09:30:00 Asia/Shanghai\nPersistent=true\nUnit=poll.service\n",
            1,
            &[("OnCalendar=", W), ("Unit=", W), ("WorkingDirectory=", W)],
        ),
        (
            "[Service]\nUser=www-data\nExecStart=/usr/bin/php -f /var/www/cloud/cron.php\n\0\
             [Timer]\nOnBootSec=5min\nOnUnitActiveSec=5min\nUnit=cloud.service\n",
            1,
            &[("OnBootSec=", D), ("OnUnitActiveSec=", D)],
        ),
        (
            "[Service]\nType=oneshot\nExecStart=/usr/local/sbin/health\n\0\
             [Timer]\nOnBootSec=90s\nOnUnitActiveSec=60s\nAccuracySec=10s\nPersistent=true\n",
            1,
            &[("OnBootSec=", D), ("AccuracySec=", D)],
        ),
        (
            "[Service]\nType=oneshot\nUser=ann\nWorkingDirectory=/home/ann/x\nExecStart=/usr/bin/bash /home/ann/x/sync.sh\n\0\
             [Timer]\nOnBootSec=2min\nOnUnitActiveSec=10min\nPersistent=true\n",
            1,
            &[("User=", D), ("OnBootSec=", D)],
        ),
        (
            "[Service]\nType=oneshot\nExecStart=/usr/bin/ems\n\0[Unit]\nDescription=Update\nDocumentation=\n\n\
             [Timer]\nOnCalendar=daily\nOnBootSec=180s\nAccuracySec=1\nOnUnitActiveSec=60s\nPersistent=true\n",
            1,
            &[("OnCalendar=", W), ("OnUnitActiveSec=", D)],
        ),
        (
            "[Unit]\nAfter=network-online.target\n[Service]\nType=oneshot\nExecStart=/usr/local/share/x/update.sh\n\0\
             [Timer]\nOnCalendar=*-*-* 03:00:00\nRandomizedDelaySec=1h\nPersistent=true\n",
            1,
            &[("After=", N), ("RandomizedDelaySec=", W)],
        ),
        (
            "[Service]\nType=oneshot\nExecStart=/usr/bin/paper --once\n\0[Timer]\nOnBootSec=1min\nOnUnitActiveSec=5min\nPersistent=true\n",
            1,
            &[("Persistent=", D)],
        ),
        (
            "[Service]\nType=oneshot\nExecStart=/bin/bash -lc \"cd /srv/p && make purge\"\n\0[Timer]\nOnCalendar=*-*-* 02:15:00\nPersistent=true\n",
            1,
            &[("ExecStart=", D), ("OnCalendar=", W)],
        ),
    ];
    check(&files, made);
}

#[test]
fn services() {
    let files: [PublishedFile; 12] = [
        (
            "[Unit]\nAfter=network-online.target\nWants=network-online.target\n[Service]\nType=simple\nUser=root\nWorkingDirectory=/opt/media\n\
             ExecStart=/opt/media/.venv/bin/python /opt/media/app.py\nRestart=on-failure\nRestartSec=3\n[Install]\nWantedBy=multi-user.target\n",
            1,
            &[
                ("User=", D),
                ("Restart=", D),
                ("RestartSec=", W),
                ("StartLimitBurst=", D),
            ],
        ),
        (
            "[Service]\nType=simple\nUser=app\nGroup=app\nWorkingDirectory=/opt/app\nEnvironment=PATH=/opt/app/.venv/bin\n\
             ExecStart=/opt/app/.venv/bin/uvicorn app.main:app --port 8000\nRestart=on-failure\nRestartSec=5s\n\
             StandardOutput=append:/var/log/app/backend.log\n",
            1,
            &[("Group=", D), ("StandardOutput=", N), ("Environment=", W)],
        ),
        (
            "[Service]\nType=simple\nExecStart=/usr/bin/python3 -u /opt/leds.py\nRestart=on-failure\nRestartSec=5\nUser=root\n\
             Environment=BOARD=PI_4B\n# Time for the DMA.\nTimeoutStopSec=15\nKillMode=process\n",
            1,
            &[("KillMode=", N), ("TimeoutStopSec=", W)],
        ),
        (
            "[Service]\nUser=web\nGroup=web\nWorkingDirectory=/opt/web\nExecStart=/opt/web/bin/uvicorn server:app \\\n    --host 127.0.0.1 \\\n    --port 8000\n\
             Restart=on-failure\nRestartSec=5\nTimeoutStopSec=60\nNoNewPrivileges=yes\nRestrictSUIDSGID=yes\nPrivateTmp=yes\nProtectSystem=strict\n\
             ProtectHome=yes\nLockPersonality=yes\nRestrictAddressFamilies=AF_INET\n",
            1,
            &[
                ("RestrictAddressFamilies=", D),
                ("ProtectSystem=", W),
                ("NoNewPrivileges=", W),
            ],
        ),
        (
            "[Service]\nType=simple\nExecStart=/usr/local/bin/gate master\nRestart=on-failure\nRestartSec=3\nLimitNOFILE=65535\n",
            1,
            &[("LimitNOFILE=", W), ("User=", D)],
        ),
        // These two belong to `[Unit]`; systemd still reads the first here, and not the second.
        (
            "[Service]\nUser=ann\nExecStart=/usr/bin/uv run watch\nRestart=on-failure\nRestartSec=5s\nStartLimitBurst=5\nStartLimitIntervalSec=60s\n",
            1,
            &[("StartLimitBurst=", N), ("StartLimitIntervalSec=", U)],
        ),
        (
            "[Service]\nType=simple\nExecStart=/usr/bin/midi -e\nRestart=on-failure\nRestartSec=5\n[Install]\nWantedBy=default.target\n",
            1,
            &[("WantedBy=", W)],
        ),
        (
            "[Service]\nUser=synth\nWorkingDirectory=/opt/synth\nExecStart=/usr/local/bin/bun src/worker.ts\nRestart=on-failure\nRestartSec=5\nTimeoutStopSec=5\n",
            1,
            &[("TimeoutStopSec=", W)],
        ),
        (
            "[Service]\nType=simple\nUser=root\nWorkingDirectory=/etc/V2\nExecStart=/etc/V2/V2 server -c /etc/V2/config.json\nRestart=on-failure\nRestartSec=5s\n",
            1,
            &[("User=", D)],
        ),
        (
            "[Service]\nExecStart=/usr/bin/bash /home/ann/run.sh\nUser=ann\nRestart=on-failure\nRestartSec=60\nKillMode=control-group\nKillSignal=SIGINT\nTimeoutStopSec=120\n",
            1,
            &[("KillSignal=", W), ("KillMode=", W)],
        ),
        (
            "[Service]\nType=notify\nNotifyAccess=main\nWatchdogSec=30s\nDynamicUser=yes\nRuntimeDirectory=fak\nRuntimeDirectoryMode=0700\n\
             ExecStart=/usr/bin/fak service run --interval 15s\nRestart=always\nRestartSec=3s\nUMask=0077\nProtectHome=read-only\n",
            1,
            &[
                ("Type=", D),
                ("NotifyAccess=", N),
                ("DynamicUser=", W),
                ("Restart=", W),
                ("UMask=", W),
            ],
        ),
        (
            "[Service]\nDynamicUser=yes\nStateDirectory=wol\nExecStart=/usr/bin/python3 /opt/wol/app.py\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n\
             CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n",
            1,
            &[
                ("AmbientCapabilities=", N),
                ("CapabilityBoundingSet=", D),
                ("Restart=", D),
            ],
        ),
    ];
    check(&files, made);
}

#[test]
fn units_that_run_once() {
    let files: [PublishedFile; 8] = [
        (
            "[Service]\nType=oneshot\nExecStart=/usr/sbin/ip link set dev ens18 promisc on\nExecStart=/usr/sbin/ethtool -K ens18 gro off\n\
             TimeoutStartSec=0\nRemainAfterExit=yes\n[Install]\nWantedBy=default.target\n",
            1,
            &[("WantedBy=", W), ("RemainAfterExit=", N), ("TimeoutStartSec=", W)],
        ),
        (
            "[Service]\nType=oneshot\nExecStart=/usr/bin/reflector --latest 20 --save /etc/mirrors\n\n[Install]\nWantedBy=multi-user.target\n",
            1,
            &[("WantedBy=", W), ("User=", D)],
        ),
        (
            "[Service]\nType=oneshot\nRemainAfterExit=yes\nUser=root\nGroup=root\nWorkingDirectory=/home/t/docker\nExecStart=/home/t/vpn.sh start\n\
             ExecReload=/home/t/vpn.sh rotate\nExecStop=/home/t/vpn.sh stop\n[Install]\nWantedBy=multi-user.target\n",
            1,
            &[("Group=", N), ("ExecStop=", N), ("ExecReload=", N)],
        ),
        (
            "[Unit]\nAfter=docker.service\nRequires=docker.service\n[Service]\nType=oneshot\nExecStart=/usr/bin/shell gateway start --name nemo\n\
             RemainAfterExit=yes\n[Install]\nWantedBy=multi-user.target\n",
            1,
            &[("Requires=", N), ("WantedBy=", W)],
        ),
        // The type is misspelt and the restart is in the wrong section: systemd ignores both, and keeps a service running.
        (
            "[Unit]\nDescription=Indexer\nRestart=on-failure\n\n[Service]\ntype=oneshot\nRemainAfterExit=yes\nUser=ann\n\
             ExecStart=/bin/bash -c \"docker compose -f /home/ann/c.yaml up -d\"\nExecStop=/bin/bash -c \"docker compose down\"\n[Install]\nWantedBy=multi-user.target\n",
            1,
            &[("Restart=", U), ("type=", U), ("ExecStop=", D)],
        ),
        (
            "[Unit]\nDescription=Set CPU governor\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/bin/governor\n[Install]\nWantedBy=multi-user.target\n",
            1,
            &[("WantedBy=", W)],
        ),
        (
            "[Unit]\nWants=network-online.target\n[Service]\nType=oneshot\nExecStart=/usr/local/bin/gateway.sh\nRemainAfterExit=yes\n[Install]\nWantedBy=multi-user.target\n",
            1,
            &[("Wants=", N)],
        ),
        // Its timer is another file: nothing of this one starts it.
        (
            "[Service]\nType=oneshot\nUser=www-data\nExecStart=/usr/bin/php /srv/cron.php\n",
            1,
            &[("WantedBy=", D)],
        ),
    ];
    check(&files, made);
}
