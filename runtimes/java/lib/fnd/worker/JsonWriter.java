package fnd.worker;

import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.util.Collection;
import java.util.Map;

/** Writes JSON: maps, collections, arrays, records, enums, text, numbers, booleans and null. */
final class JsonWriter {
    private final StringBuilder out = new StringBuilder();
    private int depth;

    /** Returns a value as JSON, or throws {@link BadAnswer} if it is none. */
    static String write(Object value) {
        JsonWriter writer = new JsonWriter();
        writer.value(value);
        return writer.out.toString();
    }

    private void value(Object value) {
        if (value == null || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof CharSequence || value instanceof Character || value instanceof Enum) {
            string(value instanceof Enum<?> constant ? constant.name() : value.toString());
        } else if (value instanceof Number number) {
            number(number);
        } else if (++depth > JsonReader.DEPTH_MAX) {
            throw new BadAnswer("the handler returned a value that is nested too deeply, or contains itself");
        } else {
            container(value);
            depth--;
        }
    }

    private void container(Object value) {
        if (value instanceof Map<?, ?> map) {
            object(map);
        } else if (value instanceof Collection<?> items) {
            String before = "[";
            for (Object item : items) {
                out.append(before);
                value(item);
                before = ",";
            }
            out.append(items.isEmpty() ? "[]" : "]");
        } else if (value.getClass().isArray() && !(value instanceof byte[])) {
            out.append('[');
            for (int i = 0; i < Array.getLength(value); i++) {
                out.append(i == 0 ? "" : ",");
                value(Array.get(value, i));
            }
            out.append(']');
        } else if (value.getClass().isRecord()) {
            record(value);
        } else {
            throw notJson(value.getClass().getTypeName());
        }
    }

    private void object(Map<?, ?> map) {
        out.append('{');
        String before = "";
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            Object key = entry.getKey();
            if (!(key instanceof CharSequence || key instanceof Number || key instanceof Enum)) {
                throw notJson("a map with the key " + key);
            }
            out.append(before);
            string(key instanceof Enum<?> constant ? constant.name() : key.toString());
            out.append(':');
            value(entry.getValue());
            before = ",";
        }
        out.append('}');
    }

    private void record(Object value) {
        out.append('{');
        String before = "";
        for (RecordComponent component : value.getClass().getRecordComponents()) {
            out.append(before);
            string(component.getName());
            out.append(':');
            try {
                Method accessor = component.getAccessor();
                accessor.setAccessible(true);
                value(accessor.invoke(value));
            } catch (ReflectiveOperationException | RuntimeException why) {
                throw why instanceof BadAnswer bad ? bad : notJson(value.getClass().getTypeName());
            }
            before = ",";
        }
        out.append('}');
    }

    private void number(Number number) {
        boolean fraction = number instanceof Double || number instanceof Float;
        // What another class of numbers writes may be no JSON: `1/2`.
        boolean known = number.getClass().getName().startsWith("java.");
        if (!known || (fraction && !Double.isFinite(number.doubleValue()))) {
            throw notJson("the number " + number);
        }
        out.append(number);
    }

    private void string(String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char next = text.charAt(i);
            if (next == '"' || next == '\\') {
                out.append('\\').append(next);
            } else if (next == '\n') {
                out.append("\\n");
            } else if (next < ' ') {
                out.append(String.format("\\u%04x", (int) next));
            } else {
                out.append(next);
            }
        }
        out.append('"');
    }

    private static BadAnswer notJson(String what) {
        return new BadAnswer("the handler returned a value that is not text, bytes or JSON: " + what);
    }
}
