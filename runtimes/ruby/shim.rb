# The shim of runtime ruby: loads a function's file and serves it over descriptor 3 (runtimes/PROTOCOL.md).
#
# It only loads the file and finds the handler. The rest is in `lib`, in modules of their own, so that a function sees no
# name of it by accident.

$stdout.sync = true
$LOAD_PATH.unshift(File.join(__dir__, "lib"))
require "fnd_worker/wire"
require "fnd_worker/answer"
require "fnd_worker/event"
require "fnd_worker/server"

module FndWorker
  # The method that is called, and how it is called.
  class Handler
    attr_reader :name

    def initialize(method)
      @method, @name = method, method.name.to_s
      @parameters = Handler.parameters(method)
    end

    def call(event, context)
      @method.call(*[event, context].first(@parameters))
    end

    # Returns how many arguments a method takes, at most 2.
    def self.parameters(method)
      method.arity.negative? ? 2 : [method.arity, 2].min
    end

    # Returns a method that the file defines at the top level.
    def self.defined(name)
      method = TOPLEVEL_BINDING.receiver.method(name)
      # `Kernel` has methods for every object, such as `test`.
      method if method.owner == Object || method.owner == TOPLEVEL_BINDING.receiver.singleton_class
    rescue NameError
      nil
    end

    def self.find
      wanted = ENV["FUNC_HANDLER"].to_s
      unless wanted.empty?
        method = defined(wanted)
        return new(method) if method

        raise LoadError, "the file has no method `#{wanted}`, which `handler` of the manifest names"
      end
      method = defined("handler")
      return new(method) if method

      method = defined("main")
      return new(method) if method && parameters(method) == 2

      raise LoadError, "the file has no `handler(event, context)` or `main(event, context)`"
    end
  end

  def self.load_handler(entry)
    ARGV.clear
    $LOAD_PATH.unshift(File.dirname(entry))
    load(entry)
    Handler.find
  end

  def self.main(entry)
    wire = Wire.new(3)
    begin
      handler = load_handler(entry)
    rescue Exception => error # also SystemExit: a worker that ends before it is ready says why
      wire.send(0, Wire::ERROR, Answer.failure(error, loading: true))
      $stderr.flush
      # Threads that the file started must not keep a worker alive that cannot serve.
      exit!(1)
    end
    Server.new(wire, handler).serve
  end
end

FndWorker.main(ARGV.first)
