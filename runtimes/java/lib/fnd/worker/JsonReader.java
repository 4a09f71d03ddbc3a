package fnd.worker;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads JSON. An object is a map that keeps the order of its keys. A whole number is a Long, or a BigInteger if it is too
 * large; any other number is a Double, or a BigDecimal if a Double would lose digits.
 */
final class JsonReader {
    /** Levels of nesting. */
    static final int DEPTH_MAX = 1000;
    /** A number of at most so many characters has at most 15 digits, which a Double keeps. */
    private static final int DOUBLE_LENGTH = 16;
    /** A Long has at most 19 digits. */
    private static final int LONG_LENGTH = 18;

    /** Says what is wrong with a text that should be JSON. */
    static final class BadJson extends IllegalArgumentException {
        BadJson(String message) {
            super(message);
        }
    }

    private final String text;
    private int at;
    private int depth;

    private JsonReader(String text) {
        this.text = text;
    }

    static Object read(String text) {
        JsonReader reader = new JsonReader(text);
        Object value = reader.value();
        if (reader.peek() != -1) {
            throw reader.bad("nothing more");
        }
        return value;
    }

    private Object value() {
        return switch (peek()) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", Boolean.TRUE);
            case 'f' -> word("false", Boolean.FALSE);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object() {
        Map<String, Object> result = new LinkedHashMap<>();
        enter();
        if (!skip('}')) {
            do {
                if (peek() != '"') {
                    throw bad("a key in quotes");
                }
                String key = string();
                expect(':');
                result.put(key, value());
            } while (skip(','));
            expect('}');
        }
        depth--;
        return result;
    }

    private List<Object> array() {
        List<Object> result = new ArrayList<>();
        enter();
        if (!skip(']')) {
            do {
                result.add(value());
            } while (skip(','));
            expect(']');
        }
        depth--;
        return result;
    }

    private void enter() {
        at++;
        if (++depth > DEPTH_MAX) {
            throw new BadJson("it is nested more than " + DEPTH_MAX + " levels deep");
        }
    }

    private String string() {
        int start = ++at;
        StringBuilder built = null;
        while (at < text.length()) {
            char next = text.charAt(at++);
            if (next == '"') {
                String rest = text.substring(start, at - 1);
                return built == null ? rest : built.append(rest).toString();
            } else if (next == '\\') {
                built = built == null ? new StringBuilder() : built;
                built.append(text, start, at - 1).append(escaped());
                start = at;
            } else if (next < ' ') {
                at--;
                throw bad("no control character in a string");
            }
        }
        throw bad("`\"`");
    }

    private char escaped() {
        char kind = at < text.length() ? text.charAt(at++) : 0;
        switch (kind) {
            case '"', '\\', '/':
                return kind;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                int code = 0;
                for (int end = at + 4; at < end; at++) {
                    int digit = at < text.length() ? Character.digit(text.charAt(at), 16) : -1;
                    if (digit < 0 || text.charAt(at) > 'f') {
                        throw bad("four hexadecimal digits");
                    }
                    code = code * 16 + digit;
                }
                return (char) code;
            default:
                at--;
                throw bad("an escape such as `\\n`");
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw bad("a value");
        }
        at += word.length();
        return value;
    }

    private Number number() {
        int start = at;
        boolean negative = take("-");
        if (!take("0") && !digits()) {
            throw bad("a value");
        }
        boolean whole = true;
        boolean plain = true;
        if (take(".")) {
            whole = false;
            if (!digits()) {
                throw bad("a digit");
            }
        }
        if (take("eE")) {
            whole = plain = false;
            take("+-");
            if (!digits()) {
                throw bad("a digit");
            }
        }
        String found = text.substring(start, at);
        if (whole && !(negative && found.equals("-0"))) {
            if (found.length() <= LONG_LENGTH) {
                return Long.parseLong(found);
            }
            BigInteger large = new BigInteger(found);
            return large.bitLength() < Long.SIZE ? (Number) large.longValue() : large;
        }
        double rounded = Double.parseDouble(found);
        if (plain && found.length() <= DOUBLE_LENGTH) {
            return rounded;
        }
        return exact(found, rounded);
    }

    private Number exact(String found, double rounded) {
        try {
            BigDecimal exact = new BigDecimal(found);
            boolean same = !Double.isInfinite(rounded) && new BigDecimal(Double.toString(rounded)).compareTo(exact) == 0;
            return same ? (Number) rounded : exact;
        } catch (NumberFormatException tooLarge) {
            throw bad("a smaller exponent");
        }
    }

    private boolean digits() {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        return at > start;
    }

    /** Takes one of these characters. */
    private boolean take(String characters) {
        boolean found = at < text.length() && characters.indexOf(text.charAt(at)) >= 0;
        at += found ? 1 : 0;
        return found;
    }

    /** Returns the next character that is no blank, -1 at the end. */
    private int peek() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : -1;
    }

    private boolean skip(char wanted) {
        boolean found = peek() == wanted;
        at += found ? 1 : 0;
        return found;
    }

    private void expect(char wanted) {
        if (!skip(wanted)) {
            throw bad("`" + wanted + "`");
        }
    }

    private BadJson bad(String expected) {
        return new BadJson("expected " + expected + " at character " + (Math.min(at, text.length()) + 1));
    }
}
