package fnd.worker;

import fnd.Logger;
import io.kubeless.Context;
import io.kubeless.Event;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;

/** One call: the parts of its Invoke, and what the handler gets. */
final class Call {
    /** Names of the event, and the attributes of a CloudEvent that stand in for them. */
    private static final Map<String, String> NAMES = Map.of(
        "event-id", "ce-id", "event-type", "ce-type", "event-time", "ce-time", "event-namespace", "ce-source"
    );
    private final Map<String, Object> head;
    private final byte[] payload;
    private final byte[] previous;
    private final HttpRequest request;

    @SuppressWarnings("unchecked")
    Call(byte[] content) {
        ByteBuffer parts = ByteBuffer.wrap(content).order(ByteOrder.LITTLE_ENDIAN);
        head = (Map<String, Object>) JsonReader.read(text(part(parts, (long) parts.getInt())));
        payload = part(parts, head.get("data"));
        previous = part(parts, head.get("previous"));
        request = new HttpRequest(head, payload);
    }

    /** Removes what the call has left in {@code TMPDIR}. */
    void done() {
        request.done();
    }

    private static byte[] part(ByteBuffer parts, Object length) {
        if (length == null) {
            return null;
        }
        byte[] bytes = new byte[((Long) length).intValue()];
        parts.get(bytes);
        return bytes;
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @SuppressWarnings("unchecked")
    Event event() {
        Map<String, String> headers = request.headers();
        Map<String, Object> attributes = new LinkedHashMap<>();
        String data = request.text();
        // A function that reads JSON by a library of its own has the text parsed once.
        Supplier<Object> value = new Once(() -> Payload.decode(payload, request.contentType()));
        if ("application/cloudevents+json".equals(Payload.mediaType(request.contentType()))) {
            Payload.CloudEvent event = Payload.structured(request.body());
            attributes.putAll(event.attributes());
            value = event::data;
            data = content(event.data(), attributes.get("ce-datacontenttype"));
        } else if (headers.containsKey("ce-type") && headers.containsKey("ce-source")) {
            headers.forEach((name, header) -> {
                if (name.startsWith("ce-")) {
                    attributes.put(name, header);
                }
            });
        }
        NAMES.forEach((name, attribute) -> {
            Object found = headers.containsKey(name) ? headers.get(name) : attributes.get(attribute);
            attributes.put(name, found == null ? null : found.toString());
        });
        // Without an event of its own, the invocation is one.
        String type = request.contentType();
        attributes.putIfAbsent("event-id", head.get("invocation"));
        attributes.putIfAbsent("event-type", type == null || type.isEmpty() ? "application/json" : type);
        attributes.putIfAbsent("event-time", head.get("time"));
        attributes.putIfAbsent("event-namespace", "fnd/" + head.get("trigger"));
        Map<String, Object> extensions = new LinkedHashMap<>(Map.of("request", request));
        if (head.get("cause") instanceof Map<?, ?> cause) {
            extensions.putAll((Map<String, Object>) cause);
        }
        return new Event(data, value, attributes, request, extensions);
    }

    /** Returns the data of a CloudEvent as text. */
    private static String content(Object data, Object type) {
        if (data instanceof byte[] bytes) {
            return Payload.text(bytes, type instanceof String known ? known : null);
        } else if (data instanceof String known) {
            return known;
        }
        return data == null ? "" : JsonWriter.write(data);
    }

    Context context(String handler, Logger log) {
        Object left = previous == null ? null : JsonReader.read(text(previous));
        return new Context(handler, System.getenv(), head, left, log);
    }

    /** Computes a value when it is asked for, and once. */
    private static final class Once implements Supplier<Object> {
        private Supplier<Object> source;
        private Object value;

        Once(Supplier<Object> source) {
            this.source = source;
        }

        @Override
        public synchronized Object get() {
            if (source != null) {
                value = source.get();
                source = null;
            }
            return value;
        }
    }
}
