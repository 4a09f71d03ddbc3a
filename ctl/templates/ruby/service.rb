# A service: fnd keeps it running, restarts it when it ends, and stops it with SIGTERM.
#
# Standard output and standard error are the log: `fndctl logs` shows it.
require "time"

# Each line is seen when it is printed.
$stdout.sync = true
trap("TERM") do
  puts "stopping"
  exit
end

puts "started"
loop do
  puts Time.now.utc.iso8601
  sleep 10
end
