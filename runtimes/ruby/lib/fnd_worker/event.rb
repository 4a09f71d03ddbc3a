# Makes the arguments of a handler: the event and the context of Kubeless.
require "fnd_worker/request"

module FndWorker
  # A hash with names such as `event-type` as keys. Symbols mean the same names, as in Kubeless: `event[:data]`,
  # `event[:"event-type"]`, `event[:event_type]`.
  class Names < Hash
    def [](key)
      super(name(key))
    end

    def []=(key, value)
      super(name(key), value)
    end

    def key?(key)
      super(name(key))
    end
    alias include? key?
    alias has_key? key?

    def fetch(key, *default, &block)
      super(name(key), *default, &block)
    end

    def dig(key, *rest)
      value = self[key]
      rest.empty? || value.nil? ? value : value.dig(*rest)
    end

    def values_at(*keys)
      keys.map { |key| self[key] }
    end

    private

    def name(key)
      key.is_a?(Symbol) ? key.to_s.tr("_", "-") : key
    end
  end

  # The context also has its logger as a method: `context.log.info("order", id: 7)`.
  class Context < Names
    def log
      self["log"]
    end
  end

  # Log records of one call; keywords become fields.
  class Logger
    def initialize(wire, call)
      @wire, @call = wire, call
    end

    { debug: "debug", info: "info", warn: "warning", warning: "warning", error: "error", fatal: "error" }.each do |name, level|
      define_method(name) do |text = nil, **fields, &block|
        @wire.send(@call, Wire::LOG, Answer.record(level, text || block&.call, fields))
        true
      end
    end
  end

  # One call: the parts of its Invoke, and what the handler gets.
  class Call
    FUNCTION = {
      "timeout" => (ENV["FUNC_TIMEOUT"] || 180).to_f,
      "runtime" => ENV["FUNC_RUNTIME"],
      "memory-limit" => ENV["FUNC_MEMORY_LIMIT"],
    }.freeze
    NAMES = {
      "event-id" => "ce-id", "event-type" => "ce-type", "event-time" => "ce-time", "event-namespace" => "ce-source"
    }.freeze

    def initialize(wire, handler, call, content)
      @wire, @handler, @call = wire, handler, call
      size = content.unpack1("V")
      @head = Payload.value(content.byteslice(4, size))
      rest = 4 + size
      @payload = content.byteslice(rest, @head["data"]) if @head["data"]
      @previous = content.byteslice(rest + (@head["data"] || 0), @head["previous"]) if @head["previous"]
    end

    def arguments
      [event, context]
    end

    # Removes what the call has left in `TMPDIR`.
    def done
      @request&.done
    end

    private

    def event
      request = @request = Request.new(@head, @payload)
      event, headers = Names.new, request.headers
      data, attributes = content(request)
      event["data"] = data
      event["extensions"] = Names.new.merge!("request" => request, **(@head["cause"] || {}))
      # Without an event of its own, the invocation is one.
      own = [@head["invocation"], request.content_type || "application/json", @head["time"], "fnd/#{@head["trigger"]}"]
      NAMES.zip(own) { |(name, attribute), value| event[name] = headers[name] || attributes[attribute] || value }
      event.merge!(attributes)
    end

    # Returns the payload, and the attributes of the CloudEvent that it is or comes with.
    def content(request)
      if Payload.media_type(request.content_type) == "application/cloudevents+json"
        Payload.structured(@payload)
      else
        headers = request.headers
        is_event = headers.key?("ce-type") && headers.key?("ce-source")
        attributes = is_event ? headers.select { |name, _| name.start_with?("ce-") } : {}
        [Payload.decode(@payload, request.content_type), attributes.to_h]
      end
    end

    def context
      context = Context.new.merge!(FUNCTION)
      context["function-name"] = @handler.name
      %w[invocation attempt poll trigger traceparent].each { |name| context[name] = @head[name] }
      context["deadline"] = @head["deadline_ms"]
      context["keptn-context"] = @head["context"]
      context["previous"] = @previous && Payload.value(@previous)
      context["log"] = Logger.new(@wire, @call)
      context
    end
  end
end
