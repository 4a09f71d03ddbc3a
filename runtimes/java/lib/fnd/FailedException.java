package fnd;

/** Says that a retry is useless: the attempt ends as {@code failed}. */
public class FailedException extends RuntimeException {
    public FailedException(String message) {
        super(message);
    }

    public FailedException(String message, Throwable cause) {
        super(message, cause);
    }
}
