# Installs the gems of functions: `ruby install.rb fnd-build.json` (docs/dependencies.md).
#
# fnd runs it as the function `fnd-build`, in a directory with the files that list the gems. It leaves a tree in
# `$STATE_DIRECTORY/NAME` and tells by the file `.fnd-packages` that the tree is complete; NAME is that of the directory
# above. Exit 75: the network is the reason, and another attempt may succeed. Exit 65: it is not.

require "fileutils"
require "json"
require "open3"
require "rbconfig"

TRANSIENT, FAILED = 75, 65
# Messages of gem and bundler about the network or the index.
NETWORK = /ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|getaddrinfo|(Open|Read)Timeout|execution expired
  |bad response .* 5\d\d|HTTPError|Network error|Could not (reach|connect)/x
PROGRAMS = %w[/usr/bin /usr/local/bin].freeze

def fail_with(why, status = FAILED)
  # What a failed installation has left may fill the disk.
  state = ENV.fetch("STATE_DIRECTORY")
  FileUtils.rm_rf(Dir.children(state).map { |entry| File.join(state, entry) })
  warn why
  exit status
end

# Runs a program; shows its output, and ends with the reason if it fails.
def run(*command, **options)
  puts "+ #{command.join(' ')}"
  $stdout.flush
  network, error = false, nil
  status = Open3.popen2e(*command, **options) do |stdin, output, program|
    stdin.close
    output.each_line do |line|
      print line
      $stdout.flush
      line = line.scrub
      network ||= line.match?(NETWORK)
      error ||= line.strip if line.match?(/^ERROR|^Could not|^Your |^An error|^\[!\]/)
    end
    program.value
  end
  fail_with(error || "#{command.first} ended with #{status.exitstatus}", network ? TRANSIENT : FAILED) unless status.success?
end

request = File.realpath(ARGV.fetch(0))
code = File.dirname(request)
wanted = JSON.parse(File.read(request))
state = ENV.fetch("STATE_DIRECTORY")
tree = File.join(state, File.basename(File.dirname(code)))
gems, home, tmp = File.join(tree, "gems"), File.join(state, "home"), File.join(state, "tmp")
FileUtils.mkdir_p([gems, home, tmp])
listing = wanted["file"] ? File.join(code, wanted["file"]) : File.join(tmp, "gems")
# Only what is in the tree counts as installed: a function with gems has no others than these and Ruby's own.
ENV.update("HOME" => home, "TMPDIR" => tmp, "GEM_HOME" => gems, "GEM_PATH" => gems)
{
  "BUNDLE_APP_CONFIG" => File.join(tmp, "bundle"),
  "BUNDLE_USER_HOME" => File.join(tmp, "bundle-user"),
  "BUNDLE_USER_CACHE" => File.join(ENV.fetch("CACHE_DIRECTORY"), "bundle"),
  "BUNDLE_WITHOUT" => "development:test",
  "BUNDLE_RETRY" => "2",
  "BUNDLE_SILENCE_ROOT_WARNING" => "true",
  "KUBELESS_INSTALL_VOLUME" => tree,
  "KUBELESS_DEPS_FILE" => listing,
  "KUBELESS_FUNC_NAME" => ENV["FND_FUNCTION"].to_s,
}.each { |name, value| ENV[name] ||= value }

offline = ENV.key?("FND_OFFLINE") ? ["--local"] : []
program = lambda do |name, package|
  found = PROGRAMS.map { |directory| File.join(directory, name) }.find { |path| File.exist?(path) }
  found || fail_with("there is no #{name}: `apt install #{package}`")
end
if wanted["file"]
  # Bundler writes its lock beside the Gemfile.
  names = [wanted["file"], "#{wanted['file']}.lock"].select { |name| File.exist?(File.join(code, name)) }
  names.each { |name| FileUtils.cp(File.join(code, name), tmp) }
  gemfile = File.join(tmp, File.basename(wanted["file"]))
  ENV["BUNDLE_GEMFILE"] = gemfile
  ENV["BUNDLE_FROZEN"] ||= "true" if names.size > 1
  run(RbConfig.ruby, program.call("bundle", "ruby-bundler"), "install", *offline, chdir: tmp)
else
  # `NAME`, `NAME:1.2` or `NAME >= 1.2`.
  list = wanted["list"].map { |item| item.split(/\s*:\s*|\s+|(?=[<>=~!])/, 2).join(":") }
  source = ENV.key?("GEM_SOURCE") ? ["--clear-sources", "--source", ENV["GEM_SOURCE"]] : []
  run(RbConfig.ruby, program.call("gem", "ruby"), "install", "--no-document", "--install-dir", gems, *offline, *source, *list, chdir: tmp)
end
specifications = Dir.children(File.join(gems, "specifications")).grep(/\.gemspec\z/).sort
packages = specifications.map { |name| name.delete_suffix(".gemspec").sub(/-(?=\d)/, " ") }
FileUtils.rm_rf(File.join(gems, "cache"))
File.write(File.join(tree, ".fnd-packages"), packages.map { |package| "#{package}\n" }.join)
puts "installed #{packages.size == 1 ? packages.first : "#{packages.size} gems"}"
