"""Runs, inside the virtual machine, the commands of the test.

Reads one JSON object a line from the virtio port: `{"id", "command", "input"}`. Runs the command with bash, any number at
once, and writes `{"id", "code", "stdout", "stderr"}`. Says `{"boot": ID}` when it starts, so that the test knows of a reboot.
"""
import json
import os
import subprocess
import sys
import threading
import time

PORT = "/dev/virtio-ports/fnd"
writing = threading.Lock()


def write(port, message):
    data = json.dumps(message).encode() + b"\n"
    with writing:
        while data:
            data = data[os.write(port, data):]


def run(port, request):
    done = subprocess.run(
        ["bash", "-c", request["command"]],
        input=request.get("input", "").encode(), capture_output=True, cwd="/", check=False,
    )
    write(port, {
        "id": request["id"],
        # As a shell says it: 128 and the signal's number.
        "code": done.returncode if done.returncode >= 0 else 128 - done.returncode,
        "stdout": done.stdout.decode(errors="replace"),
        "stderr": done.stderr.decode(errors="replace"),
    })


def main():
    port = os.open(PORT, os.O_RDWR)
    # Ends what an agent before this one may have left half written.
    os.write(port, b"\n")
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
        write(port, {"boot": boot.read().strip()})
    rest = b""
    while True:
        data = os.read(port, 65536)
        if not data:
            # The host has not opened its end, and a program cannot wait for that on this port.
            time.sleep(0.2)
            continue
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            threading.Thread(target=run, args=(port, json.loads(line)), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
