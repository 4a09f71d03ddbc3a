# A script: each run is a process of its own.
#
# Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
# Exit codes: 0 success, 75 try again later, 65 never try again, others an error.
require "json"

payload = JSON.parse($stdin.read)
warn "run #{ENV["FND_INVOCATION"]} attempt #{ENV["FND_ATTEMPT"]}"
puts JSON.generate(words: payload["text"].split.size)
