package fnd.worker;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The payload by its content type. */
final class Payload {
    private static final Pattern CHARSET = Pattern.compile(";\\s*charset\\s*=\\s*\"?([^\";\\s]+)", Pattern.CASE_INSENSITIVE);

    /** A CloudEvent: its data, and its attributes as {@code ce-NAME}. */
    record CloudEvent(Object data, Map<String, Object> attributes) {
    }

    private Payload() {
    }

    static String mediaType(String contentType) {
        return contentType == null ? null : contentType.split(";", 2)[0].strip().toLowerCase(Locale.ROOT);
    }

    /** Returns a payload as JSON, text or bytes. Without content type: JSON if it parses, else text. */
    static Object decode(byte[] payload, String contentType) {
        String kind = mediaType(contentType);
        if (payload == null) {
            return null;
        } else if (kind == null) {
            return guess(payload);
        } else if (kind.equals("application/json")) {
            return parse(payload);
        }
        return kind.startsWith("text/") ? text(payload, contentType) : payload;
    }

    private static Object guess(byte[] payload) {
        String text;
        try {
            text = utf8(payload);
        } catch (CharacterCodingException binary) {
            return payload;
        }
        try {
            return JsonReader.read(text);
        } catch (JsonReader.BadJson isText) {
            return text;
        }
    }

    static Object parse(byte[] payload) {
        try {
            String text = utf8(payload);
            text = text.startsWith("\ufeff") ? text.substring(1) : text;
            return text.isEmpty() ? null : JsonReader.read(text);
        } catch (CharacterCodingException | JsonReader.BadJson why) {
            String reason = why instanceof JsonReader.BadJson ? why.getMessage() : "it is not UTF-8";
            throw new IllegalArgumentException("the content type says JSON, but the payload is not: " + reason);
        }
    }

    /** Returns text in the character set of the content type; what is invalid is replaced. */
    static String text(byte[] payload, String contentType) {
        Charset charset = StandardCharsets.UTF_8;
        Matcher named = CHARSET.matcher(contentType == null ? "" : contentType);
        if (named.find()) {
            try {
                charset = Charset.forName(named.group(1));
            } catch (IllegalArgumentException unknown) {
                // UTF-8 is the most likely one.
            }
        }
        return new String(payload, charset);
    }

    static CloudEvent structured(byte[] payload) {
        if (!(parse(payload) instanceof Map<?, ?> event)) {
            throw new IllegalArgumentException("the content type says CloudEvent, but the payload is not a JSON object");
        }
        Object data = event.remove("data");
        if (event.remove("data_base64") instanceof String bytes) {
            String type = event.get("datacontenttype") instanceof String known ? known : "application/octet-stream";
            data = decode(Base64.getDecoder().decode(bytes), type);
        }
        Map<String, Object> attributes = new LinkedHashMap<>();
        event.forEach((name, value) -> attributes.put("ce-" + name, value));
        return new CloudEvent(data, attributes);
    }

    private static String utf8(byte[] bytes) throws CharacterCodingException {
        return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    }
}
