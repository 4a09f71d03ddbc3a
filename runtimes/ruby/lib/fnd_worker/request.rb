# The payload by its content type, and the HTTP request that brought it.
require "json"

module FndWorker
  module Payload
    # Levels of nesting in JSON.
    DEPTH_MAX = 1000

    module_function

    def value(bytes)
      JSON.parse(bytes.dup.force_encoding(Encoding::UTF_8), max_nesting: DEPTH_MAX)
    end

    def media_type(content_type)
      content_type&.split(";", 2)&.first.to_s.strip.downcase if content_type
    end

    # Returns a payload by its content type: as JSON, text or bytes. Without content type: JSON if it parses, else text.
    def decode(payload, content_type)
      return nil if payload.nil?

      kind = media_type(content_type)
      return parse(payload) if kind == "application/json"
      return text(payload, content_type) if kind&.start_with?("text/")
      return payload if kind

      text = payload.dup.force_encoding(Encoding::UTF_8)
      return payload unless text.valid_encoding?

      begin
        value(text)
      rescue JSON::ParserError
        text
      end
    end

    def parse(payload)
      text = payload.dup.force_encoding(Encoding::UTF_8).delete_prefix("\u{feff}")
      text.empty? ? nil : value(text)
    rescue JSON::ParserError, ArgumentError => error
      raise ArgumentError, "the content type says JSON, but the payload is not: #{error.message}"
    end

    def text(payload, content_type)
      charset = content_type.to_s[/;\s*charset\s*=\s*"?([^";\s]+)/i, 1] || "utf-8"
      encoding = begin
        Encoding.find(charset)
      rescue ArgumentError
        Encoding::UTF_8
      end
      text = payload.dup.force_encoding(encoding)
      text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
    rescue EncodingError
      payload.dup.force_encoding(Encoding::UTF_8).scrub
    end

    # Splits a CloudEvent into its data, and its attributes as `ce-NAME`.
    def structured(payload)
      event = parse(payload || "")
      raise ArgumentError, "the content type says CloudEvent, but the payload is not a JSON object" unless event.is_a?(Hash)

      data, bytes = event.delete("data"), event.delete("data_base64")
      data = decode(bytes.unpack1("m"), event["datacontenttype"] || "application/octet-stream") if bytes
      [data, event.transform_keys { |name| "ce-#{name}" }]
    end
  end

  # Headers by name; upper and lower case are equal.
  class Headers < Hash
    def [](name)
      super(name.to_s.downcase)
    end

    def key?(name)
      super(name.to_s.downcase)
    end

    def fetch(name, *default, &block)
      super(name.to_s.downcase, *default, &block)
    end
  end

  # The HTTP request of an invocation. An invocation without one gets a request that would have started it.
  class Request
    attr_reader :method, :path, :query_string, :headers, :content_type

    def initialize(head, payload)
      @made, @payload = head["request"] || {}, payload
      @method = @made["method"] || (payload.nil? ? "GET" : "POST")
      @path, @query_string = @made["path"] || "/", @made["query"] || ""
      @headers = Headers.new
      (@made["headers"] || []).each do |name, value|
        @headers[name] = @headers.key?(name) ? "#{@headers[name]}, #{value}" : value
      end
      @content_type = head["content_type"] || @headers["content-type"]
      @headers["content-type"] ||= @content_type if @content_type
    end

    def get_header(name, default = nil)
      @headers.fetch(name, default)
    end

    def url
      @query_string.empty? ? @path : "#{@path}?#{@query_string}"
    end

    # The parameters behind the `?` by name; the last value of each.
    def query
      @query ||= begin
        require "uri"
        URI.decode_www_form(@query_string).to_h
      end
    end

    # The body as bytes.
    def body
      @payload || "".b
    end

    def text
      Payload.text(body, @content_type)
    end

    def json
      Payload.parse(body) if Payload.media_type(@content_type) == "application/json"
    end

    # The fields of a form, urlencoded or multipart; empty for a body of another type.
    def forms
      form.first
    end

    # The files of a multipart form.
    def files
      form.last
    end

    # Removes what the form has left in `TMPDIR`.
    def done
      files.each_key { |name| files.getall(name).each(&:forget) } if @form
    end

    # The parameters of the route, by name.
    def params
      (@made["params"] || []).to_h
    end

    # What a route adds; nil without one.
    { route: "route", remote_addr: "remote", scheme: "scheme", host: "host", protocol: "protocol" }.each do |name, key|
      define_method(name) { @made[key] }
    end

    private

    def form
      @form ||= begin
        require "fnd_worker/form"
        case Payload.media_type(@content_type)
        when "multipart/form-data" then Form.multipart(body, @content_type)
        when "application/x-www-form-urlencoded" then Form.urlencoded(body)
        else [Values.new, Values.new]
        end
      end
    end
  end
end
