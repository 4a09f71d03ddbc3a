# A program that serves HTTP: fnd starts it when it is called, keeps it running, and passes requests to it.
#
# It listens on the port in $PORT. What it prints is the log. Any framework works in the same way; this one uses only what
# comes with Ruby.
require "json"
require "socket"

$stdout.sync = true
server = TCPServer.new("127.0.0.1", ENV["PORT"].to_i)

def answer(client)
  _, path = client.gets.to_s.split
  headers = {}
  while (line = client.gets.to_s.chomp) != ""
    name, value = line.split(":", 2)
    headers[name.downcase] = value.strip
  end
  body = client.read(headers["content-length"].to_i)
  text = JSON.generate(path: path, bytes: body.to_s.bytesize)
  client.write("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: #{text.bytesize}\r\n" \
               "connection: close\r\n\r\n#{text}")
ensure
  client.close
end

loop { Thread.new(server.accept) { |client| answer(client) } }
