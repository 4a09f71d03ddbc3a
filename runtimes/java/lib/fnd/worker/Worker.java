package fnd.worker;

import fnd.BadRequest;
import fnd.Logger;
import fnd.Response;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedTransferQueue;

/**
 * Serves the calls: each in a thread, at most as many at once as fnd sends.
 *
 * The main thread reads messages. A thread that has no call waits for the next one, so that calls one behind the other
 * share a thread.
 */
public final class Worker {
    /** Calls that may be in flight at once; {@code [pool] concurrency} says how many fnd uses. */
    private static final int CONCURRENCY = 64;
    /** Tells a thread that no call will come. */
    private static final Wire.Message END = new Wire.Message(Wire.STOP, 0, null);

    private final Wire wire;
    private final Handler handler;
    private final LinkedTransferQueue<Wire.Message> waiting = new LinkedTransferQueue<>();
    private final List<Thread> threads = new ArrayList<>();

    private Worker(Wire wire, Handler handler) {
        this.wire = wire;
        this.handler = handler;
    }

    /** Loads the classes of the function's file, by their names, and serves the handler among them. */
    public static void serve(List<String> names) throws Exception {
        Wire wire = new Wire();
        Handler handler = null;
        try {
            List<Class<?>> classes = new ArrayList<>();
            for (String name : names) {
                classes.add(Class.forName(name, false, Worker.class.getClassLoader()));
            }
            handler = Handler.find(classes);
        } catch (Throwable error) { // whatever it is, it says why the worker cannot serve
            Throwable cause = error instanceof ExceptionInInitializerError && error.getCause() != null ? error.getCause() : error;
            leave(wire, Answer.message(cause), Answer.stack(error));
        }
        new Worker(wire, handler).serve();
    }

    /** Says why the file could not be compiled, by a message and all errors. */
    public static void cannot(List<String> texts) throws Exception {
        leave(new Wire(), texts.get(0), texts.get(1));
    }

    private static void leave(Wire wire, String message, String stack) {
        wire.send(0, Wire.ERROR, Answer.error(message, stack));
        flush();
        // Threads that the file started must not keep a worker alive that cannot serve.
        Runtime.getRuntime().halt(1);
    }

    private void serve() throws IOException {
        String ready = "{\"protocol\":1,\"concurrency\":" + CONCURRENCY + "}";
        wire.send(0, Wire.READY, ready.getBytes(StandardCharsets.UTF_8));
        Wire.Message message = wire.next();
        for (; message != null && message.type() != Wire.STOP; message = wire.next()) {
            give(message);
        }
        // At the end of the socket no caller waits for the running calls.
        if (message != null) {
            finish();
        }
        System.exit(0);
    }

    /** Gives a call to a thread. Without room for one in `limits.pids`, this thread takes the call. */
    private void give(Wire.Message message) {
        if (waiting.tryTransfer(message)) {
            return;
        }
        try {
            if (threads.size() < CONCURRENCY) {
                Thread thread = new Thread(() -> work(message), "call-" + (threads.size() + 1));
                thread.setDaemon(true);
                thread.start();
                threads.add(thread);
                return;
            }
        } catch (OutOfMemoryError noThread) {
            if (threads.isEmpty()) {
                answer(message);
                return;
            }
        }
        waiting.put(message);
    }

    private void work(Wire.Message first) {
        for (Wire.Message message = first; message != END; message = take()) {
            answer(message);
        }
    }

    private Wire.Message take() {
        while (true) {
            // The function may have set the flag. The next call begins without it.
            Thread.interrupted();
            try {
                return waiting.take();
            } catch (InterruptedException interrupted) {
                // By another thread of the function: this one goes on waiting.
            }
        }
    }

    private void finish() {
        threads.forEach(thread -> waiting.put(END));
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private void answer(Wire.Message message) {
        int type = Wire.RESULT;
        byte[] content;
        Call call = null;
        try {
            call = new Call(message.content());
            Logger log = (level, text, fields) -> wire.send(message.call(), Wire.LOG, Answer.record(level, text, fields));
            content = Answer.result(handler.call(call.event(), call.context(handler.name(), log)));
        } catch (BadRequest error) {
            content = Answer.result(new Response(error.getMessage() + "\n", 400));
        } catch (Throwable error) { // whatever a function throws ends its call, not the worker
            type = Wire.ERROR;
            content = Answer.failure(error);
        }
        if (call != null) {
            call.done();
        }
        flush();
        wire.send(message.call(), type, content);
    }

    private static void flush() {
        System.out.flush();
        System.err.flush();
    }
}
