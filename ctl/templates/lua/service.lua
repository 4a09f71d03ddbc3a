-- A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
--
-- Standard output and standard error are the log: `fndctl logs` shows it. Each line is seen when it is printed.
io.stdout:setvbuf("line")

print("started")
while true do
    print(os.date("!%Y-%m-%dT%H:%M:%SZ"))
    os.execute("sleep 10")
end
