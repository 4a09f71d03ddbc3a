package fnd;

/** Asks for a retry: the attempt ends as {@code transient}. */
public class TransientException extends RuntimeException {
    public TransientException(String message) {
        super(message);
    }

    public TransientException(String message, Throwable cause) {
        super(message, cause);
    }
}
