package fnd;

import java.util.Map;

/** Log records of one call: {@code context.log.info("order", Map.of("id", 7))}. */
@FunctionalInterface
public interface Logger {
    /** Writes a record; the level is {@code debug}, {@code info}, {@code warning} or {@code error}. */
    void log(String level, Object text, Map<String, ?> fields);

    default void debug(Object text) {
        log("debug", text, Map.of());
    }

    default void debug(Object text, Map<String, ?> fields) {
        log("debug", text, fields);
    }

    default void info(Object text) {
        log("info", text, Map.of());
    }

    default void info(Object text, Map<String, ?> fields) {
        log("info", text, fields);
    }

    default void warning(Object text) {
        log("warning", text, Map.of());
    }

    default void warning(Object text, Map<String, ?> fields) {
        log("warning", text, fields);
    }

    default void error(Object text) {
        log("error", text, Map.of());
    }

    default void error(Object text, Map<String, ?> fields) {
        log("error", text, fields);
    }
}
