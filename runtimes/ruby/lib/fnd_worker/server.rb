# Serves the calls: each in a thread, at most as many at once as fnd sends.
#
# The main thread reads messages. A thread that has no call waits for the next one, so that calls one behind the other
# share a thread.
module FndWorker
  class Server
    # Calls that may be in flight at once; `[pool] concurrency` says how many fnd uses.
    CONCURRENCY = 64

    def initialize(wire, handler)
      @wire, @handler = wire, handler
      @waiting = Queue.new
      @threads = []
    end

    def serve
      @wire.send(0, Wire::READY, %({"protocol":1,"concurrency":#{CONCURRENCY}}))
      while (message = @wire.next)
        return finish if message[0] == Wire::STOP

        give(message)
      end
      # The end of the socket: no caller waits for the running calls.
      @threads.each(&:kill)
    end

    private

    # Gives a call to a thread. Without room for one in `limits.pids`, this thread takes it.
    def give(message)
      begin
        @threads << Thread.new { work } if @waiting.num_waiting <= @waiting.size
      rescue ThreadError
        return answer(message) if @threads.empty?
      end
      @waiting << message
    end

    def work
      while (message = @waiting.pop)
        answer(message)
      end
    end

    def finish
      @waiting.close
      @threads.each(&:join)
    end

    def answer(message)
      _, call, content = message
      type, content = result(call, content)
      [$stdout, $stderr].each { |stream| stream.flush unless stream.closed? }
      @wire.send(call, type, content)
    end

    def result(call, content)
      made = Call.new(@wire, @handler, call, content)
      [Wire::RESULT, Answer.result(@handler.call(*made.arguments))]
    rescue Fnd::BadRequest => error
      [Wire::RESULT, Answer.result(Fnd::Response.new("#{error.message}\n", status: 400))]
    rescue SystemExit => error
      error.success? ? [Wire::RESULT, Answer.result(nil)] : [Wire::ERROR, Answer.failure(error)]
    rescue Exception => error # whatever a function raises ends its call, not the worker
      [Wire::ERROR, Answer.failure(error)]
    ensure
      made&.done
    end
  end
end
