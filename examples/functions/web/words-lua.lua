-- Counts lines, words and bytes. POST: any text
-- /// fnd
-- description = "Counts lines, words and bytes of a text"
-- labels = { team = "web" }
-- on_load = false
-- [limits]
-- timeout = "5s"
-- ///
local text = io.read("a")
local _, lines = text:gsub("\n", "")
local _, words = text:gsub("%S+", "")
print(('{"lines": %d, "words": %d, "bytes": %d}'):format(lines, words, #text))
