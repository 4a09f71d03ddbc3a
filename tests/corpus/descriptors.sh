#!/usr/bin/env bash
# Nothing of the daemon is open: 3 is the directory that ls itself reads.
ls /proc/self/fd | tr "\n" " "
