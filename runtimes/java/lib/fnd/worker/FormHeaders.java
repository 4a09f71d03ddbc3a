package fnd.worker;

import fnd.BadRequest;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The headers of a part of a form. */
final class FormHeaders {
    private static final String TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+";
    // Spaces are spelled out: what `\s` and `strip` take for space differs between languages, and so would the answers.
    private static final Pattern HEADER = Pattern.compile("(" + TOKEN + "):([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)");
    private static final Pattern PARAMETER = Pattern.compile(";[ \\t]*(" + TOKEN + ")=");
    private static final Pattern VALUE = Pattern.compile("[^ \\t\";]*");
    final String name;
    /** Null for a field. */
    final String filename;
    /** Empty without one. */
    final String contentType;

    FormHeaders(byte[] block) {
        Map<String, String> known = new HashMap<>();
        for (String line : text(block).split("\r\n", -1)) {
            Matcher header = HEADER.matcher(line);
            if (!header.matches()) {
                throw new BadRequest("a part has an invalid header line");
            }
            String key = header.group(1).toLowerCase(Locale.ROOT);
            if (known.put(key, strip(header.group(2))) != null) {
                throw new BadRequest("a part has the header `" + key + "` twice");
            }
        }
        String disposition = known.getOrDefault("content-disposition", "");
        if (!strip(disposition.split(";", 2)[0]).equalsIgnoreCase("form-data")) {
            throw new BadRequest("a part has no header `Content-Disposition: form-data`");
        }
        Map<String, String> found = parameters(disposition);
        if (!found.containsKey("name")) {
            throw new BadRequest("a part of the form has no name");
        }
        contentType = known.getOrDefault("content-type", "");
        if (contentType.toLowerCase(Locale.ROOT).startsWith("multipart/")) {
            throw new BadRequest("a part of the form is a multipart body itself");
        }
        name = found.get("name");
        filename = found.get("filename");
    }

    private static String text(byte[] block) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(block)).toString();
        } catch (CharacterCodingException invalid) {
            throw new BadRequest("the headers of a part are not UTF-8");
        }
    }

    private static String strip(String text) {
        int from = 0;
        int to = text.length();
        while (from < to && isSpace(text.charAt(from))) {
            from++;
        }
        while (to > from && isSpace(text.charAt(to - 1))) {
            to--;
        }
        return text.substring(from, to);
    }

    private static boolean isSpace(char character) {
        return character == ' ' || character == '\t';
    }

    /** Returns the parameters of a header: each is a token, or a quoted string in which only the quote may be escaped. */
    static Map<String, String> parameters(String header) {
        Map<String, String> found = new HashMap<>();
        Matcher parameter = PARAMETER.matcher(header);
        int at = header.indexOf(';');
        while (at >= 0 && at < header.length()) {
            if (!parameter.region(at, header.length()).lookingAt()) {
                throw new BadRequest("a header has invalid parameters");
            }
            at = parameter.end();
            int end = quoted(header, at);
            String value;
            if (end >= 0) {
                // Browsers send a quote as `%22`; others escape it. Any other backslash is a part of the value.
                value = header.substring(at + 1, end - 1).replace("\\\"", "\"").replace("%22", "\"");
                at = end;
            } else {
                Matcher token = VALUE.matcher(header).region(at, header.length());
                token.lookingAt();
                value = token.group();
                at = token.end();
            }
            if (found.put(parameter.group(1).toLowerCase(Locale.ROOT), value) != null) {
                throw new BadRequest("a header has the parameter `" + parameter.group(1) + "` twice");
            }
            while (at < header.length() && isSpace(header.charAt(at))) {
                at++;
            }
        }
        return found;
    }

    /** Returns where a quoted string ends that begins at a place; -1 where none does. A pattern would recurse for each letter. */
    private static int quoted(String header, int from) {
        if (from >= header.length() || header.charAt(from) != '"') {
            return -1;
        }
        for (int at = from + 1; at < header.length(); at++) {
            if (header.charAt(at) == '"') {
                return at + 1;
            } else if (header.charAt(at) == '\\') {
                at++;
            }
        }
        return -1;
    }
}
