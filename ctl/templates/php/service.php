<?php
// A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
//
// Standard output and standard error are the log: `fndctl logs` shows it.
pcntl_async_signals(true);
pcntl_signal(SIGTERM, function () {
    echo "stopping\n";
    exit(0);
});

echo "started\n";
while (true) {
    echo gmdate('Y-m-d\TH:i:s\Z'), "\n";
    sleep(10);
}
