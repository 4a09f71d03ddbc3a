-- Greets. GET of a route: the query is in a variable. Without a route: fndctl invoke web/hello-lua
-- /// fnd
-- description = "Greets who is named in the query"
-- labels = { team = "web" }
-- on_load = false
-- [limits]
-- timeout = "5s"
-- ///
local query = os.getenv("QUERY_STRING") or ""
local name = ("&" .. query):match("&name=([^&]*)") or "you"
name = name:gsub("%+", " "):gsub("%%(%x%x)", function(digits)
    return string.char(tonumber(digits, 16))
end)
print("hello, " .. name)
