package io.kubeless;

import fnd.BadRequest;
import fnd.Request;
import java.util.Map;
import java.util.function.Supplier;

/** The event of a call, with the fields of Kubeless. */
public class Event {
    /** The payload as text; empty without a payload. */
    public String Data;
    /** The headers of these names, else the attributes of the CloudEvent; null where there is none. */
    public String EventID;
    public String EventType;
    public String EventTime;
    public String EventNamespace;
    /** The HTTP request. */
    public final Request request;
    /** {@code request}, and what caused the call, for example {@code schedule}. */
    public final Map<String, Object> extensions;
    private final Supplier<Object> value;
    private final Map<String, Object> attributes;

    public Event(
        String data, Supplier<Object> value, Map<String, Object> attributes, Request request, Map<String, Object> extensions
    ) {
        this.Data = data;
        this.value = value;
        this.attributes = attributes;
        this.EventID = (String) attributes.get("event-id");
        this.EventType = (String) attributes.get("event-type");
        this.EventTime = (String) attributes.get("event-time");
        this.EventNamespace = (String) attributes.get("event-namespace");
        this.request = request;
        this.extensions = extensions;
    }

    /**
     * Returns the payload by its content type: JSON as a Map, List, String, Number, Boolean or null, text as a String, other
     * types as byte[].
     */
    public Object data() {
        return value.get();
    }

    /** Returns the payload if it is a JSON object; else the call is answered with status 400. */
    @SuppressWarnings("unchecked")
    public Map<String, Object> map() {
        if (value.get() instanceof Map<?, ?> map) {
            return (Map<String, Object>) map;
        }
        throw new BadRequest("the payload is not a JSON object");
    }

    /** Returns what has a name with hyphens: {@code event-type}, {@code ce-source}; null if there is none. */
    public Object get(String name) {
        return attributes.get(name);
    }
}
