-- A script: each run is a process of its own.
--
-- Standard input is the payload, and so is the variable DATA. Standard output is the result; standard error is the log.
-- Exit codes: 0 success, 75 try again later, 65 never try again, others an error. For JSON: apt install lua-cjson.
local payload = io.read("a")
io.stderr:write("run ", os.getenv("FND_INVOCATION"), " attempt ", os.getenv("FND_ATTEMPT"), "\n")
local _, words = payload:gsub("%a+", "")
print(('{"words": %d}'):format(words))
