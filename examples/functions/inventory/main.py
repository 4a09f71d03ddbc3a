"""Reports what this machine is. A file of the same directory is imported as usual."""
import json

from probes import kernel, memory_bytes, packages

if __name__ == "__main__":
    print(json.dumps({"kernel": kernel(), "memory_bytes": memory_bytes(), "packages": packages()}))
