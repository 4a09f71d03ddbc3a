package fnd;

import java.util.Map;

/** An answer with a status and headers. The body is text, bytes, null, or anything that JSON can say. */
public record Response(Object body, int status, Map<String, ?> headers) {
    public Response(Object body, int status) {
        this(body, status, Map.of());
    }
}
