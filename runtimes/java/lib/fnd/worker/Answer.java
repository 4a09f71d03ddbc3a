package fnd.worker;

import fnd.ExecuteAgainException;
import fnd.FailedException;
import fnd.Response;
import fnd.TransientException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Makes the messages to fnd: results, failures, log records. */
final class Answer {
    /** Largest text of a log record or a failure in characters; a larger frame would end the worker. */
    private static final int TEXT_MAX = 16 << 10;
    private static final int STACK_MAX = 32 << 10;
    private static final Set<String> RESPONSE_KEYS = Set.of("status", "headers", "body");
    /** Frames of the shim and of Java's reflection, which is how it calls the handler. */
    private static final Pattern HERE = Pattern.compile(
        "\\tat (?:fnd\\.worker\\.|Shim\\.|jdk\\.compiler/|java\\.base/(?:jdk\\.internal|java\\.lang\\.(?:reflect|invoke|Thread))\\.).*"
    );
    private static final Map<String, String> LEVELS = Map.of(
        "debug", "debug", "info", "info", "warn", "warning", "warning", "warning", "error", "error", "fatal", "error"
    );

    private Answer() {
    }

    /** Returns the content of a Result. */
    static byte[] result(Object value) {
        Map<String, Object> head = new LinkedHashMap<>();
        Object answer = response(value, head);
        byte[] body = new byte[0];
        if (answer instanceof byte[] bytes) {
            head.putIfAbsent("content_type", "application/octet-stream");
            body = bytes;
        } else if (answer != null) {
            boolean isText = answer instanceof CharSequence;
            head.putIfAbsent("content_type", isText ? "text/plain; charset=utf-8" : "application/json");
            body = utf8(isText ? answer.toString() : JsonWriter.write(answer));
        }
        if (answer != null) {
            head.put("data", body.length);
        }
        byte[] encoded = readable(JsonWriter.write(head));
        ByteBuffer content = ByteBuffer.allocate(4 + encoded.length + body.length).order(ByteOrder.LITTLE_ENDIAN);
        return content.putInt(encoded.length).put(encoded).put(body).array();
    }

    /** Takes status and headers out of an answer that has them, and returns its body. */
    private static Object response(Object value, Map<String, Object> head) {
        if (value instanceof Map<?, ?> map) {
            // A map is data, unless it has only the keys of a response.
            if (map.size() < 2 || !RESPONSE_KEYS.containsAll(map.keySet()) || !isStatus(map.get("status"))) {
                return value;
            }
            int status = ((Number) map.get("status")).intValue();
            return response(map.get("body"), status, map.get("headers") instanceof Map<?, ?> headers ? headers : Map.of(), head);
        } else if (value instanceof Response response) {
            if (!isStatus(response.status())) {
                String message = "the handler returned a response with status %d: expected a number from 200 to 599";
                throw new BadAnswer(message.formatted(response.status()));
            }
            Map<String, ?> headers = response.headers() == null ? Map.of() : response.headers();
            return response(response.body(), response.status(), headers, head);
        }
        return value;
    }

    private static Object response(Object body, int status, Map<?, ?> headers, Map<String, Object> head) {
        List<List<String>> pairs = new ArrayList<>();
        headers.forEach((key, value) -> {
            String name = key.toString().toLowerCase(Locale.ROOT);
            if (name.equals("content-type")) {
                head.put("content_type", String.valueOf(value));
            } else if (!name.equals("content-length")) {
                Collection<?> values = value instanceof Collection<?> several ? several : List.of(String.valueOf(value));
                values.forEach(text -> pairs.add(List.of(name, String.valueOf(text))));
            }
        });
        head.put("status", status);
        if (!pairs.isEmpty()) {
            head.put("headers", pairs);
        }
        return body;
    }

    private static boolean isStatus(Object value) {
        return (value instanceof Integer || value instanceof Long)
            && ((Number) value).longValue() >= 200 && ((Number) value).longValue() < 600;
    }

    /** Returns the content of an Error about a call. */
    static byte[] failure(Throwable error) {
        if (error instanceof ExecuteAgainException again) {
            try {
                Map<String, Object> answer = new LinkedHashMap<>(Map.of("kind", "execute-again", "message", message(error)));
                answer.put("data", again.data);
                return utf8(JsonWriter.write(answer));
            } catch (BadAnswer why) {
                String reason = why.getMessage().replace("the handler returned", "execute again: the data is");
                return readable(JsonWriter.write(Map.of("kind", "bad-answer", "message", reason)));
            }
        } else if (error instanceof BadAnswer) {
            return readable(JsonWriter.write(Map.of("kind", "bad-answer", "message", cut(error.getMessage(), TEXT_MAX))));
        } else if (error instanceof TransientException || error instanceof FailedException) {
            String kind = error instanceof FailedException ? "failed" : "transient";
            return readable(JsonWriter.write(Map.of("kind", kind, "message", message(error))));
        }
        return error(message(error), stack(error));
    }

    /** Returns the content of an Error of kind `error`. */
    static byte[] error(String message, String stack) {
        Map<String, Object> answer = Map.of(
            "kind", "error", "message", cut(message, TEXT_MAX), "stack", cut(stack, STACK_MAX)
        );
        return readable(JsonWriter.write(answer));
    }

    static String message(Throwable error) {
        String text = error.getMessage();
        String name = error.getClass().getSimpleName();
        if (text == null || text.isBlank()) {
            return error.getClass().getName();
        }
        // The texts of these are only a name or a path.
        boolean nameOnly = error instanceof LinkageError || error instanceof ReflectiveOperationException
            || error instanceof FileSystemException;
        return cut(nameOnly ? name + ": " + text : text, TEXT_MAX);
    }

    /** Returns the error as Java shows it, without the shim's frames. */
    static String stack(Throwable error) {
        try {
            StringWriter text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            return text.toString().lines().filter(line -> !HERE.matcher(line).matches())
                .collect(Collectors.joining("\n", "", "\n"));
        } catch (RuntimeException why) { // an exception whose own text fails
            return error.getClass().getName() + " (its stack failed: " + why.getClass().getName() + ")";
        }
    }

    /** Returns the content of a Log. */
    static byte[] record(String level, Object text, Map<String, ?> fields) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("time_ms", System.currentTimeMillis());
        answer.put("level", LEVELS.getOrDefault(String.valueOf(level).toLowerCase(Locale.ROOT), "info"));
        answer.put("message", cut(String.valueOf(text), TEXT_MAX));
        Map<String, Object> shown = new LinkedHashMap<>();
        if (fields != null) {
            fields.forEach((name, value) -> shown.put(String.valueOf(name), loggable(value)));
        }
        if (!shown.isEmpty() && JsonWriter.write(shown).length() <= TEXT_MAX) {
            answer.put("fields", shown);
        }
        return readable(JsonWriter.write(answer));
    }

    /** Returns a value, or its text if it is not JSON. */
    private static Object loggable(Object value) {
        try {
            JsonWriter.write(value);
            return value;
        } catch (BadAnswer notJson) {
            return String.valueOf(value);
        }
    }

    private static String cut(String text, int length) {
        return text.length() <= length ? text : text.substring(0, length) + "...";
    }

    /** Returns a text as UTF-8, or refuses half a character. */
    private static byte[] utf8(String text) {
        try {
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] result = new byte[bytes.remaining()];
            bytes.get(result);
            return result;
        } catch (CharacterCodingException why) {
            throw new BadAnswer("the handler returned text that cannot be UTF-8: it has half of a surrogate pair");
        }
    }

    /** Returns a text as UTF-8; what cannot be is replaced. */
    private static byte[] readable(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
