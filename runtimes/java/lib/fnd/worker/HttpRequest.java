package fnd.worker;

import fnd.Request;
import fnd.Upload;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The request in the head of an Invoke. */
final class HttpRequest implements Request {
    private final Map<String, Object> made;
    private final byte[] payload;
    private final Map<String, String> headers = new LinkedHashMap<>();
    private final String contentType;
    /** Null until it is read. */
    private Form form;

    @SuppressWarnings("unchecked")
    HttpRequest(Map<String, Object> head, byte[] payload) {
        this.made = (Map<String, Object>) head.getOrDefault("request", Map.of());
        this.payload = payload;
        for (List<String> header : pairs("headers")) {
            headers.merge(header.get(0), header.get(1), (before, value) -> before + ", " + value);
        }
        contentType = (String) head.getOrDefault("content_type", headers.get("content-type"));
        if (contentType != null) {
            headers.putIfAbsent("content-type", contentType);
        }
    }

    @SuppressWarnings("unchecked")
    private List<List<String>> pairs(String key) {
        return (List<List<String>>) made.getOrDefault(key, List.of());
    }

    @Override
    public String method() {
        return (String) made.getOrDefault("method", payload == null ? "GET" : "POST");
    }

    @Override
    public String path() {
        return (String) made.getOrDefault("path", "/");
    }

    @Override
    public String queryString() {
        return (String) made.getOrDefault("query", "");
    }

    @Override
    public Map<String, String> query() {
        Map<String, String> result = new LinkedHashMap<>();
        for (String pair : queryString().split("&")) {
            int middle = pair.indexOf('=');
            String name = middle < 0 ? pair : pair.substring(0, middle);
            if (!pair.isEmpty()) {
                result.put(decoded(name), middle < 0 ? "" : decoded(pair.substring(middle + 1)));
            }
        }
        return result;
    }

    private static String decoded(String text) {
        try {
            return URLDecoder.decode(text, StandardCharsets.UTF_8);
        } catch (IllegalArgumentException notEncoded) {
            return text;
        }
    }

    @Override
    public Map<String, String> headers() {
        return headers;
    }

    @Override
    public String contentType() {
        return contentType;
    }

    @Override
    public byte[] body() {
        return payload == null ? new byte[0] : payload;
    }

    @Override
    public String text() {
        return Payload.text(body(), contentType);
    }

    @Override
    public Object json() {
        return "application/json".equals(Payload.mediaType(contentType)) ? Payload.parse(body()) : null;
    }

    private synchronized Form form() {
        if (form == null) {
            form = Form.read(body(), contentType);
        }
        return form;
    }

    @Override
    public Map<String, List<String>> forms() {
        return form().fields;
    }

    @Override
    public Map<String, List<Upload>> files() {
        return form().files;
    }

    /** Removes what the form has left in {@code TMPDIR}. */
    synchronized void done() {
        if (form != null) {
            for (List<Upload> each : form.files.values()) {
                for (Upload file : each) {
                    try {
                        file.close();
                    } catch (IOException why) {
                        // It goes with `TMPDIR` when the worker ends.
                    }
                }
            }
        }
    }

    @Override
    public Map<String, String> params() {
        Map<String, String> result = new LinkedHashMap<>();
        pairs("params").forEach(pair -> result.put(pair.get(0), pair.get(1)));
        return result;
    }

    @Override
    public String route() {
        return (String) made.get("route");
    }

    @Override
    public String remoteAddr() {
        return (String) made.get("remote");
    }

    @Override
    public String scheme() {
        return (String) made.get("scheme");
    }

    @Override
    public String host() {
        return (String) made.get("host");
    }

    @Override
    public String protocol() {
        return (String) made.get("protocol");
    }
}
