package fnd;

/**
 * Says that the work is not done yet: the function is called again after {@code [poll] repeat}, with the data as
 * {@code previous}.
 */
public class ExecuteAgainException extends RuntimeException {
    /** Anything that JSON can say. */
    public final transient Object data;

    public ExecuteAgainException(String message, Object data) {
        super(message);
        this.data = data;
    }
}
