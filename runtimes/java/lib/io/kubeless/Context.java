package io.kubeless;

import fnd.Logger;
import java.util.Map;

/** What a handler knows about its function, with the fields of Kubeless, and about this call. */
public class Context {
    public String functionName;
    /** Seconds. */
    public String timeout;
    public String runtime;
    /** Bytes. */
    public String memoryLimit;
    public final String invocation;
    /** 1, 2, ... */
    public final int attempt;
    public final int poll;
    public final String trigger;
    /** The end of this attempt in Unix milliseconds; null without a timeout. */
    public final Long deadline;
    public final String traceparent;
    /** The context that the caller sent; null without one. */
    public final Object keptnContext;
    /** The data of the {@code ExecuteAgainException} of the attempt before, as JSON says it; null without one. */
    public final Object previous;
    /** {@code debug}, {@code info}, {@code warning} and {@code error}. */
    public final Logger log;

    public Context(String functionName, Map<String, String> function, Map<String, Object> call, Object previous, Logger log) {
        this.functionName = functionName;
        this.timeout = function.get("FUNC_TIMEOUT");
        this.runtime = function.get("FUNC_RUNTIME");
        this.memoryLimit = function.get("FUNC_MEMORY_LIMIT");
        this.invocation = (String) call.get("invocation");
        this.attempt = ((Number) call.get("attempt")).intValue();
        this.poll = ((Number) call.get("poll")).intValue();
        this.trigger = (String) call.get("trigger");
        this.deadline = (Long) call.get("deadline_ms");
        this.traceparent = (String) call.get("traceparent");
        this.keptnContext = call.get("context");
        this.previous = previous;
        this.log = log;
    }

    /** Writes a log record; the level is {@code debug}, {@code info}, {@code warning} or {@code error}. */
    public void log(String level, Object text, Map<String, ?> fields) {
        log.log(level, text, fields);
    }
}
